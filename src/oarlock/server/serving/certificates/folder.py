"""The folder that certificates are kept in, and its lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oarlock.server.files.written import locked
from oarlock.server.serving.certificates.tls import BadCertificateFile

__all__ = ["locked_directory"]


@contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """Lock `directory`, created if missing. Raises `BadCertificateFile` if it can't be written."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(directory):
            yield
    except FileExistsError as error:
        raise BadCertificateFile(f"{directory}: it is no folder, and certificates are kept in one") from error
    except OSError as error:
        raise BadCertificateFile(f"{error.filename or directory}: {error.strerror}") from error
