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

from oarlock.meta.dataclass import dataclass
from oarlock.server.serving.issuing import CertificatePair, alternative_names, issue, new_authority
from oarlock.server.serving.kept_pairs import locked_directory, pair_of, read_certificate, write_pair

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
    with locked_directory(directory):
        yield _ensure(directory, hosts, datetime.fromtimestamp(now, UTC))


def ensure_certificates(directory: Path, hosts: Sequence[str], now: float) -> ServingFiles:
    """The same without the lock, for callers that only need the paths."""
    with held_certificates(directory, hosts, now) as files:
        return files


def _ensure(directory: Path, hosts: Sequence[str], moment: datetime) -> ServingFiles:
    names = tuple(dict.fromkeys((*LOCAL, *hosts)))
    files = ServingFiles(directory / "ca.crt", directory / "tls.crt", directory / "tls.key")
    authority = _authority(directory, moment)
    current = read_certificate(files.certificate)
    if current is not None and files.key.exists() and _fits(current, authority.certificate, names, moment):
        pair_of(current, files.certificate, files.key)
        return files
    write_pair(files.certificate, files.key, issue(authority, names, moment))
    return files


def _authority(directory: Path, moment: datetime) -> CertificatePair:
    certificate_file, key_file = directory / "ca.crt", directory / "ca.key"
    certificate = read_certificate(certificate_file)
    if certificate is not None and certificate.not_valid_after_utc - moment > timedelta(days=RENEW_DAYS):
        return pair_of(certificate, certificate_file, key_file)
    pair = new_authority(moment)
    write_pair(certificate_file, key_file, pair)
    return pair


def _fits(current: x509.Certificate, authority: x509.Certificate, hosts: Sequence[str], moment: datetime) -> bool:
    if current.not_valid_after_utc - moment <= timedelta(days=RENEW_DAYS) or current.not_valid_before_utc > moment:
        return False
    try:
        current.verify_directly_issued_by(authority)
        present = current.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return set(alternative_names(hosts)) <= set(present)
