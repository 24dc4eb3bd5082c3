"""The queries: get, list and count at any revision, and ranges of the log. Each reads one snapshot.

In WAL mode a read transaction sees every commit that returned before it began, also of other processes,
so these reads are linearizable (R4) without further communication.

Must not know: threads, locks, who asks. See also: `threads` for where they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import apsw

from oarlock.storage.backend import KV, Compacted, Damaged, Event, FutureRevision, Op, Page, Rev
from oarlock.storage.sqlite.errors import StoreBroken

__all__ = ["LogRange", "count", "expired", "get", "list_range", "log_after", "log_of_range", "snapshot"]

_OPS = {int(op): op for op in Op}

_LIVE = (
    "SELECT log.key, log.value, log.rev, log.create_rev, log.expires FROM kv JOIN log ON log.rev = kv.rev"
    " WHERE kv.key >= ? AND kv.key < ? ORDER BY kv.key LIMIT ?"
)
_KEYS = "SELECT key, rev, create_rev, expires FROM kv WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"
# In the order of the index by key, each row that no later one up to the revision replaced: nothing is sorted, so a
# page costs what is on it.
_LIVE_AT = (
    "SELECT key, value, rev, create_rev, expires FROM log WHERE key >= ?1 AND key < ?2 AND rev <= ?3 AND NOT EXISTS"
    " (SELECT 1 FROM log AS later WHERE later.key = log.key AND later.rev > log.rev AND later.rev <= ?3)"
    " AND op != 3 ORDER BY key LIMIT ?4"
)
_COUNT = "SELECT count(*) FROM kv WHERE key >= ? AND key < ?"
# The live keys at a revision are those unchanged since, and those replaced or deleted since.
_COUNT_AT = (
    "SELECT (SELECT count(*) FROM kv WHERE key >= ?1 AND key < ?2 AND rev <= ?3)"
    " + (SELECT count(*) FROM log WHERE +key >= ?1 AND +key < ?2 AND rev > ?3 AND prev_rev BETWEEN 1 AND ?3)"
)
_EVENTS = (
    "SELECT log.rev, log.op, log.key, log.value, log.create_rev, log.prev_rev, prev.value"
    " FROM log LEFT JOIN log AS prev ON prev.rev = log.prev_rev WHERE log.rev > ? AND log.rev <= ?"
)


@dataclass(frozen=True, slots=True)
class LogRange:
    """Events of the log, complete above `floor` and up to `rev`. `head` was the current revision of the snapshot."""

    floor: Rev
    events: Sequence[Event]
    rev: Rev
    head: Rev


@contextmanager
def snapshot(connection: apsw.Connection) -> Iterator[None]:
    """A context manager: several statements on one state of the store."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        # A COMMIT would fail once more where a page couldn't be read.
        connection.execute("ROLLBACK")


def get(connection: apsw.Connection, key: str, rev: Rev) -> tuple[KV | None, Rev]:
    row: Any
    if not rev:
        row = connection.execute(
            "SELECT meta.rev, log.value, log.rev, log.create_rev, log.expires"
            " FROM meta LEFT JOIN kv ON kv.key = ? LEFT JOIN log ON log.rev = kv.rev",
            (key,),
        ).get
        head, value, mod_rev, create_rev, expires = row
        return (None if mod_rev is None else KV(key, value, mod_rev, create_rev, expires)), head
    with snapshot(connection):
        _must_have(connection, rev)
        row = connection.execute(
            "SELECT value, rev, create_rev, expires, op FROM log WHERE key = ? AND rev <= ? ORDER BY rev DESC LIMIT 1",
            (key, rev),
        ).get
    if row is None or row[4] == Op.DELETE:
        return None, rev
    value, mod_rev, create_rev, expires, _ = row
    return KV(key, value, mod_rev, create_rev, expires), rev


