"""Consistency check of the store: one line for each problem.

`check` checks everything and may take long. `quick` is for use beside a running server: it checks the
structure of the pages, one table at a time, and stops when it is told to.
Must not know: threads. See also: `oarlock.storage.sql.check`, for what must hold in the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import apsw

from oarlock.storage.backend import Findings
from oarlock.storage.sql import check as tables
from oarlock.storage.sql.dialect import BatchPlan, Dialect, Statement, StatementSteps

__all__ = ["SQLITE", "check", "quick", "run", "run_in_snapshot", "snapshot"]

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


def run(connection: apsw.Connection, steps: StatementSteps[T]) -> T:
    try:
        statement = next(steps)
        while True:
            try:
                rows = connection.execute(*statement).fetchall()
            except apsw.Error as error:
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result


def run_in_snapshot(connection: apsw.Connection, steps: StatementSteps[T]) -> T:
    """The same for an operation of several statements, on one state of the store."""
    with snapshot(connection):
        return run(connection, steps)


@contextmanager
def snapshot(connection: apsw.Connection) -> Iterator[None]:
    """A context manager: several statements on one state of the store."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        # A COMMIT would fail once more where a page couldn't be read.
        connection.execute("ROLLBACK")


_STEPS = 1_000
"""Steps of SQLite's between two questions whether to go on: a few tenths of a millisecond."""


def quick(connection: apsw.Connection, go_on: Callable[[], bool]) -> Findings:
    """Damaged pages, at most ten lines per table. Raises ``apsw.InterruptError`` once `go_on` returns False."""
    findings: Findings = []
    connection.set_progress_handler(lambda: not go_on(), _STEPS)
    try:
        # Each table is read in its own transaction: the log can't be reset while one is open.
        for table in ("meta", "kv", "log"):
            try:
                lines = [str(row[0]) for row in connection.execute(f"PRAGMA quick_check('{table}')")]
            except (apsw.CorruptError, apsw.NotADBError) as error:
                lines = [str(error)]
            findings += [f"SQLite: table {table}: {line}" for line in lines[: tables.MAX_LINES] if line != "ok"]
    finally:
        connection.set_progress_handler(None)
    return findings


def check(connection: apsw.Connection) -> Findings:
    """All problems, at most ten lines per rule."""
    with snapshot(connection):
        lines = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({tables.MAX_LINES})")]
        findings = [f"SQLite: {line}" for line in lines if line != "ok"]
        findings += run(connection, tables.check(SQLITE))
    return findings
