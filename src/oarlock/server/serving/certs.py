"""Generates a CA and a serving certificate if none are given.

Files: ``ca.crt``, ``ca.key``, ``tls.crt``, ``tls.key``; keys are readable by their owner only. An existing certificate
is used while it is valid for another 30 days and names every host. See also: `tls`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from oarlock.server.files import locked, write_file
from oarlock.server.serving.tls import BadCertificateFile

__all__ = ["ServingFiles", "ensure_certificates", "held_certificates"]

LOCAL = ("localhost", "127.0.0.1", "::1")
CA_DAYS = 3650
SERVING_DAYS = 365
RENEW_DAYS = 30


@dataclass(frozen=True, slots=True)
class ServingFiles:
    """The paths of the certificates."""

    ca: Path
    certificate: Path
    key: Path


@contextmanager
def held_certificates(directory: Path, hosts: Sequence[str], now: float) -> Iterator[ServingFiles]:
    """The serving certificate in `directory` for localhost and `hosts`, generated if missing or unsuitable.

    `now` is in seconds since the epoch. A new certificate is signed by the existing CA, so clients that trust it go on.
    The directory is locked while the context lasts: load the files in it. However many servers start at once, there is
    one CA, and files left incomplete by a crash are completed. Raises `BadCertificateFile` for files that can't be
    read, or don't belong together.
    """
    with _locked(directory):
        yield _ensure(directory, hosts, datetime.fromtimestamp(now, UTC))


def ensure_certificates(directory: Path, hosts: Sequence[str], now: float) -> ServingFiles:
    """The same without the lock, for callers that only need the paths."""
    with held_certificates(directory, hosts, now) as files:
        return files


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock `directory`, created if missing. Raises `BadCertificateFile` if it can't be written."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(directory):
            yield
    except FileExistsError as error:
        raise BadCertificateFile(f"{directory}: it is no folder, and certificates are kept in one") from error
    except OSError as error:
        raise BadCertificateFile(f"{error.filename or directory}: {error.strerror}") from error


def _ensure(directory: Path, hosts: Sequence[str], moment: datetime) -> ServingFiles:
    names = tuple(dict.fromkeys((*LOCAL, *hosts)))
    files = ServingFiles(directory / "ca.crt", directory / "tls.crt", directory / "tls.key")
    authority, authority_key = _authority(directory, moment)
    current = _read_certificate(files.certificate)
    if current is not None and files.key.exists() and _fits(current, authority, names, moment):
        if _public(current) == _public_of(_read_key(files.key)):
            return files
        raise _mismatch(files.certificate, files.key)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _issue(key, authority, authority_key, moment, names)
    _write_pair(files.certificate, certificate, files.key, key)
    return files


def _authority(directory: Path, moment: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate_file, key_file = directory / "ca.crt", directory / "ca.key"
    certificate = _read_certificate(certificate_file)
    if certificate is not None and certificate.not_valid_after_utc - moment > timedelta(days=RENEW_DAYS):
        key = _read_key(key_file)
        if _public(certificate) != _public_of(key):
            raise _mismatch(certificate_file, key_file)
        return certificate, key
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"oarlock-ca@{int(moment.timestamp())}")])
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
    _write_pair(certificate_file, certificate, key_file, key)
    return certificate, key


def _write_pair(
    certificate_file: Path, certificate: x509.Certificate, key_file: Path, key: ec.EllipticCurvePrivateKey
) -> None:
    """Remove the old certificate first: a crash must not leave a certificate with another one's key."""
    certificate_file.unlink(missing_ok=True)
    write_file(key_file, _pem(key), 0o600)
    write_file(certificate_file, certificate.public_bytes(Encoding.PEM), 0o644)


def _mismatch(certificate: Path, key: Path) -> BadCertificateFile:
    what = f"it is not the key of the certificate in {certificate}"
    return BadCertificateFile(f"{key}: {what}; remove both files, and new ones are made")


def _issue(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    moment: datetime,
    hosts: Sequence[str],
) -> x509.Certificate:
    """The serving certificate for `hosts`."""
    ends = min(moment + timedelta(days=SERVING_DAYS), authority.not_valid_after_utc)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "oarlock-apiserver")]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - timedelta(hours=1))
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName(_names(hosts)), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


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


def _names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _fits(current: x509.Certificate, authority: x509.Certificate, hosts: Sequence[str], moment: datetime) -> bool:
    if current.not_valid_after_utc - moment <= timedelta(days=RENEW_DAYS) or current.not_valid_before_utc > moment:
        return False
    try:
        current.verify_directly_issued_by(authority)
        present = current.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return set(_names(hosts)) <= set(present)


def _read_certificate(file: Path) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadCertificateFile(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise BadCertificateFile(f"{file}: it holds no certificate in PEM form") from error


def _read_key(file: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(file.read_bytes(), None)
    except OSError as error:
        raise BadCertificateFile(f"{file}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise BadCertificateFile(f"{file}: it holds no unencrypted private key in PEM form") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCertificateFile(f"{file}: it holds no elliptic-curve key")
    return key


def _public(certificate: x509.Certificate) -> object:
    key = certificate.public_key()
    return key.public_numbers() if isinstance(key, ec.EllipticCurvePublicKey) else None


def _public_of(key: ec.EllipticCurvePrivateKey) -> object:
    return key.public_key().public_numbers()


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
