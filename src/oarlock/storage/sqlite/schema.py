"""The tables of the database, and how its file is opened.

Must not know: threads, locks, peers. See also: `oarlock.storage.sql.dialect` for what the tables mean.
"""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

import apsw

from oarlock.storage.backend import StorageError, Unavailable
from oarlock.storage.memory import FIRST_REV
from oarlock.storage.sql.dialect import SCHEMA_VERSION
from oarlock.storage.sql.reads import Meta, StoreBroken, read_meta
from oarlock.storage.sqlite.check import SQLITE, run

__all__ = ["check_place", "connect", "create_file", "prepare", "translate"]

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


_APPLICATION_ID = 0x6F61726C
"""SQLite's mark for whose file it is: "oarl"."""

_TABLES = """
CREATE TABLE meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  rev INTEGER NOT NULL,
  compact_rev INTEGER NOT NULL,
  swept_rev INTEGER NOT NULL,
  epoch TEXT NOT NULL,
  schema_version INTEGER NOT NULL
);
CREATE TABLE log (
  rev INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  op INTEGER NOT NULL,
  create_rev INTEGER NOT NULL,
  prev_rev INTEGER NOT NULL,
  expires INTEGER,
  value BLOB
);
CREATE UNIQUE INDEX log_by_key ON log (key, rev);
CREATE TABLE kv (
  key TEXT PRIMARY KEY,
  rev INTEGER NOT NULL,
  create_rev INTEGER NOT NULL,
  expires INTEGER
) WITHOUT ROWID;
CREATE INDEX kv_by_expiry ON kv (expires) WHERE expires IS NOT NULL;
"""

_WAL_KEPT_BYTES = 16 * 1024 * 1024


def check_place(path: Path, create: bool) -> None:
    """Check that a store is at `path`, or with `create` could be made there, without making anything.

    Raises `StorageError` with a one-line message.
    """
    if path.is_dir():
        raise StorageError(f"cannot open the store {path}: it is a directory; name a file in it")
    if not path.parent.is_dir():
        raise StorageError(f"cannot open the store {path}: the directory {path.parent} doesn't exist: create it first")
    if not path.exists() and not create:
        raise StorageError(f"cannot open the store {path}: the file doesn't exist")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        why = f"permission denied; make the directory {path.parent} writable"
        raise StorageError(f"cannot open the store {path}: {why}")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise StorageError(f"cannot open the store {path}: permission denied; make the file readable and writable")
    if path.exists() and path.stat().st_nlink > 1:
        raise StorageError(f"cannot open the store {path}: the file has several names (hard links); keep one")


def create_file(path: Path, create: bool) -> bool:
    """Check that `path` can be opened; with `create` make it, readable by its owner only, because stores hold secrets.

    Returns whether it was made. Raises `StorageError` with a one-line message.
    """
    check_place(path, create)
    try:
        # Only to create it: closing a descriptor of a file releases all POSIX locks of this process on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    except OSError as error:
        raise StorageError(f"cannot open the store {path}: {error.strerror}; make its directory writable") from None
    return True


def connect(path: Path, *, cache_kib: int, busy_timeout_s: float = 5.0) -> apsw.Connection:
    """A connection with this store's settings. Commits are durable; automatic checkpoints are off."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=256)
    connection.set_busy_timeout(int(busy_timeout_s * 1000))
    connection.wal_autocheckpoint(0)
    connection.execute(
        f"PRAGMA synchronous=FULL; PRAGMA cache_size=-{cache_kib}; PRAGMA temp_store=MEMORY;"
        f" PRAGMA journal_size_limit={_WAL_KEPT_BYTES}"
    )
    return connection


def prepare(connection: apsw.Connection, path: Path) -> Meta:
    """Create the tables of a new store, or check that an existing one is an oarlock store of a known version."""
    try:
        if connection.execute("PRAGMA journal_mode=WAL").get != "wal":
            raise StorageError(f"cannot open the store {path}: its file system can't do WAL; use a local disk")
        ours = connection.execute("PRAGMA application_id").get == _APPLICATION_ID
        if not ours:
            if connection.execute("SELECT count(*) FROM sqlite_schema").get:
                raise StorageError(f"cannot open the store {path}: it is a database of another program")
            with connection:
                connection.execute(_TABLES)
                connection.execute(
                    "INSERT INTO meta VALUES (1, ?, 0, 0, ?, ?)", (FIRST_REV, secrets.token_hex(8), SCHEMA_VERSION)
                )
                connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
        version = connection.execute("SELECT schema_version FROM meta").get
        if version > SCHEMA_VERSION:
            raise StorageError(
                f"cannot open the store {path}: a newer oarlock made it (schema {version}, this one knows"
                f" {SCHEMA_VERSION}); upgrade oarlock or choose another file"
            )
        return run(connection, read_meta(SQLITE))
    except apsw.Error as error:
        raise StorageError(f"cannot open the store {path}: {translate(error, str(path), connection)}") from error
