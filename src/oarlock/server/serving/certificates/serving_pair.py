"""The serving certificate of a server that is given none: kept in files, made with a CA of its own.

Files: ``ca.crt``, ``ca.key``, ``tls.crt``, ``tls.key``; keys are readable by their owner only. An existing certificate
is used while it is valid for another 30 days and names every host. See also: `tried_certificates`, which says whether
it is; `issuing`, which makes another one; `tls`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.server.serving.certificates.tried_certificates import KeptPair, certificates_do, locked_directory

__all__ = ["ServingFiles", "ensure_certificates", "held_certificates"]

LOCAL = ("localhost", "127.0.0.1", "::1")
RENEWAL = timedelta(days=30)


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
    authority = KeptPair(directory / "ca.crt", directory / "ca.key")
    serving = KeptPair(directory / "tls.crt", directory / "tls.key")
    if not certificates_do(authority, serving, names, moment, RENEWAL):
        # Imported here, because it is large, and most starts find certificates.
        from oarlock.server.serving.certificates.issuing import complete  # noqa: PLC0415 (see above)

        complete(authority, serving, names, moment, RENEWAL)
    return ServingFiles(authority.certificate, serving.certificate, serving.key)
