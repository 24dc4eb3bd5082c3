"""Consistency check of the store: one line for each problem.

`check` checks everything and may take long. `quick` is for use beside a running server: it checks the
structure of the pages, one table at a time, and stops when it is told to.
Must not know: threads. See also: `oarlock.storage.sql.check`, for what must hold in the tables.
"""

from __future__ import annotations

from collections.abc import Callable

import apsw

from oarlock.storage.backend import Findings
from oarlock.storage.sql import check as tables
from oarlock.storage.sqlite.dialect import SQLITE
from oarlock.storage.sqlite.steps import run, snapshot

__all__ = ["check", "quick"]

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
