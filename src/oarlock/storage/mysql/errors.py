"""Translates the driver's errors: what it means for a call that the database said no, or nothing.

Must not know: what was tried. See also: `session`.
"""

from __future__ import annotations

import asyncio
import ssl

from asyncmy import errors

from oarlock.storage.backend import StorageError, Unavailable
from oarlock.storage.sql.reads import StoreBroken

__all__ = ["DRIVER_ERRORS", "NotSent", "is_lost", "refused", "translate"]

DRIVER_ERRORS: tuple[type[Exception], ...] = (
    errors.MySQLError,
    OSError,
    asyncio.IncompleteReadError,
    EOFError,
    RuntimeError,
    AssertionError,  # the driver's way of saying that a packet isn't what it expected
)
"""What the driver raises when the server refuses, or when the connection ends at an unfortunate place."""


class NotSent(Exception):
    """A COMMIT was not sent, because of `error`: a statement before it failed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


_HELP = {
    1045: "check user and password",
    1698: "check user and password",
    1044: "grant the user SELECT, INSERT, UPDATE, DELETE and CREATE on the database",
    1142: "grant the user SELECT, INSERT, UPDATE, DELETE and CREATE on the database",
    1049: "create it with CREATE DATABASE",
    1130: "let the user connect from this machine",
    1040: "raise max_connections",
    1203: "raise max_user_connections",
    1153: "raise max_allowed_packet",
    1205: "another transaction holds the lock of the store",
    1213: "another transaction was in the way",
    1290: "is that server a replica?",
    1836: "is that server a replica?",
    1792: "is that server a replica?",
    1021: "see that its disk has space",
    1026: "see that its disk has space",
    1030: "see that its disk has space",
    1114: "see that its disk has space",
    1665: "set binlog_format to ROW or MIXED",
    1043: "does the server speak TLS? ssl-mode=DISABLED does without",
    3159: "the server asks for TLS: ssl-mode=REQUIRED",
}
"""What to do, by the server's error codes."""

_BROKEN = frozenset((1034, 1035, 1194, 1195, 1712, 1877, 1932, 1146, 1054))
"""An index, table or file is corrupted, or a table or column isn't there any more."""

_ROLLED_BACK = frozenset((1213, 1290, 1836, 1792, 3100, 3101))
"""A COMMIT that was answered with one of these was not executed."""

_LOST = frozenset((1053, 1152, 1153, 1158, 1159, 1160, 1161, 1927, 1317, 4031))
"""The server ends the connection with these."""


def translate(error: Exception) -> StorageError:
    """The error of the protocol for one of the driver's."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, NotSent):
        return translate(error.error)
    if isinstance(error, TimeoutError):
        return Unavailable("the database doesn't answer in time")
    code = _code(error)
    text = " ".join(str(error.args[1] if code and len(error.args) > 1 else error).split()) or type(error).__name__
    if code in _BROKEN:
        return StoreBroken(f"the tables of the store are damaged ({text}): restore it from a backup")
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return Unavailable(f"no TLS with the database: {text}; check ssl-ca, ssl-cert and ssl-mode")
    return Unavailable(f"the database: {text}" + (f"; {_HELP[code]}" if code in _HELP else ""))


def refused(error: Exception) -> bool:
    """Whether `error`, raised by a COMMIT, is the server's word that the transaction was rolled back."""
    return isinstance(error, NotSent) or _code(error) in _ROLLED_BACK


def is_lost(error: errors.MySQLError) -> bool:
    """Whether the connection ended with the error. The server's own errors leave it as it was."""
    code = _code(error)
    of_the_server = 1000 <= code < 2000 or code >= 3000
    return not of_the_server or code in _LOST


def _code(error: Exception) -> int:
    """The server's or the driver's error code; 0 for an error that has none."""
    first = error.args[0] if isinstance(error, errors.MySQLError) and error.args else 0
    return first if isinstance(first, int) else 0
