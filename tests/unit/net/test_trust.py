"""Whom a TLS connection believes: what Go's clients would, on every Python."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from oarlock.net.trust import trusting, trusting_anybody

HOST = "hook.example.com"
KEY = ec.generate_private_key(ec.SECP256R1())


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def issued(
    subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, ca: bool
) -> bytes:
    """A certificate as plain as old scripts make them: without identifiers of keys."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(subject))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
    )
    if ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    else:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)


AUTHORITY_KEY, MIDDLE_KEY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
AUTHORITY = issued("root", "root", AUTHORITY_KEY, AUTHORITY_KEY, True)
MIDDLE = issued("middle", "root", MIDDLE_KEY, AUTHORITY_KEY, True)
LEAF = issued(HOST, "middle", KEY, MIDDLE_KEY, False)


def handshake(client: ssl.SSLContext, folder: Path) -> None:
    """Raises SSLError. The server shows its own certificate and the intermediate's."""
    (folder / "cert").write_bytes(LEAF + MIDDLE)
    (folder / "key").write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert", folder / "key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=HOST if client.check_hostname else None),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("anchor", [AUTHORITY, MIDDLE, LEAF], ids=["the authority", "an intermediate", "the leaf"])
def test_whatever_is_in_a_bundle_is_believed(anchor: bytes, tmp_path: Path):
    handshake(trusting(anchor), tmp_path)
    (tmp_path / "ca").write_bytes(anchor)
    handshake(trusting(file=tmp_path / "ca"), tmp_path)


def test_others_are_not(tmp_path: Path):
    other = issued("root", "root", KEY, KEY, True)
    for context in (trusting(other), trusting()):
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(context, tmp_path)
    handshake(trusting_anybody(), tmp_path)


def test_a_bundle_without_a_certificate_is_an_error(tmp_path: Path):
    with pytest.raises((OSError, ValueError)):
        trusting(b"nothing")
    (tmp_path / "ca").touch()
    with pytest.raises((OSError, ValueError)):
        trusting(file=tmp_path / "ca")


def test_strictness_is_the_same_on_every_python():
    assert not trusting().verify_flags & ssl.VERIFY_X509_STRICT
    assert trusting().verify_mode is ssl.CERT_REQUIRED
    assert trusting().check_hostname
