"""The backend of a ``mysql://`` or ``mariadb://`` URL. See also: `driver`."""

from __future__ import annotations

from oarlock.storage.mysql.address import parse_address
from oarlock.storage.mysql.driver import MysqlDriver
from oarlock.storage.sql.server.backend import SqlServerBackend

__all__ = ["open_mysql"]


def open_mysql(url: str, *, create: bool) -> SqlServerBackend:
    """A backend that isn't started yet. Raises `StorageError` with a one-line message."""
    return SqlServerBackend(MysqlDriver(parse_address(url)), create=create)
