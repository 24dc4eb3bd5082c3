"""Somebody else's database: rows of machines, and the last changes. It knows nothing of Kubernetes.

Every change has a number, and a row has that of its last one. Old changes are forgotten. The calls block, so each
runs in a thread; other processes may write to the same file.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

T = TypeVar("T")

POLL_S = 1.0
"""How often to look for what other processes wrote."""

_TABLES = """
CREATE TABLE IF NOT EXISTS machines (hostname TEXT PRIMARY KEY, version INTEGER NOT NULL, row TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS changes (
    version INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT NOT NULL, row TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Row:
    """A machine. `notes` are texts that the inventory keeps for others, without looking into them."""

    hostname: str
    rack: str
    cores: int
    powered: bool
    boots: int = 0
    version: int = 0
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """`op` is insert, update or delete; `row` is the machine after it, or before it was deleted."""

    op: str
    row: Row


class Taken(Exception):
    """There is a machine of that name."""


class Missing(Exception):
    """There is no machine of that name."""


class Changed(Exception):
    """The machine isn't in the version that was expected."""


class Forgotten(Exception):
    """Changes that old aren't known any more; `oldest` is the version from which they are."""

    def __init__(self, oldest: int) -> None:
        super().__init__(oldest)
        self.oldest = oldest


class Inventory:
    """The database in a file, which is opened when it is first used. `keep` changes are remembered."""

    def __init__(self, path: str, *, keep: int = 1000) -> None:
        self._path = path
        self._keep = keep
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._news = asyncio.Event()

    async def find(self, hostname: str) -> Row | None:
        return await self._run(lambda db: _row(db, hostname))

    async def page(self, after: str, limit: int) -> tuple[list[Row], int]:
        """Up to `limit` rows behind the name `after`, in the order of names, and the version of the last change."""

        def read(db: sqlite3.Connection) -> tuple[list[Row], int]:
            found = db.execute(
                "SELECT version, row FROM machines WHERE hostname > ? ORDER BY hostname LIMIT ?", (after, limit)
            )
            return [_read(*row) for row in found], _last(db)

        return await self._run(read)

    async def add(self, row: Row) -> Row:
        """Raises Taken."""

        def write(db: sqlite3.Connection) -> Row:
            if _row(db, row.hostname) is not None:
                raise Taken(row.hostname)
            return self._note(db, "insert", row)

        return await self._write(write)

    async def change(self, row: Row, expected: int | None) -> Row:
        """Put `row` in the place of the one of its name; how often it booted isn't for others to say.

        Raises Missing, and Changed if the one that is there isn't `expected`.
        """

        def write(db: sqlite3.Connection) -> Row:
            live = _row(db, row.hostname)
            if live is None:
                raise Missing(row.hostname)
            if expected is not None and live.version != expected:
                raise Changed(row.hostname)
            return self._note(db, "update", replace(row, boots=live.boots))

        return await self._write(write)

    async def reboot(self, hostname: str) -> Row:
        """Raises Missing."""

        def write(db: sqlite3.Connection) -> Row:
            live = _row(db, hostname)
            if live is None:
                raise Missing(hostname)
            return self._note(db, "update", replace(live, powered=True, boots=live.boots + 1))

        return await self._write(write)

    async def remove(self, hostname: str) -> Row | None:
        def write(db: sqlite3.Connection) -> Row | None:
            live = _row(db, hostname)
            return None if live is None else self._note(db, "delete", live)

        return await self._write(write)

    async def changes(self, after: int) -> list[Change]:
        """What changed after a version, oldest first. Raises Forgotten."""

        def read(db: sqlite3.Connection) -> list[Change]:
            (oldest,) = db.execute("SELECT min(version) FROM changes").fetchone()
            if oldest is not None and after < oldest - 1:
                raise Forgotten(oldest - 1)
            found = db.execute("SELECT version, op, row FROM changes WHERE version > ? ORDER BY version", (after,))
            return [Change(op, _read(version, row)) for version, op, row in found]

        return await self._run(read)

    async def wait(self) -> None:
        """Until something was written here, or might have been elsewhere."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), POLL_S)

    def close(self) -> None:
        """Let go of the file. The next call opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _note(self, db: sqlite3.Connection, op: str, row: Row) -> Row:
        text = json.dumps(asdict(replace(row, version=0)))
        version = db.execute("INSERT INTO changes (op, row) VALUES (?, ?)", (op, text)).lastrowid
        assert version is not None
        if op == "delete":
            db.execute("DELETE FROM machines WHERE hostname = ?", (row.hostname,))
        else:
            db.execute("INSERT OR REPLACE INTO machines VALUES (?, ?, ?)", (row.hostname, version, text))
        db.execute("DELETE FROM changes WHERE version <= ?", (version - self._keep,))
        return replace(row, version=version)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        done = await self._run(work)
        self._news.set()
        self._news = asyncio.Event()
        return done

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._locked, work)

    def _locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._connection is None:
                self._connection = sqlite3.connect(self._path, check_same_thread=False, isolation_level="IMMEDIATE")
                self._connection.executescript(_TABLES)
            with self._connection:
                return work(self._connection)


def _row(db: sqlite3.Connection, hostname: str) -> Row | None:
    found = db.execute("SELECT version, row FROM machines WHERE hostname = ?", (hostname,)).fetchone()
    return None if found is None else _read(*found)


def _read(version: int, text: str) -> Row:
    return Row(**{**json.loads(text), "version": version})


def _last(db: sqlite3.Connection) -> int:
    found: int | None = db.execute("SELECT max(version) FROM changes").fetchone()[0]
    return found or 0
