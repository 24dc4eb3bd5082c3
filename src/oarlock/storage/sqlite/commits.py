"""Executes a batch of writes inside one transaction, in a fixed number of statements.

Each step of SQLite releases the interpreter lock and must win it back from a busy event loop, so rows are written
many at a time instead of one by one.

Must not know: locks between processes, threads. See also: `plan`, which decides; `writer`, which calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

import apsw

from oarlock.storage.backend import KV, Rev
from oarlock.storage.sqlite.plan import BatchPlan

__all__ = ["apply", "current_state"]

T = TypeVar("T")

_MAX_ROWS = 32
"""Rows per statement: each number of rows is a statement to prepare and keep."""

_LOG_COLUMNS = 7


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


def _rows(one: str, rows: int) -> str:
    return ",".join([one] * rows)


def _parts(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    if len(values) <= size:
        yield values
    else:
        for index in range(0, len(values), size):
            yield values[index : index + size]


def current_state(connection: apsw.Connection, keys: Sequence[str]) -> tuple[Rev, dict[str, KV]]:
    """The store's revision, and the live states among `keys` with their values, which a failed compare returns."""
    rev = 0
    live: dict[str, KV] = {}
    for part in _parts(keys, _MAX_ROWS):
        rows: list[Any] = connection.execute(_read(len(part)), part).fetchall()
        rev = rows[0][2]
        for key, value, mod_rev, create_rev, expires in rows[1:]:
            live[key] = KV(key, value, mod_rev, create_rev, expires)
    return rev, live


def apply(connection: apsw.Connection, plan: BatchPlan) -> None:
    """Write the rows of `plan`. Each key ends in the state after the plan's last write of it."""
    for part in _parts(plan.log, _MAX_ROWS * _LOG_COLUMNS):
        connection.execute(_insert_log(len(part) // _LOG_COLUMNS), part)
    live: list[object] = []
    deleted_keys: list[str] = []
    for key, kv in plan.live.items():
        if kv is None:
            deleted_keys.append(key)
        else:
            live += (key, kv.mod_rev, kv.create_rev, kv.expires)
    if live:
        for values in _parts(live, _MAX_ROWS * 4):
            connection.execute(_upsert_kv(len(values) // 4), values)
    if deleted_keys:
        for keys in _parts(deleted_keys, _MAX_ROWS):
            connection.execute(_delete_kv(len(keys)), keys)
    connection.execute("UPDATE meta SET rev = ?", (plan.rev,))
