"""Somebody else's database: a table of parts in SQLite, which other programs write too. It knows nothing of Kubernetes.

Triggers number every change, whoever makes it, and keep the last thousand. The calls block, so each runs in a thread.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

POLL_S = 1.0
"""How often to look for what other programs wrote."""

_TABLES = """
CREATE TABLE IF NOT EXISTS parts (
    site TEXT NOT NULL, sku TEXT NOT NULL, title TEXT NOT NULL, stock INTEGER NOT NULL DEFAULT 0,
    supplier TEXT NOT NULL, metadata TEXT NOT NULL DEFAULT '{}', version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (site, sku));
CREATE TABLE IF NOT EXISTS changes (
    version INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT NOT NULL,
    site TEXT, sku TEXT, title TEXT, stock INTEGER, supplier TEXT, metadata TEXT);
INSERT INTO changes (op) SELECT 'CREATED' WHERE NOT EXISTS (SELECT 1 FROM changes);
"""
_TRIGGER = """
CREATE TRIGGER IF NOT EXISTS {op} AFTER {when} ON parts BEGIN
    INSERT INTO changes (op, site, sku, title, stock, supplier, metadata)
        VALUES ('{op}', {row}.site, {row}.sku, {row}.title, {row}.stock, {row}.supplier, {row}.metadata);
    UPDATE parts SET version = last_insert_rowid() WHERE site = {row}.site AND sku = {row}.sku;
    DELETE FROM changes WHERE version <= last_insert_rowid() - 1000;
END;
"""
_TRIGGERS = "".join(
    _TRIGGER.format(op=op, when=when, row=row)
    for op, when, row in (
        ("ADDED", "INSERT", "new"),
        ("MODIFIED", "UPDATE OF title, stock, supplier, metadata", "new"),
        ("DELETED", "DELETE", "old"),
    )
)
_COLUMNS = "site, sku, title, stock, supplier, metadata, version"


class Row(NamedTuple):
    """A part at a site. `metadata` is a text that the table keeps for others."""

    site: str
    sku: str
    title: str
    stock: int
    supplier: str
    metadata: str = "{}"
    version: int = 0


class Forgotten(Exception):
    """Changes that old aren't known any more."""


class PartsTable:
    """The database in a file, which is opened when it is first used."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._news = asyncio.Event()

    async def find(self, site: str, sku: str) -> Row | None:
        found = await self._rows(f"SELECT {_COLUMNS} FROM parts WHERE site = ? AND sku = ?", site, sku)
        return Row(*found[0]) if found else None

    async def page(self, site: str, supplier: str, after: tuple[str, str], limit: int) -> tuple[list[Row], int]:
        """Up to `limit` rows behind `after`, of a site and a supplier or of all, and the version of the last change."""

        def read(db: sqlite3.Connection) -> tuple[list[Row], int]:
            found = db.execute(
                f"SELECT {_COLUMNS} FROM parts WHERE (site, sku) > (?, ?) AND ? IN ('', site) AND ? IN ('', supplier)"
                " ORDER BY site, sku LIMIT ?",
                (*after, site, supplier, limit),
            )
            return [Row(*row) for row in found], db.execute("SELECT max(version) FROM changes").fetchone()[0]

        return await self._run(read)

    async def add(self, row: Row) -> bool:
        """Whether there was none of that name."""
        return await self._write(
            "INSERT OR IGNORE INTO parts (site, sku, title, stock, supplier, metadata) VALUES (?, ?, ?, ?, ?, ?)",
            *row[:6],
        )

    async def change(self, row: Row, expected: int) -> bool:
        """Whether there was one of that name, in the version `expected` or, if that is 0, in any."""
        return await self._write(
            "UPDATE parts SET title = ?, stock = ?, supplier = ?, metadata = ?"
            " WHERE site = ? AND sku = ? AND ? IN (0, version)",
            *(row.title, row.stock, row.supplier, row.metadata, row.site, row.sku, expected),
        )

    async def remove(self, site: str, sku: str) -> None:
        await self._write("DELETE FROM parts WHERE site = ? AND sku = ?", site, sku)

    async def changes(self, after: int) -> list[tuple[str, Row]]:
        """What changed after a version, oldest first. Raises Forgotten."""
        oldest = await self._rows("SELECT min(version) FROM changes")
        if after < oldest[0][0] - 1:
            raise Forgotten
        found = await self._rows(f"SELECT op, {_COLUMNS} FROM changes WHERE version > ? ORDER BY version", after)
        return [(op, Row(*row)) for op, *row in found]

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

    async def _rows(self, query: str, *values: Any) -> list[Any]:
        return await self._run(lambda db: db.execute(query, values).fetchall())

    async def _write(self, statement: str, *values: Any) -> bool:
        written = await self._run(lambda db: db.execute(statement, values).rowcount == 1)
        self._news.set()
        self._news = asyncio.Event()
        return written

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._locked, work)

    def _locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._connection is None:
                self._connection = sqlite3.connect(self._path, check_same_thread=False)
                self._connection.executescript(_TABLES + _TRIGGERS)
            with self._connection:
                return work(self._connection)
