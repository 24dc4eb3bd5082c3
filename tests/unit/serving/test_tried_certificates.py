"""Whether certificates still do is found by a handshake in memory: what passes, and that any doubt is a no."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from oarlock.server.serving.certificates.issuing import complete, issue_client, new_authority, write_pair
from oarlock.server.serving.certificates.tried_certificates import KeptPair, certificates_do

NOW = datetime.fromtimestamp(int(time.time()), UTC)  # TLS itself asks the system's clock
REST = timedelta(days=30)
HOSTS = ("localhost", "127.0.0.1", "::1", "db.example", "10.0.0.1")


def pairs(directory: Path) -> tuple[KeptPair, KeptPair]:
    return KeptPair(directory / "ca.crt", directory / "ca.key"), KeptPair(directory / "tls.crt", directory / "tls.key")


def made(directory: Path, moment: datetime = NOW) -> Path:
    directory.mkdir(exist_ok=True)
    complete(*pairs(directory), HOSTS, moment, REST)
    return directory


def do(directory: Path, hosts: Sequence[str] = HOSTS, later: timedelta = timedelta()) -> bool:
    return certificates_do(*pairs(directory), hosts, NOW + later, REST)


def test_what_was_made_does_for_its_hosts_however_they_are_written(tmp_path: Path) -> None:
    assert do(made(tmp_path))
    assert do(tmp_path, ("0:0:0:0:0:0:0:1", "localhost"))
    assert not do(tmp_path, ("localhost", "other.example"))
    assert not do(tmp_path, ("10.0.0.2",))


@pytest.mark.parametrize(("days", "does"), [(334, True), (336, False), (-1, False)])
def test_a_certificate_does_from_its_beginning_until_the_rest_before_its_end(
    tmp_path: Path, days: int, does: bool
) -> None:
    assert do(made(tmp_path), later=timedelta(days=days)) == does


def test_an_authority_that_is_about_to_end_does_not(tmp_path: Path) -> None:
    made(tmp_path, NOW - timedelta(days=3650 - 29))
    assert not do(tmp_path)


def swapped_ca(mine: Path, other: Path) -> None:
    for name in ("ca.crt", "ca.key"):
        (mine / name).write_bytes((other / name).read_bytes())


def swapped_key_of_ca(mine: Path, other: Path) -> None:
    (mine / "ca.key").write_bytes((other / "ca.key").read_bytes())


def swapped_key(mine: Path, other: Path) -> None:
    (mine / "tls.key").write_bytes((other / "tls.key").read_bytes())


def two_authorities(mine: Path, other: Path) -> None:
    with (mine / "ca.crt").open("ab") as file:
        file.write((other / "ca.crt").read_bytes())


def a_certificate_of_a_client(mine: Path, other: Path) -> None:
    authority = new_authority(NOW)
    write_pair(mine / "ca.crt", mine / "ca.key", authority)
    write_pair(mine / "tls.crt", mine / "tls.key", issue_client(authority, "localhost", NOW))


def encrypted_key(mine: Path, other: Path) -> None:
    key = load_pem_private_key((mine / "tls.key").read_bytes(), None)
    sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (mine / "tls.key").write_bytes(sealed)


@pytest.mark.parametrize(
    "damage",
    [swapped_ca, swapped_key_of_ca, swapped_key, two_authorities, a_certificate_of_a_client, encrypted_key],
)
def test_what_does_not_belong_together_does_not_do(tmp_path: Path, damage: Callable[[Path, Path], None]) -> None:
    mine, other = made(tmp_path / "mine"), made(tmp_path / "other")
    damage(mine, other)
    assert not do(mine)
    assert do(other)


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize("content", [None, b"", b"rubbish", b"-----BEGIN CERTIFICATE-----\n!!\n"])
def test_missing_and_damaged_files_do_not_do(tmp_path: Path, name: str, content: bytes | None) -> None:
    made(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert not do(tmp_path)
