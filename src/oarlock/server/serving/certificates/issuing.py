"""Makes authorities, and certificates for servers and for clients; reads and writes them in the files of a directory.

Keys are of the curve P-256, readable by their owner only. Must not know: what they are for. See also: `serving_pair`,
which calls `complete`. Source: RFC 5280.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from oarlock.meta.dataclass import dataclass
from oarlock.server.files.credentials import write_file
from oarlock.server.serving.certificates.tls import BadCertificateFile
from oarlock.server.serving.certificates.tried_certificates import KeptPair, locked_directory

__all__ = [
    "FRONT_PROXY_NAME",
    "CertificatePair",
    "FrontProxyFiles",
    "alternative_names",
    "complete",
    "ensure_front_proxy",
    "issue",
    "issue_client",
    "new_authority",
    "pair_of",
    "read_bundle",
    "read_certificate",
    "write_pair",
]

CA_DAYS = 3650

SERVING_DAYS = 365

CLIENT_DAYS = 365


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def new_authority(moment: datetime, name: str = "oarlock-ca") -> CertificatePair:
    """An authority of its own, for ten years; it is called `name` and the time."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name}@{int(moment.timestamp())}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - timedelta(hours=1))
        .not_valid_after(moment + timedelta(days=CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return CertificatePair(certificate, key)


def issue(
    authority: CertificatePair, hosts: Sequence[str], moment: datetime, days: int = SERVING_DAYS
) -> CertificatePair:
    """A serving certificate for `hosts`, DNS names and addresses. It ends with its authority at the latest."""
    names = x509.SubjectAlternativeName(alternative_names(hosts))
    return _issued(authority, "oarlock-apiserver", (_purpose(ExtendedKeyUsageOID.SERVER_AUTH), names), moment, days)


def issue_client(authority: CertificatePair, name: str, moment: datetime, days: int = CLIENT_DAYS) -> CertificatePair:
    """A client's certificate with the common name `name`. It ends with its authority at the latest."""
    return _issued(authority, name, (_purpose(ExtendedKeyUsageOID.CLIENT_AUTH),), moment, days)


def _issued(
    authority: CertificatePair, name: str, extensions: Sequence[x509.ExtensionType], moment: datetime, days: int
) -> CertificatePair:
    key = ec.generate_private_key(ec.SECP256R1())
    signer = authority.certificate
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(signer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - timedelta(hours=1))
        .not_valid_after(min(moment + timedelta(days=days), signer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return CertificatePair(builder.sign(authority.key, hashes.SHA256()), key)


def _purpose(usage: x509.ObjectIdentifier) -> x509.ExtendedKeyUsage:
    return x509.ExtendedKeyUsage([usage])


def alternative_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """DNS names and addresses as a certificate has them."""
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def write_pair(
    certificate_file: Path, key_file: Path, pair: CertificatePair, others: Sequence[x509.Certificate] = ()
) -> None:
    """Write both files; the certificate's has `others` after it.

    The old certificate is removed first: a crash must not leave a certificate with another one's key.
    """
    certificate_file.unlink(missing_ok=True)
    write_file(key_file, pair.key_pem, 0o600)
    texts = (pair.certificate_pem, *(other.public_bytes(Encoding.PEM) for other in others))
    write_file(certificate_file, b"".join(texts), 0o644)


def pair_of(certificate: x509.Certificate, certificate_file: Path, key_file: Path) -> CertificatePair:
    """The certificate of a file with the key in another one. Raises `BadCertificateFile`."""
    key = _read_key(key_file)
    if certificate.public_key() != key.public_key():
        what = f"it is not the key of the certificate in {certificate_file}"
        raise BadCertificateFile(f"{key_file}: {what}: remove both files, and the server generates new ones")
    return CertificatePair(certificate, key)


def read_certificate(file: Path) -> x509.Certificate | None:
    """The first certificate in `file`; None if there is no such file. Raises `BadCertificateFile`."""
    return next(iter(read_bundle(file)), None)


def read_bundle(file: Path) -> list[x509.Certificate]:
    """The certificates in `file`; none if there is no such file. Raises `BadCertificateFile`."""
    try:
        return x509.load_pem_x509_certificates(file.read_bytes())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadCertificateFile(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise BadCertificateFile(f"{file}: it contains no certificate in PEM") from error


def _read_key(file: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(file.read_bytes(), None)
    except OSError as error:
        raise BadCertificateFile(f"{file}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise BadCertificateFile(f"{file}: it contains no unencrypted private key in PEM") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCertificateFile(f"{file}: it contains no elliptic-curve key")
    return key


FRONT_PROXY_NAME = "front-proxy-client"
"""The common name of the certificate."""

RENEW = timedelta(days=30)

RENEW_AUTHORITY = timedelta(days=60)


@dataclass(frozen=True, slots=True)
class FrontProxyFiles:
    """The paths of the certificate and its key, and in PEM the authorities that backends must trust."""

    certificate: Path
    key: Path
    authorities: bytes


def ensure_front_proxy(directory: Path, now: float) -> FrontProxyFiles:
    """The certificate in `directory`, made if missing or soon at its end; `now` is in seconds since the epoch.

    However many processes call it at once, they get the same. Files left incomplete by a crash are completed. Waits for
    locks and disks: call it in a thread. Raises `BadCertificateFile` for files that can't be read or written, or don't
    belong together.
    """
    moment = datetime.fromtimestamp(now, UTC)
    certificate, key = directory / f"{FRONT_PROXY_NAME}.crt", directory / f"{FRONT_PROXY_NAME}.key"
    with locked_directory(directory):
        authority, former = _authorities(directory, moment)
        trusted = (authority.certificate, *former)
        current = read_certificate(certificate)
        if current is None or not key.exists() or not _fits(current, trusted, moment):
            write_pair(certificate, key, issue_client(authority, FRONT_PROXY_NAME, moment))
        else:
            pair_of(current, certificate, key)
    return FrontProxyFiles(certificate, key, b"".join(authority.public_bytes(Encoding.PEM) for authority in trusted))


def _authorities(directory: Path, moment: datetime) -> tuple[CertificatePair, list[x509.Certificate]]:
    """The one that signs, and former ones that haven't ended."""
    certificate_file, key_file = directory / "front-proxy-ca.crt", directory / "front-proxy-ca.key"
    known = read_bundle(certificate_file)
    lasting = [certificate for certificate in known if certificate.not_valid_after_utc > moment]
    if lasting and lasting[0] is known[0] and lasting[0].not_valid_after_utc - moment > RENEW_AUTHORITY:
        return pair_of(lasting[0], certificate_file, key_file), lasting[1:]
    pair = new_authority(moment, "oarlock-front-proxy-ca")
    write_pair(certificate_file, key_file, pair, lasting)
    return pair, lasting


def _fits(current: x509.Certificate, trusted: tuple[x509.Certificate, ...], moment: datetime) -> bool:
    names = [attribute.value for attribute in current.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if names != [FRONT_PROXY_NAME] or current.not_valid_before_utc > moment:
        return False
    return current.not_valid_after_utc - moment > RENEW and any(_signed(current, by) for by in trusted)


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def complete(authority: KeptPair, serving: KeptPair, hosts: Sequence[str], moment: datetime, rest: timedelta) -> None:
    """Make each of both certificates again unless it does for `hosts`, and longer than `rest` from `moment` on.

    A serving certificate that fits is kept. Raises `BadCertificateFile` for files that can't be read, or don't belong
    together: they are never overwritten.
    """
    signer = _signer(authority, moment, rest)
    current = read_certificate(serving.certificate)
    if current is not None and serving.key.exists() and _serves(current, signer.certificate, hosts, moment, rest):
        pair_of(current, serving.certificate, serving.key)
        return
    write_pair(serving.certificate, serving.key, issue(signer, hosts, moment))


def _signer(files: KeptPair, moment: datetime, rest: timedelta) -> CertificatePair:
    certificate = read_certificate(files.certificate)
    if certificate is not None and certificate.not_valid_after_utc - moment > rest:
        return pair_of(certificate, files.certificate, files.key)
    pair = new_authority(moment)
    write_pair(files.certificate, files.key, pair)
    return pair


def _serves(
    current: x509.Certificate, authority: x509.Certificate, hosts: Sequence[str], moment: datetime, rest: timedelta
) -> bool:
    if current.not_valid_after_utc - moment <= rest or current.not_valid_before_utc > moment:
        return False
    try:
        current.verify_directly_issued_by(authority)
        present = current.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return set(alternative_names(hosts)) <= set(present)
