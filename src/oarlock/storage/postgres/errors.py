"""Translates PostgreSQL's errors, and those of the connection, into those of the storage protocol.

    53xxx (disk full, too many connections), 57P03 (starting up)    → Unavailable, with what is lacking
    55P03 (lock timeout), 57014 (statement timeout), 40xxx          → Unavailable: not done
    25006 (read only), 42501 (rights), 28xxx, 3D000                 → Unavailable, with what to do
    08xxx, 57P0x, a lost connection                                 → Unavailable
    XX001, XX002 (damaged)                                          → StoreBroken

Messages of the server are passed on in one line; they never have the password. See also: `sql.server.writer`, which
knows when an outcome is unknown.
"""

from __future__ import annotations

import logging
import ssl

import asyncpg

from oarlock.storage.backend import StorageError, Unavailable
from oarlock.storage.passwords import without_password
from oarlock.storage.sql.reads import StoreBroken

__all__ = ["refused", "translate"]

log = logging.getLogger("oarlock.storage.postgres")

_ADVICE = {
    "53100": "the disk of the database is full: writes fail until there is space, reads go on",
    "53200": "the database is out of memory",
    "53300": "the database accepts no more connections: raise max_connections or use fewer servers",
    "55P03": "another session has held the lock of the store for too long: see pg_stat_activity for one that is stuck",
    "57014": "a statement took too long and was cancelled",
    "57P03": "the database is starting up or shutting down",
    "25006": "the database only takes reads (a standby, or default_transaction_read_only): name the primary",
    "28P01": "the user or the password is wrong",
    "28000": "the database doesn't let this user in: see pg_hba.conf",
    "3D000": "the database doesn't exist: create it first",
    "42P01": "the tables of the store are not there any more",
    "42501": "the user lacks rights: see the grants in the documentation",
}

_LOST = "the connection to the database was lost"

_ROLLED_BACK = frozenset({"23", "25", "40"})
"""Classes of errors after which a COMMIT certainly did nothing."""


def translate(error: Exception) -> StorageError:
    """The `StorageError` for `error`, with a message of one line."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, asyncpg.exceptions.TargetServerAttributeNotMatched):
        return Unavailable(f"none of the hosts takes writes: {_ADVICE['25006']}", 5.0)
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        if state[:2] == "08" or isinstance(error, asyncpg.InterfaceError):
            return Unavailable(_LOST)
        if state in ("XX001", "XX002"):
            return StoreBroken(f"the database is damaged ({_line(error)}): restore it from a backup")
        advice = _ADVICE.get(state)
        message = f"{advice} ({_line(error)})" if advice else _line(error)
        return Unavailable(message, 5.0 if state[:2] in ("53", "28", "3D", "42") else 1.0)
    if isinstance(error, TimeoutError):
        return Unavailable("the database didn't answer in time")
    if isinstance(error, ssl.SSLError):
        return Unavailable(f"TLS with the database failed: {_line(error)}", 5.0)
    if isinstance(error, asyncpg.ClientConfigurationError):
        return Unavailable(f"the database can't be connected to: {_line(error)}", 5.0)
    if isinstance(error, OSError):
        return Unavailable(f"the database can't be reached: {_line(error)}")
    # What else the driver says is of its own affairs, mostly of a connection that broke in the middle of something.
    if not isinstance(error, (asyncpg.InterfaceError, asyncpg.InternalClientError)):
        log.warning("the driver failed: %s: %s", type(error).__name__, _line(error))
    return Unavailable(_LOST)


def refused(error: Exception) -> bool:
    """Whether the server said that it rolled the transaction back."""
    return isinstance(error, asyncpg.PostgresError) and (error.sqlstate or "")[:2] in _ROLLED_BACK


def _line(error: Exception) -> str:
    return without_password(" ".join(str(error).split())) or type(error).__name__