def list_range(connection: apsw.Connection, span: tuple[str, str], rev: Rev, limit: int) -> Page:
    with snapshot(connection):
        head = _must_have(connection, rev)
        # One more than the limit tells whether anything follows, without a count.
        fetch = limit + 1 if limit else -1
        query, values = (_LIVE_AT, (*span, rev, fetch)) if rev else (_LIVE, (*span, fetch))
        try:
            rows: Any = connection.execute(query, values)
            kvs = [KV(*row) for row in rows]
        except apsw.CorruptError:
            if rev:
                raise
            kvs = _one_by_one(connection, span, fetch)
        more = bool(limit) and len(kvs) > limit
        remaining = 0
        if more:
            beyond = (kvs.pop().key, span[1])
            remaining = connection.execute(*((_COUNT_AT, (*beyond, rev)) if rev else (_COUNT, beyond))).get
    return Page(kvs, rev or head, more, remaining)


def _one_by_one(connection: apsw.Connection, span: tuple[str, str], fetch: int) -> list[KV]:
    """The same list when pages are damaged: only the values on those pages are lost.

    Raises ``apsw.CorruptError`` when even the keys can't be read.
    """
    kvs: list[KV] = []
    for key, rev, create_rev, expires in _rows(connection, _KEYS, (*span, fetch)):
        try:
            value = connection.execute("SELECT value FROM log WHERE rev = ?", (rev,)).get
        except apsw.CorruptError as error:
            value = Damaged(f"the store is damaged where this object lies ({error}): restore it from a backup")
        kvs.append(KV(key, value, rev, create_rev, expires))
    return kvs


def count(connection: apsw.Connection, span: tuple[str, str]) -> tuple[int, Rev]:
    rev, keys = connection.execute(f"SELECT rev, ({_COUNT}) FROM meta", span).get
    return keys, rev


def expired(connection: apsw.Connection, now_ms: int, limit: int) -> list[tuple[str, Rev]]:
    """Live keys whose time to live is over, with their revisions."""
    return _rows(connection, "SELECT key, rev FROM kv WHERE expires <= ? ORDER BY expires LIMIT ?", (now_ms, limit))


def log_after(connection: apsw.Connection, after: Rev, limit: int) -> LogRange:
    """The next events of the whole store, at most `limit`. Where history is compacted, it begins above that."""
    with snapshot(connection):
        head, compact_rev = _meta(connection)
        floor = max(after, compact_rev)
        rows = _rows(connection, f"{_EVENTS} ORDER BY log.rev LIMIT ?", (floor, head, limit))
    events = [_event(row) for row in rows]
    rev = floor + len(events)
    # Revisions have no gaps above compact_rev: a missing one won't appear later.
    if (events and events[-1].rev != rev) or (len(events) < limit and rev < head):
        raise StoreBroken(f"the log has a hole above revision {floor}: run `oarlock storage check`")
    return LogRange(floor, events, rev, head)


def log_of_range(connection: apsw.Connection, span: tuple[str, str], between: tuple[Rev, Rev], limit: int) -> LogRange:
    """The next events of a range of keys between two revisions, at most `limit`.

    Raises `Compacted` when some of them are gone.
    """
    after, upto = between
    with snapshot(connection):
        head, compact_rev = _meta(connection)
        if after < compact_rev:
            raise Compacted(compact_rev, head)
        # "+" keeps the planner on the revisions: by key it would visit the whole history of the range.
        query = f"{_EVENTS} AND +log.key >= ? AND +log.key < ? ORDER BY log.rev LIMIT ?"
        rows = _rows(connection, query, (after, upto, *span, limit))
    events = [_event(row) for row in rows]
    return LogRange(after, events, events[-1].rev if len(events) == limit else upto, head)


def _rows(connection: apsw.Connection, query: str, values: tuple[str | int, ...]) -> list[Any]:
    return connection.execute(query, values).fetchall()


def _event(row: Any) -> Event:
    rev, op, key, value, create_rev, prev_rev, prev_value = row
    return Event(rev, _OPS[op], key, value, create_rev, prev_rev, prev_value)


def _meta(connection: apsw.Connection) -> tuple[Rev, Rev]:
    rev, compact_rev = connection.execute("SELECT rev, compact_rev FROM meta").get
    return rev, compact_rev


def _must_have(connection: apsw.Connection, rev: Rev) -> Rev:
    head, compact_rev = _meta(connection)
    if rev > head:
        raise FutureRevision(head)
    if rev and rev < compact_rev:
        raise Compacted(compact_rev, head)
    return head
