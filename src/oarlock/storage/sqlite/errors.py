"""Translates errors of SQLite and the file system into those of the storage protocol.

    apsw.FullError, ENOSPC, EFBIG, EDQUOT  → Unavailable: writes fail until there is space
    apsw.BusyError, apsw.LockedError       → Unavailable: another program holds the file
    apsw.ReadOnlyError, PermissionsError   → Unavailable: the file can't be written
    any other apsw.IOError, CorruptError   → StoreBroken: the process must not write again

Must not know: keys, revisions, threads. See also: `writer`, which stops at `StoreBroken`.
"""

from __future__ import annotations

import errno

import apsw

from oarlock.storage.backend import StorageError, Unavailable
from oarlock.storage.sql.errors import StoreBroken

__all__ = ["translate"]

_NO_SPACE = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})


def translate(error: BaseException, path: str, connection: apsw.Connection | None = None) -> StorageError:
    """The `StorageError` for `error`, with a one-line message that says what to do.

    `connection` gives the system's errno.
    """
    if isinstance(error, StorageError):
        return error
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and _errno(connection) in _NO_SPACE):
        return Unavailable(f"no space for {path}: writes fail until there is some, reads go on", retry_after_s=5.0)
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return Unavailable(f"another program holds {path} locked: close it, writes go on by themselves")
    if isinstance(error, (apsw.ReadOnlyError, apsw.PermissionsError)):
        return Unavailable(f"{path} can't be written: make the file and its directory writable", retry_after_s=5.0)
    if isinstance(error, apsw.NotADBError):
        return StoreBroken(f"{path} is not a SQLite database: choose another file")
    if isinstance(error, apsw.CorruptError):
        return StoreBroken(f"{path} is damaged ({error}): stop, restore it, and run `oarlock storage check`")
    if isinstance(error, (apsw.IOError, OSError)):
        return StoreBroken(
            f"reading or writing {path} failed ({error}): check the disk, then restart", retry_after_s=30.0
        )
    return Unavailable(f"{path}: {type(error).__name__}: {error}")


def _errno(connection: apsw.Connection | None) -> int:
    return connection.system_errno if connection is not None else 0
