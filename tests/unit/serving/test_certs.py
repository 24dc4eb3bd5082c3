"""Certificates made when none are given: what is in them, when they are made again, what is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from oarlock.server.serving.certificates.serving_pair import ensure_certificates
from oarlock.server.serving.certificates.tls import BadCertificateFile

NOW = 1_800_000_000.0
DAY = 86_400


def _load(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def test_what_is_made(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path / "deep" / "certs", ("db.example", "10.0.0.1", "localhost"), NOW)
    certificate, ca = _load(files.certificate), _load(files.ca)
    certificate.verify_directly_issued_by(ca)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "db.example"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1", "10.0.0.1"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    directory = files.ca.parent
    assert sorted(os.listdir(directory)) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    for name in ("ca.key", "tls.key"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600


def test_it_is_used_again_until_30_days_before_its_end(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, (), NOW)
    first, ca = files.certificate.read_bytes(), files.ca.read_bytes()
    ensure_certificates(tmp_path, ("127.0.0.1",), NOW + 334 * DAY)
    assert files.certificate.read_bytes() == first
    ensure_certificates(tmp_path, (), NOW + 336 * DAY)
    assert files.certificate.read_bytes() != first
    assert files.ca.read_bytes() == ca


def test_a_new_host_needs_a_new_certificate_of_the_same_ca(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, (), NOW)
    first, ca = files.certificate.read_bytes(), files.ca.read_bytes()
    ensure_certificates(tmp_path, ("db.example",), NOW)
    second = files.certificate.read_bytes()
    assert second != first
    ensure_certificates(tmp_path, (), NOW)
    assert files.certificate.read_bytes() == second
    assert files.ca.read_bytes() == ca


def test_a_ca_at_its_end_is_made_again_and_with_it_the_certificate(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, (), NOW)
    ca = files.ca.read_bytes()
    ensure_certificates(tmp_path, (), NOW + 3630 * DAY)
    assert files.ca.read_bytes() != ca
    _load(files.certificate).verify_directly_issued_by(_load(files.ca))


def test_a_crash_between_the_two_files_is_repaired(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, (), NOW)
    files.certificate.unlink()
    ensure_certificates(tmp_path, (), NOW)
    _load(files.certificate).verify_directly_issued_by(_load(files.ca))


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
def test_rubbish_is_not_overwritten_but_named(tmp_path: Path, name: str) -> None:
    ensure_certificates(tmp_path, (), NOW)
    (tmp_path / name).write_text("rubbish")
    with pytest.raises(BadCertificateFile, match=name):
        ensure_certificates(tmp_path, (), NOW)
    assert (tmp_path / name).read_text() == "rubbish"


@pytest.mark.parametrize("name", ["ca.key", "tls.key"])
def test_a_key_of_something_else_is_named(tmp_path: Path, name: str) -> None:
    ensure_certificates(tmp_path / "a", (), NOW)
    ensure_certificates(tmp_path / "b", (), NOW)
    (tmp_path / "a" / name).write_bytes((tmp_path / "b" / name).read_bytes())
    with pytest.raises(BadCertificateFile, match=name):
        ensure_certificates(tmp_path / "a", (), NOW)


def test_a_missing_ca_key_is_named(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, (), NOW)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(BadCertificateFile, match=r"ca\.key: No such file"):
        ensure_certificates(tmp_path, (), NOW)


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "certs").write_text("")
    with pytest.raises(BadCertificateFile, match="certs: it isn't a folder"):
        ensure_certificates(tmp_path / "certs", (), NOW)
