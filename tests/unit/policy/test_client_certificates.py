"""Client certificates: who is named by one, and which are refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from oarlock.meta.context import Peer, User
from oarlock.policy.authn.authenticator import BadCredentials, CertificateBundleError, Credentials
from oarlock.policy.authn.certificates import ClientCertificates, load_bundle

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
CLIENT = [ExtendedKeyUsageOID.CLIENT_AUTH]


@dataclass
class FakeClock:
    time: float = NOW.timestamp()

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return 0.0


def named(common_name: str, *organizations: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organizations]
    if common_name:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    return x509.Name(attributes)


@dataclass
class Authority:
    """An authority of the test's own, with no more extensions than plain tools give one."""

    name: str = "cluster-ca"
    issuer: Authority | None = None
    ca: bool = True
    path_length: int | None = None
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    certificate: x509.Certificate = field(init=False)

    def __post_init__(self) -> None:
        issuer = self.issuer or self
        builder = self._builder(named(self.name), issuer.subject, self.key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(self.ca, self.path_length), critical=True)
        self.certificate = builder.sign(issuer.key, hashes.SHA256())

    @property
    def subject(self) -> x509.Name:
        return named(self.name)

    @staticmethod
    def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - timedelta(days=1))
            .not_valid_after(NOW + timedelta(days=1))
        )

    def issue(
        self,
        subject: x509.Name,
        uses: Sequence[ObjectIdentifier] | None = tuple(CLIENT),
        signer: Authority | None = None,
    ) -> bytes:
        builder = self._builder(subject, self.subject, ec.generate_private_key(ec.SECP256R1()).public_key())
        if uses is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage(list(uses)), critical=False)
        return builder.sign((signer or self).key, hashes.SHA256()).public_bytes(Encoding.DER)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)


CA = Authority()


def presented(certificate: bytes | None, *chain: bytes) -> Credentials:
    return Credentials({}, (), Peer("192.0.2.1", 1, certificate, chain, tls=True))


async def ask(certificate: bytes | None, *chain: bytes, clock: FakeClock | None = None) -> User | None:
    authenticator = ClientCertificates([CA.certificate], clock or FakeClock())
    identity = await authenticator.authenticate(presented(certificate, *chain))
    return None if identity is None else identity.user


async def test_the_common_name_is_the_user_and_the_organizations_its_groups() -> None:
    user = await ask(CA.issue(named("alice", "devs", "system:masters")))
    assert user is not None
    assert (user.name, user.groups) == ("alice", ("devs", "system:masters", "system:authenticated"))
    [credential] = user.extra["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("X509SHA256=")
    assert len(credential) == len("X509SHA256=") + 64


async def test_no_certificate_and_one_without_a_name_are_no_credential() -> None:
    assert await ask(None) is None
    assert await ask(CA.issue(named("", "devs"))) is None


@pytest.mark.parametrize(
    "uses", [None, [ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE], [*CLIENT, ExtendedKeyUsageOID.SERVER_AUTH]]
)
async def test_certificates_that_may_be_used_by_clients_are_taken(uses: Sequence[ObjectIdentifier] | None) -> None:
    assert await ask(CA.issue(named("alice"), uses)) is not None


async def test_a_certificate_for_servers_is_refused() -> None:
    with pytest.raises(BadCredentials):
        await ask(CA.issue(named("alice"), [ExtendedKeyUsageOID.SERVER_AUTH]))


async def test_a_stranger_with_the_same_name_is_refused() -> None:
    with pytest.raises(BadCredentials):
        await ask(Authority().issue(named("alice", "system:masters")))
    with pytest.raises(BadCredentials):
        await ask(Authority("other").issue(named("alice")))


async def test_the_authority_itself_is_no_client() -> None:
    impostor = Authority()
    with pytest.raises(BadCredentials):
        await ask(impostor.der)


async def test_an_intermediate_is_followed() -> None:
    middle = Authority("middle", issuer=CA)
    leaf = middle.issue(named("alice"))
    assert await ask(leaf, middle.der) is not None
    with pytest.raises(BadCredentials):
        await ask(leaf)


async def test_an_intermediate_that_is_no_authority_is_refused() -> None:
    client = Authority("alice", issuer=CA, ca=False)
    with pytest.raises(BadCredentials):
        await ask(client.issue(named("system:admin", "system:masters")), client.der)


async def test_the_length_of_a_path_is_kept() -> None:
    short = Authority("short", issuer=CA, path_length=0)
    assert await ask(short.issue(named("alice")), short.der) is not None
    longer = Authority("longer", issuer=short)
    with pytest.raises(BadCredentials):
        await ask(longer.issue(named("alice")), longer.der, short.der)


@pytest.mark.parametrize("days", [-2, 2])
async def test_it_is_valid_only_in_its_time(days: int) -> None:
    clock = FakeClock()
    clock.time += days * 86_400
    with pytest.raises(BadCredentials):
        await ask(CA.issue(named("alice")), clock=clock)


async def test_a_remembered_certificate_still_expires() -> None:
    clock = FakeClock()
    authenticator = ClientCertificates([CA.certificate], clock)
    credentials = presented(CA.issue(named("alice")))
    first = await authenticator.authenticate(credentials)
    assert await authenticator.authenticate(credentials) is first
    clock.time += 2 * 86_400
    with pytest.raises(BadCredentials):
        await authenticator.authenticate(credentials)


@pytest.mark.parametrize("cut", [0, 1, 10, 100, -1])
async def test_what_is_no_certificate_is_refused(cut: int) -> None:
    whole = CA.issue(named("alice"))
    with pytest.raises(BadCredentials):
        await ask(whole[:cut])
    with pytest.raises(BadCredentials):
        await ask(os.urandom(200))


async def test_a_changed_byte_is_refused() -> None:
    whole = bytearray(CA.issue(named("alice")))
    at = whole.index(b"alice")
    whole[at : at + 5] = b"admin"
    with pytest.raises(BadCredentials):
        await ask(bytes(whole))


def test_a_bundle_without_certificates_names_the_file() -> None:
    with pytest.raises(CertificateBundleError, match=r"^ca\.pem: "):
        load_bundle(b"nothing here", "ca.pem")
    pem = CA.certificate.public_bytes(Encoding.PEM)
    assert len(load_bundle(pem + pem, "ca.pem")) == 2


def version_1(subject: str, issuer: Authority, folder: Path, days: int = 100_000) -> bytes:
    """What ``openssl x509 -req`` makes without a file of extensions: a certificate of version 1."""
    (folder / "ca.pem").write_bytes(issuer.certificate.public_bytes(Encoding.PEM))
    key = issuer.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "ca.key").write_bytes(key)
    commands = [
        ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "k", "-out", "r"],
        ["x509", "-req", "-in", "r", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "c"],
    ]
    commands[0] += ["-subj", f"/O=devs/CN={subject}"]
    commands[1] += ["-days", str(days), "-outform", "DER", "-sha256"]
    for words in commands:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
    made = (folder / "c").read_bytes()
    if x509.load_der_x509_certificate(made).version is not x509.Version.v1:
        pytest.skip("this openssl makes certificates of version 3")
    return made


