"""The backend of a ``postgresql://`` URL. See also: `driver`."""

from __future__ import annotations

from oarlock.storage.postgres.driver import PostgresDriver
from oarlock.storage.postgres.url import parse_url
from oarlock.storage.sql.server.backend import SqlServerBackend

__all__ = ["open_postgres"]


def open_postgres(url: str, *, create: bool) -> SqlServerBackend:
    """A backend that isn't started yet. Raises `StorageError` with a one-line message."""
    return SqlServerBackend(PostgresDriver(parse_url(url)), create=create)
