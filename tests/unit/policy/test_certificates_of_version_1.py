"""Client certificates without extensions: everything for which the authorities behind one are refused."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from oarlock.meta.context import Peer
from oarlock.policy.authn.authenticator import BadCredentials, Credentials
from oarlock.policy.authn.certificates import ClientCertificates
from oarlock.testing import VirtualClock

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")

TODAY = datetime.now(UTC)
IS_AUTHORITY = x509.BasicConstraints(ca=True, path_length=None)


def key_usage(*, signs: bool) -> x509.KeyUsage:
    named = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")
    others = dict.fromkeys((*named, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=True, key_cert_sign=signs, **others)


class Authority:
    """One with just these extensions."""

    def __init__(self, name: str, *extensions: x509.ExtensionType, issuer: Authority | None = None, days: int = 30):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = issuer or self
        builder = x509.CertificateBuilder(issuer.name, self.name, self.key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(TODAY - timedelta(days=1)).not_valid_after(TODAY + timedelta(days=days))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        self.certificate = builder.sign(issuer.key, hashes.SHA256())


def issued(authority: Authority, folder: Path, days: int = 20, digest: str = "sha256") -> bytes:
    """A certificate of version 1 for alice."""
    (folder / "ca.pem").write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    key = authority.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "ca.key").write_bytes(key)
    for command in (
        "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k -out r -subj /CN=alice",
        f"x509 -req -in r -CA ca.pem -CAkey ca.key -CAcreateserial -out c -outform DER -days {days} -{digest}",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    made = (folder / "c").read_bytes()
    if x509.load_der_x509_certificate(made).version is not x509.Version.v1:
        pytest.skip("this openssl makes certificates of version 3")
    return made


def name_of(leaf: bytes, trusted: Authority, chain: Sequence[Authority] = (), days: float = 0) -> str:
    """Who is let in so many days after the certificate was issued, by the clock of openssl."""
    begin = x509.load_der_x509_certificate(leaf).not_valid_before_utc
    clock = VirtualClock((begin + timedelta(days=days)).timestamp())
    peer = Peer("192.0.2.1", 1, leaf, tuple(one.certificate.public_bytes(Encoding.DER) for one in chain), tls=True)
    identity = asyncio.run(ClientCertificates([trusted.certificate], clock).authenticate(Credentials({}, (), peer)))
    assert identity is not None
    return identity.user.name


def test_it_is_taken_in_its_time_only(tmp_path: Path) -> None:
    authority = Authority("ca", IS_AUTHORITY)
    leaf = issued(authority, tmp_path, days=2)
    assert name_of(leaf, authority, days=1) == "alice"
    for days in (3, -0.5):
        with pytest.raises(BadCredentials, match="certificate has expired or is not yet valid"):
            name_of(leaf, authority, days=days)


def test_it_is_taken_in_the_time_of_its_authority_only(tmp_path: Path) -> None:
    authority = Authority("ca", IS_AUTHORITY, days=2)
    leaf = issued(authority, tmp_path)
    assert name_of(leaf, authority, days=1) == "alice"
    with pytest.raises(BadCredentials, match="expired"):
        name_of(leaf, authority, days=3)


@pytest.mark.parametrize(
    "extensions",
    [
        pytest.param([], id="says nothing of itself"),
        pytest.param([x509.BasicConstraints(ca=False, path_length=None)], id="is no authority"),
        pytest.param([IS_AUTHORITY, key_usage(signs=False)], id="may not sign certificates"),
        pytest.param([IS_AUTHORITY, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])], id="is for servers"),
    ],
)
def test_an_authority_that_may_not_have_signed_it_is_none(
    extensions: Sequence[x509.ExtensionType], tmp_path: Path
) -> None:
    authority = Authority("ca", *extensions)
    with pytest.raises(BadCredentials, match="unknown authority"):
        name_of(issued(authority, tmp_path), authority)


def test_an_authority_that_says_all_of_it_is_one(tmp_path: Path) -> None:
    uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    authority = Authority("ca", IS_AUTHORITY, key_usage(signs=True), uses)
    assert name_of(issued(authority, tmp_path), authority) == "alice"


@pytest.mark.parametrize("path_length", [None, 1, 0])
def test_the_length_of_a_path_is_kept(path_length: int | None, tmp_path: Path) -> None:
    root = Authority("root", x509.BasicConstraints(ca=True, path_length=path_length))
    middle = Authority("middle", IS_AUTHORITY, issuer=root)
    leaf = issued(middle, tmp_path)
    if path_length == 0:
        with pytest.raises(BadCredentials, match="unknown authority"):
            name_of(leaf, root, [middle])
    else:
        assert name_of(leaf, root, [middle]) == "alice"


def test_a_signature_that_can_be_forged_is_none(tmp_path: Path) -> None:
    authority = Authority("ca", IS_AUTHORITY)
    with pytest.raises(BadCredentials, match="x509: "):
        name_of(issued(authority, tmp_path, digest="sha1"), authority)
