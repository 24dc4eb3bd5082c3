"""Generates a CA and a serving certificate if none are given.

Files: ``ca.crt``, ``ca.key``, ``tls.crt``, ``tls.key``; keys are readable by their owner only. An existing certificate
is used while it is valid for another 30 days and names every host. See also: `issuing`, `tls`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from oarlock.meta.dataclass import dataclass
from oarlock.server.files import locked, write_file
from oarlock.server.serving.issuing import CertificatePair, alternative_names, issue, new_authority
from oarlock.server.serving.tls import BadCertificateFile

__all__ = ["ServingFiles", "ensure_certificates", "held_certificates"]

LOCAL = ("localhost", "127.0.0.1", "::1")
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
    authority = _authority(directory, moment)
    current = _read_certificate(files.certificate)
    if current is not None and files.key.exists() and _fits(current, authority.certificate, names, moment):
        if _public(current) == _public_of(_read_key(files.key)):
            return files
        raise _mismatch(files.certificate, files.key)
    _write_pair(files.certificate, files.key, issue(authority, names, moment))
    return files


def _authority(directory: Path, moment: datetime) -> CertificatePair:
    certificate_file, key_file = directory / "ca.crt", directory / "ca.key"
    certificate = _read_certificate(certificate_file)
    if certificate is not None and certificate.not_valid_after_utc - moment > timedelta(days=RENEW_DAYS):
        key = _read_key(key_file)
        if _public(certificate) != _public_of(key):
            raise _mismatch(certificate_file, key_file)
        return CertificatePair(certificate, key)
    pair = new_authority(moment)
    _write_pair(certificate_file, key_file, pair)
    return pair


def _write_pair(certificate_file: Path, key_file: Path, pair: CertificatePair) -> None:
    """Remove the old certificate first: a crash must not leave a certificate with another one's key."""
    certificate_file.unlink(missing_ok=True)
    write_file(key_file, pair.key_pem, 0o600)
    write_file(certificate_file, pair.certificate_pem, 0o644)


def _mismatch(certificate: Path, key: Path) -> BadCertificateFile:
    what = f"it is not the key of the certificate in {certificate}"
    return BadCertificateFile(f"{key}: {what}; remove both files, and new ones are made")


def _fits(current: x509.Certificate, authority: x509.Certificate, hosts: Sequence[str], moment: datetime) -> bool:
    if current.not_valid_after_utc - moment <= timedelta(days=RENEW_DAYS) or current.not_valid_before_utc > moment:
        return False
    try:
        current.verify_directly_issued_by(authority)
        present = current.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return set(alternative_names(hosts)) <= set(present)


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
