"""What a ``mysql://`` URL says, and what is wrong with one that says nothing useful. No database is asked."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from oarlock.storage.backend import StorageError
from oarlock.storage.mysql.address import MysqlHost, parse_address


def test_a_whole_address() -> None:
    address = parse_address("mysql://me%40here:p%3Aw@db1,db2:3307,[::1]:3308/oar%20lock")
    assert (address.user, address.password(), address.database) == ("me@here", b"p:w", "oar lock")
    assert address.hosts == (MysqlHost("db1", 3306), MysqlHost("db2", 3307), MysqlHost("::1", 3308))
    assert address.shown == "mysql://me%40here:***@db1,db2:3307,[::1]:3308/oar%20lock"


def test_the_password_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    address = parse_address(f"mariadb://me@db/oarlock?password-file={file}")
    assert address.password() == b"first"
    file.write_text("zweites é")
    assert address.password() == "zweites é".encode()
    file.unlink()
    with pytest.raises(StorageError, match="cannot read password-file"):
        address.password()


@pytest.mark.parametrize(
    ("host", "query", "verifies", "checks_name"),
    [
        ("127.0.0.1", "", None, None),
        ("db", "?ssl-mode=disabled", None, None),
        ("db", "", ssl.CERT_NONE, False),
        ("127.0.0.1", "?ssl-mode=REQUIRED", ssl.CERT_NONE, False),
        ("db", "?ssl-ca={ca}", ssl.CERT_REQUIRED, True),
        ("db", "?ssl-ca={ca}&ssl-mode=VERIFY_CA", ssl.CERT_REQUIRED, False),
    ],
)
def test_tls(tmp_path: Path, host: str, query: str, verifies: int | None, checks_name: bool | None) -> None:
    trustme = pytest.importorskip("trustme")
    ca = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(ca))
    address = parse_address(f"mysql://me@{host}/oarlock{query.format(ca=ca)}")
    context = address.tls(address.hosts[0])
    assert (context and context.verify_mode, context and context.check_hostname) == (verifies, checks_name)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://me:secret@db", "write mysql://user"),
        ("mysql://db/oarlock", "write mysql://user"),
        ("mysql://me:secret@/oarlock", "write mysql://user"),
        ("mysql://me:secret@db/a/b", "write mysql://user"),
        ("mysql://me:secret@db/oarlock#x", "write mysql://user"),
        ("mysql://me:secret@db:99999/oarlock", "the port of 'db:99999' must be a number"),
        ("mysql://me:secret@db,/oarlock", "'' isn't a host"),
        ("mysql://me:secret@db/oarlock?sslmode=x", "unknown parameter 'sslmode': write one of password-file, ssl-ca"),
        ("mysql://me:secret@db/oarlock?ssl-mode=maybe", "ssl-mode is one of DISABLED"),
        ("mysql://me:secret@db/oarlock?ssl-mode=VERIFY_CA", "needs ssl-ca"),
        ("mysql://me:secret@db/oarlock?ssl-key=k", "ssl-key needs ssl-cert"),
        ("mysql://me:secret@db/oarlock?password-file=f", "not both"),
    ],
)
def test_a_wrong_address_is_told_in_a_line_without_the_password(url: str, why: str) -> None:
    with pytest.raises(StorageError) as error:
        parse_address(url)
    assert why in str(error.value)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_files_for_tls_that_are_not_there() -> None:
    address = parse_address("mysql://me:secret@db/oarlock?ssl-ca=/absent/ca.pem")
    with pytest.raises(StorageError, match=r"cannot use the TLS files of .*: No such file or directory"):
        address.tls(address.hosts[0])
