"""A certificate and a key that can't be used: the message names the file that is at fault, and nobody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from oarlock.server.serving.certificates.serving_pair import ServingFiles, ensure_certificates
from oarlock.server.serving.certificates.tls import BadCertificateFile, read_pair

NOW = 1_800_000_000.0


@pytest.fixture
def files(tmp_path: Path) -> ServingFiles:
    return ensure_certificates(tmp_path / "pki", (), NOW)


def problem(certificate: Path, key: Path) -> str:
    with pytest.raises(BadCertificateFile) as raised:
        read_pair(certificate, key)
    return str(raised.value)


def test_a_pair_is_the_bytes_of_both(files: ServingFiles) -> None:
    assert (
        read_pair(files.certificate, files.key).split()
        == (files.certificate.read_bytes() + files.key.read_bytes()).split()
    )


def test_files_that_hold_something_else(files: ServingFiles, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert problem(other, files.key) == f"{other}: No such file or directory"
    assert problem(files.certificate, other) == f"{other}: No such file or directory"
    for content in (b"", b"rubbish", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        other.write_bytes(content)
        assert problem(other, files.key) == f"{other}: it contains no certificate in PEM"
        assert problem(files.certificate, other) == f"{other}: it contains no private key in PEM"
    assert problem(files.key, files.certificate) == f"{files.key}: it contains no certificate in PEM"


def test_the_key_of_another_certificate(files: ServingFiles) -> None:
    other = files.ca.parent / "ca.key"
    assert problem(files.certificate, other) == (
        f"{other}: it is not the key of the certificate in {files.certificate}"
    )


@pytest.mark.parametrize("password", [b"secret", b"x"])
def test_an_encrypted_key_is_refused_without_asking_for_its_password(
    files: ServingFiles, tmp_path: Path, password: bytes
) -> None:
    key, sealed = load_pem_private_key(files.key.read_bytes(), None), tmp_path / "sealed.key"
    sealed.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password)))
    assert problem(files.certificate, sealed) == f"{sealed}: it is encrypted: use a key without a password"