class Today(FakeClock):
    """OpenSSL makes certificates that are valid from now on."""

    def now(self) -> float:
        return self.time + 10


@pytest.fixture
def today() -> Today:
    return Today(datetime.now(UTC).timestamp())


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch) -> Authority:
    """One that is valid now."""
    monkeypatch.setitem(globals(), "NOW", datetime.now(UTC))
    return Authority("today")


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")


async def answered(authority: Authority, clock: FakeClock, certificate: bytes, *chain: bytes) -> User | None:
    identity = await ClientCertificates([authority.certificate], clock).authenticate(presented(certificate, *chain))
    return None if identity is None else identity.user


@needs_openssl
async def test_a_certificate_of_version_1_is_taken(authority: Authority, today: Today, tmp_path: Path) -> None:
    user = await answered(authority, today, version_1("vone", authority, tmp_path))
    assert user is not None
    assert (user.name, user.groups) == ("vone", ("devs", "system:authenticated"))
    middle = Authority("middle", issuer=authority, path_length=0)
    leaf = version_1("vone", middle, tmp_path)
    assert await answered(authority, today, leaf, middle.der) is not None
    lower = Authority("lower", issuer=middle)
    with pytest.raises(BadCredentials, match="x509: certificate signed by unknown authority"):
        await answered(authority, today, version_1("v", lower, tmp_path), lower.der, middle.der)


@needs_openssl
async def test_a_certificate_of_version_1_is_verified(authority: Authority, today: Today, tmp_path: Path) -> None:
    strangers = version_1("v", Authority("today"), tmp_path)
    with pytest.raises(BadCredentials, match=r"unknown authority.*candidate authority certificate"):
        await answered(authority, today, strangers)
    client = Authority("alice", issuer=authority, ca=False)
    with pytest.raises(BadCredentials, match="unknown authority"):
        await answered(authority, today, version_1("v", client, tmp_path), client.der)
    with pytest.raises(BadCredentials, match=r"unknown authority$"):
        await answered(authority, today, version_1("v", Authority("other"), tmp_path))
    mine = bytearray(version_1("vone", authority, tmp_path))
    mine[mine.index(b"vone") : mine.index(b"vone") + 4] = b"root"
    with pytest.raises(BadCredentials):
        await answered(authority, today, bytes(mine))
    short = version_1("v", authority, tmp_path, days=1)
    today.time += 2 * 86_400
    with pytest.raises(BadCredentials, match=r"certificate has expired or is not yet valid: current time .* is after"):
        await answered(authority, today, short)


@pytest.mark.parametrize(
    ("certificate", "text"),
    [
        (Authority("other").issue(named("alice")), "x509: certificate signed by unknown authority"),
        (
            CA.issue(named("alice"), [ExtendedKeyUsageOID.SERVER_AUTH]),
            "x509: certificate specifies an incompatible key usage",
        ),
    ],
)
async def test_refusals_are_told_in_the_words_that_people_search_for(certificate: bytes, text: str) -> None:
    with pytest.raises(BadCredentials) as refused:
        await ask(certificate)
    assert str(refused.value) == text


async def test_an_intermediate_in_the_bundle_is_an_authority() -> None:
    middle = Authority("middle", issuer=CA)
    authenticator = ClientCertificates([middle.certificate], FakeClock())
    identity = await authenticator.authenticate(presented(middle.issue(named("alice"))))
    assert identity is not None


async def test_a_subject_with_two_uids_is_refused() -> None:
    uids = [x509.NameAttribute(ObjectIdentifier("1.3.6.1.4.1.57683.2"), uid) for uid in ("a", "b")]
    alice = x509.NameAttribute(NameOID.COMMON_NAME, "alice")
    assert (await ask(CA.issue(x509.Name([alice, uids[0]]))) or User("nobody")).uid == "a"
    with pytest.raises(BadCredentials, match="several UIDs"):
        await ask(CA.issue(x509.Name([alice, *uids])))


async def test_an_intermediate_that_may_not_sign_is_refused() -> None:
    client = Authority("alice", issuer=CA, ca=False)
    with pytest.raises(BadCredentials, match="unknown authority"):
        await ask(client.issue(named("bob")), client.der)
