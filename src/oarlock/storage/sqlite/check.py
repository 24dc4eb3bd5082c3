"""Consistency check of the store: one line for each problem.

`check` checks everything and may take long. `quick` is for use beside a running server: it checks the
structure of the pages, one table at a time, and stops when it is told to.
Must not know: threads. See also: `schema`, for what must hold.
"""

from __future__ import annotations

from collections.abc import Callable

import apsw

from oarlock.storage.backend import Findings
from oarlock.storage.memory import FIRST_REV
from oarlock.storage.sqlite.reads import snapshot
from oarlock.storage.sqlite.schema import read_meta

__all__ = ["check", "quick"]

_MAX_LINES = 10

_LATEST = "(SELECT key, max(rev) AS rev FROM log GROUP BY key)"

_RULES = (
    (
        "the live key {} points at no change of its own",
        "SELECT kv.key FROM kv LEFT JOIN log ON log.rev = kv.rev WHERE log.key IS NOT kv.key OR log.op = 3"
        " OR log.create_rev IS NOT kv.create_rev OR log.expires IS NOT kv.expires",
    ),
    (
        "the live key {} does not point at its latest change",
        f"SELECT kv.key FROM kv JOIN {_LATEST} AS latest ON latest.key = kv.key WHERE latest.rev != kv.rev",
    ),
    (
        "the key {} was not deleted and is not live",
        f"SELECT log.key FROM {_LATEST} AS latest JOIN log ON log.rev = latest.rev"
        " WHERE log.op != 3 AND NOT EXISTS (SELECT 1 FROM kv WHERE kv.key = log.key)",
    ),
    (
        "the change at revision {} has lost the value it replaced",
        "SELECT log.rev FROM log, meta WHERE log.rev > meta.compact_rev AND log.prev_rev > 0"
        " AND NOT EXISTS (SELECT 1 FROM log AS prev WHERE prev.rev = log.prev_rev AND prev.key = log.key)",
    ),
    (
        "revision {} is above the store's own count",
        "SELECT log.rev FROM log, meta WHERE log.rev > meta.rev",
    ),
)


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
            findings += [f"SQLite: table {table}: {line}" for line in lines[:_MAX_LINES] if line != "ok"]
    finally:
        connection.set_progress_handler(None)
    return findings


def check(connection: apsw.Connection) -> Findings:
    """All problems, at most ten lines per rule."""
    with snapshot(connection):
        lines = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_MAX_LINES})")]
        findings = [f"SQLite: {line}" for line in lines if line != "ok"]
        meta = read_meta(connection)
        if not meta.rev >= FIRST_REV or not 0 <= meta.swept_rev <= meta.compact_rev <= meta.rev:
            findings.append(f"the counters contradict each other: {meta}")
        base = max(meta.compact_rev, FIRST_REV)
        count = connection.execute("SELECT count(*) FROM log WHERE rev > ? AND rev <= ?", (base, meta.rev)).get
        if count != meta.rev - base:
            findings.append(
                f"between revision {base} and {meta.rev} there are {count} changes instead of {meta.rev - base}"
            )
        for text, query in _RULES:
            rows = connection.execute(f"{query} LIMIT {_MAX_LINES}").fetchall()
            findings += [text.format(repr(row[0])) for row in rows]
    return findings
