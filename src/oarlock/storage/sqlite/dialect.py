"""SQLite's dialect: a batch in a fixed number of statements of many rows each.

Each step of SQLite releases the interpreter lock and must win it back from a busy event loop, so rows are written
many at a time instead of one by one.

Must not know: locks between processes, threads. See also: `oarlock.storage.sql.dialect`, and `schema` for the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeVar

import apsw

from oarlock.storage.sql.dialect import Dialect
from oarlock.storage.sql.plan import BatchPlan
from oarlock.storage.sql.statements import Statement

__all__ = ["SQLITE"]

T = TypeVar("T")

_MAX_ROWS = 32
"""Rows per statement: each number of rows is a statement to prepare and keep."""

_LOG_COLUMNS = 7


class _SqliteDialect(Dialect):
    damage = (apsw.CorruptError,)

    def marked(self, text: str) -> str:
        return text

    def unindexed(self, column: str) -> str:
        return f"+{column}"

    def differ(self, left: str, right: str) -> str:
        return f"{left} IS NOT {right}"

    def state(self, keys: Sequence[str]) -> Iterator[Statement]:
        for part in _parts(keys, _MAX_ROWS):
            yield Statement(_read(len(part)), part)

    def apply(self, plan: BatchPlan) -> Iterator[Statement]:
        for part in _parts(plan.log, _MAX_ROWS * _LOG_COLUMNS):
            yield Statement(_insert_log(len(part) // _LOG_COLUMNS), part)
        live: list[object] = []
        deleted_keys: list[str] = []
        for key, kv in plan.live.items():
            if kv is None:
                deleted_keys.append(key)
            else:
                live += (key, kv.mod_rev, kv.create_rev, kv.expires)
        if live:
            for values in _parts(live, _MAX_ROWS * 4):
                yield Statement(_upsert_kv(len(values) // 4), values)
        if deleted_keys:
            for keys in _parts(deleted_keys, _MAX_ROWS):
                yield Statement(_delete_kv(len(keys)), keys)
        yield Statement("UPDATE meta SET rev = ?", (plan.rev,))


SQLITE = _SqliteDialect()


@cache
def _read(keys: int) -> str:
    marks = ",".join("?" * keys)
    return (
        "SELECT NULL, NULL, rev, 0, NULL FROM meta UNION ALL"
        " SELECT kv.key, log.value, kv.rev, kv.create_rev, kv.expires FROM kv JOIN log ON log.rev = kv.rev"
        f" WHERE kv.key IN ({marks})"
    )


@cache
def _insert_log(rows: int) -> str:
    return (
        f"INSERT INTO log (rev, key, op, create_rev, prev_rev, expires, value) VALUES {_rows('(?,?,?,?,?,?,?)', rows)}"
    )


@cache
def _upsert_kv(rows: int) -> str:
    return (
        f"INSERT INTO kv (key, rev, create_rev, expires) VALUES {_rows('(?,?,?,?)', rows)} ON CONFLICT (key)"
        " DO UPDATE SET rev = excluded.rev, create_rev = excluded.create_rev, expires = excluded.expires"
    )


@cache
def _delete_kv(keys: int) -> str:
    return f"DELETE FROM kv WHERE key IN ({','.join('?' * keys)})"


def _rows(row: str, rows: int) -> str:
    return ",".join([row] * rows)


def _parts(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    if len(values) <= size:
        yield values
    else:
        for index in range(0, len(values), size):
            yield values[index : index + size]
