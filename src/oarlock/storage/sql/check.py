"""What must hold in the tables: one line for each problem, at most ten per rule.

Must not know: drivers, the structure of pages. See also: `dialect` for the tables.
"""

from __future__ import annotations

from oarlock.storage.backend import Findings
from oarlock.storage.memory import FIRST_REV
from oarlock.storage.sql.dialect import Dialect, Statement, StatementSteps
from oarlock.storage.sql.reads import read_meta

__all__ = ["MAX_LINES", "check", "check_counters"]

MAX_LINES = 10
"""Lines per rule."""

_LATEST = "(SELECT log.key, max(log.rev) AS rev FROM log GROUP BY log.key)"


def _rules(dialect: Dialect) -> tuple[tuple[str, str], ...]:
    """The texts of findings, and the queries that find them."""
    differ = dialect.differ
    return (
        (
            "the live key {} points at no change of its own",
            f"SELECT kv.key FROM kv LEFT JOIN log ON log.rev = kv.rev WHERE {differ('log.key', 'kv.key')}"
            f" OR log.op = 3 OR {differ('log.create_rev', 'kv.create_rev')} OR {differ('log.expires', 'kv.expires')}",
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


def check(dialect: Dialect) -> StatementSteps[Findings]:
    """All problems; several statements."""
    findings = yield from check_counters(dialect)
    for text, query in _rules(dialect):
        rows = yield Statement(f"{query} LIMIT {MAX_LINES}")
        findings += [text.format(repr(row[0])) for row in rows]
    return findings


def check_counters(dialect: Dialect) -> StatementSteps[Findings]:
    """What is wrong with the counters and the kept history, which costs little; several statements."""
    findings: Findings = []
    meta = yield from read_meta(dialect)
    if not meta.rev >= FIRST_REV or not 0 <= meta.swept_rev <= meta.compact_rev <= meta.rev:
        findings.append(f"the counters contradict each other: {meta}")
    base = max(meta.compact_rev, FIRST_REV)
    rows = yield Statement(
        dialect.marked("SELECT count(*) FROM log WHERE log.rev > ? AND log.rev <= ?"), (base, meta.rev)
    )
    changes = rows[0][0]
    if changes != meta.rev - base:
        findings.append(
            f"between revision {base} and {meta.rev} there are {changes} changes instead of {meta.rev - base}"
        )
    return findings
