"""Detects that another file was copied over the store's file, by reading the file past SQLite.

The copy is in the same inode: open connections go on with cached pages, and their next write would mix both contents.
The one row of ``meta`` has a page of its own, which every checkpoint writes. It is read directly from the file, and
must have the same epoch, unless this store has begun another one in order, and never an older revision than before. If
that page can't be found (after a VACUUM, or before the first checkpoint), nothing is concluded.

Must not know: who asks, what follows. Source: SQLite's "Database File Format", sections 1.6 and 2.1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from oarlock.storage.backend import Rev
from oarlock.storage.sql.compaction import same_store

__all__ = ["Content"]

_LEAF_OF_A_TABLE = 13
_INTEGERS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
"""Serial types of NULL and integers, and how many bytes each takes; 8 and 9 are the numbers 0 and 1 themselves."""

_FIRST_OF_TEXT = 13
_COLUMNS = 6


class Content:
    """The file at `path`, opened as a store of this `epoch`."""

    def __init__(self, path: Path, epoch: str, connection: apsw.Connection) -> None:
        self._epoch = epoch
        self._connection: Final = connection
        self._size: Final[int] = connection.execute("PRAGMA page_size").get
        number: int = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'meta'").get
        self._offset: Final = (number - 1) * self._size
        # Kept open: closing any descriptor of a file releases all POSIX locks this process has on it.
        self._descriptor: Final = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._stamp = (0, 0)
        self._rev: Rev = 0

    def changed(self) -> bool:
        """Whether the file was written by anybody since the last call of `problem`."""
        status = os.fstat(self._descriptor)
        return (status.st_mtime_ns, status.st_size) != self._stamp

    def problem(self) -> str:
        """How the file contradicts what was read before; ``""`` when it doesn't or nothing could be read.

        For the thread of the connection, outside of its transactions.
        """
        status = os.fstat(self._descriptor)
        self._stamp = (status.st_mtime_ns, status.st_size)
        row = _row_of_meta(os.pread(self._descriptor, self._size, self._offset))
        if row is None:
            return "was emptied" if self._rev and status.st_size <= self._offset else ""
        rev, epoch = row
        if not same_store(epoch, self._epoch):
            return "was overwritten with another store"
        if rev < self._rev:
            return f"was overwritten with an older copy (of revision {rev}, it was at {self._rev})"
        if epoch != self._epoch and epoch != self._epoch_by_sqlite():
            return "was overwritten with a copy that has begun another epoch"
        self._rev, self._epoch = rev, epoch
        return ""

    def _epoch_by_sqlite(self) -> str:
        """The epoch as SQLite reads it: from its cache or the log, not from a file that was exchanged meanwhile."""
        try:
            return str(self._connection.execute("SELECT epoch FROM meta").get)
        except apsw.Error:
            return ""

    def close(self) -> None:
        os.close(self._descriptor)


def _row_of_meta(page: bytes) -> tuple[Rev, str] | None:
    """The revision and epoch; None when this isn't the page of ``meta``."""
    if page[:1] != bytes([_LEAF_OF_A_TABLE]) or page[3:5] != b"\0\1":
        return None
    try:
        values = list(_values(page, int.from_bytes(page[8:10])))
    except (IndexError, ValueError):
        return None
    if len(values) != _COLUMNS:
        return None
    rev, epoch = values[1], values[4]
    return (rev, epoch) if isinstance(rev, int) and isinstance(epoch, str) else None


def _values(page: bytes, at: int) -> Iterator[int | str]:
    """The columns of the record in the cell at `at`. Raises IndexError or ValueError when there is none."""
    _, at = _varint(page, at)
    _, begin = _varint(page, at)
    length, at = _varint(page, begin)
    body = begin + length
    while at < begin + length:
        kind, at = _varint(page, at)
        if kind in _INTEGERS:
            size = _INTEGERS[kind]
            yield kind - 8 if kind in (8, 9) else int.from_bytes(page[body : body + size], signed=True)
        elif kind >= _FIRST_OF_TEXT and kind % 2:
            size = (kind - _FIRST_OF_TEXT) // 2
            yield page[body : body + size].decode()
        else:
            raise ValueError(f"serial type {kind}")
        body += size


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    while True:
        byte = page[at]
        value, at = value << 7 | byte & 0x7F, at + 1
        if byte < 0x80:
            return value, at
