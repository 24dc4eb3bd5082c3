"""What is asked of a SQL store, as steps of statements: reads at any revision, ranges of the log, a batch of writes.

Each read sees one snapshot. Those of several statements say so: they must be run in a transaction that sees one state
of the store. A transaction that begins after a commit returned sees it, so these reads are linearizable (R4) without
further communication. A batch is written in the transaction that has the lock.

Must not know: threads, drivers, locks, who asks. See also: `dialect` for the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import KV, Compacted, Damaged, FutureRevision, Op, Page, Rev, StoreEvent, Unavailable
from oarlock.storage.sql.dialect import (
    EVERYTHING,
    BatchPlan,
    Dialect,
    KeyRange,
    QueuedWrite,
    Statement,
    StatementSteps,
    plan,
)

__all__ = [
    "HistoryLost",
    "LogRange",
    "Meta",
    "StoreBroken",
    "clock_ms",
    "count",
    "expired",
    "get",
    "get_at",
    "list_range",
    "log_after",
    "log_of_range",
    "not_below",
    "read_meta",
    "revs",
    "write_batch",
]


class StoreBroken(Unavailable):
    """The disk or the data can't be trusted: nothing more is written until the process has been restarted.

    A failed fsync must never be retried: the kernel may have dropped the pages it couldn't write.
    """


class HistoryLost(Unavailable):
    """The store is below a revision that this process has seen: it was restored, or failed over to one that was behind.

    Nothing may be answered from it until another epoch has begun.
    """

    def __init__(self, rev: Rev, seen: Rev) -> None:
        super().__init__(f"the store is at revision {rev} and was at {seen}")


def write_batch(
    dialect: Dialect, writes: list[QueuedWrite], now_ms: int | None, seen: Rev = 0
) -> StatementSteps[BatchPlan]:
    """Decide and write the batch. If the plan has no events, nothing was written, and a commit is needless.

    `now_ms` is the time that times to live begin at; None takes the database's. Raises `HistoryLost` when the store is
    below revision `seen`.
    """
    rev: Rev = 0
    live: dict[str, KV] = {}
    for statement in dialect.state([write.key for write in writes]):
        rows = yield statement
        for key, value, mod_rev, create_rev, expires in rows:
            if key is None:
                rev, clock_ms = mod_rev, expires
            else:
                live[key] = KV(key, value, mod_rev, create_rev, expires)
    if rev < seen:
        raise HistoryLost(rev, seen)
    batch_plan = plan(writes, rev, live, clock_ms if now_ms is None else now_ms)
    if batch_plan.events:
        for statement in dialect.apply(batch_plan):
            yield statement
    return batch_plan


T = TypeVar("T")

_OPS = {int(op): op for op in Op}


@dataclass(frozen=True, slots=True)
class Meta:
    """The one row of ``meta``. History below `compact_rev` is refused; up to `swept_rev` its rows are removed too."""

    rev: Rev
    compact_rev: Rev
    swept_rev: Rev
    epoch: str


@dataclass(frozen=True, slots=True)
class LogRange:
    """Events of the log, complete above `floor` and up to `rev`. `head` was the current revision of the snapshot."""

    floor: Rev
    events: Sequence[StoreEvent]
    rev: Rev
    head: Rev


def not_below(seen: Rev, steps: StatementSteps[T], head: Callable[[T], Rev]) -> StatementSteps[T]:
    """`steps`, unless they meet a store whose revision, the `head` of their result, is below `seen`.

    Raises `HistoryLost`.
    """
    try:
        result = yield from steps
    except FutureRevision as error:
        if error.current_rev < seen:
            raise HistoryLost(error.current_rev, seen) from None
        raise
    if head(result) < seen:
        raise HistoryLost(head(result), seen)
    return result


def read_meta(dialect: Dialect) -> StatementSteps[Meta]:
    rows = yield Statement(dialect.meta)
    return Meta(*rows[0])


def revs(dialect: Dialect) -> StatementSteps[tuple[Rev, Rev]]:
    """The current and the compacted revision."""
    rows = yield Statement(dialect.revs)
    rev, compact_rev = rows[0]
    return rev, compact_rev


def clock_ms(dialect: Dialect) -> StatementSteps[int]:
    """The time of the database, in epoch milliseconds."""
    rows = yield Statement(dialect.clock)
    now: int = rows[0][0]
    return now


def get(dialect: Dialect, key: str) -> StatementSteps[tuple[KV | None, Rev]]:
    rows = yield Statement(dialect.get, (key,))
    head, value, mod_rev, create_rev, expires = rows[0]
    return (None if mod_rev is None else KV(key, value, mod_rev, create_rev, expires)), head


def get_at(dialect: Dialect, key: str, rev: Rev) -> StatementSteps[tuple[KV | None, Rev]]:
    """The key at `rev`; several statements."""
    yield from _must_have(dialect, rev)
    rows = yield Statement(dialect.get_at, (key, rev))
    if not rows or rows[0][4] == Op.DELETE:
        return None, rev
    value, mod_rev, create_rev, expires, _ = rows[0]
    return KV(key, value, mod_rev, create_rev, expires), rev


def list_range(dialect: Dialect, span: KeyRange, rev: Rev, limit: int) -> StatementSteps[Page]:
    """One page of a range; several statements."""
    span = dialect.bounds(span)
    head = yield from _must_have(dialect, rev)
    # One more than the limit tells whether anything follows, without a count.
    fetch = limit + 1 if limit else EVERYTHING
    try:
        if rev:
            rows = yield Statement(dialect.live_at, (*span, rev, rev, fetch))
        else:
            rows = yield Statement(dialect.live, (*span, fetch))
        kvs = list(starmap(KV, rows))
    except dialect.damage:
        if rev:
            raise
        kvs = yield from _one_by_one(dialect, span, fetch)
    more = bool(limit) and len(kvs) > limit
    remaining = 0
    if more:
        beyond = (kvs.pop().key, span[1])
        if rev:
            rows = yield Statement(dialect.count_at, (*beyond, rev, *beyond, rev, rev))
        else:
            rows = yield Statement(dialect.count, beyond)
        remaining = rows[0][0]
    return Page(kvs, rev or head, more, remaining)


def _one_by_one(dialect: Dialect, span: KeyRange, fetch: int) -> StatementSteps[list[KV]]:
    """The same list when pages are damaged: only the values on those pages are lost.

    Raises the driver's error when even the keys can't be read.
    """
    kvs: list[KV] = []
    rows = yield Statement(dialect.live_keys, (*span, fetch))
    for key, rev, create_rev, expires in rows:
        try:
            found = yield Statement(dialect.value, (rev,))
            value = found[0][0]
        except dialect.damage as error:
            value = Damaged(f"the store is damaged where this object lies ({error}): restore it from a backup")
        kvs.append(KV(key, value, rev, create_rev, expires))
    return kvs


def count(dialect: Dialect, span: KeyRange) -> StatementSteps[tuple[int, Rev]]:
    rows = yield Statement(dialect.count_now, dialect.bounds(span))
    rev, keys = rows[0]
    return keys, rev


def expired(dialect: Dialect, now_ms: int, limit: int) -> StatementSteps[list[tuple[str, Rev]]]:
    """Live keys whose time to live is over, with their revisions."""
    rows = yield Statement(dialect.expired, (now_ms, limit))
    return [(key, rev) for key, rev in rows]


def log_after(dialect: Dialect, after: Rev, limit: int) -> StatementSteps[LogRange]:
    """The next events of the whole store, at most `limit`; several statements.

    Where history is compacted, it begins above that.
    """
    head, compact_rev = yield from revs(dialect)
    floor = max(after, compact_rev)
    rows = yield Statement(dialect.events, (floor, head, limit))
    events = [_event(row) for row in rows]
    rev = floor + len(events)
    # Revisions have no gaps above compact_rev: a missing one won't appear later.
    if (events and events[-1].rev != rev) or (len(events) < limit and rev < head):
        raise StoreBroken(f"the log has a hole above revision {floor}: run `oarlock storage check`")
    return LogRange(floor, events, rev, head)


def log_of_range(dialect: Dialect, span: KeyRange, between: tuple[Rev, Rev], limit: int) -> StatementSteps[LogRange]:
    """The next events of a range of keys between two revisions, at most `limit`; several statements.

    Raises `Compacted` when some of them are gone.
    """
    after, upto = between
    head, compact_rev = yield from revs(dialect)
    if after < compact_rev:
        raise Compacted(compact_rev, head)
    rows = yield Statement(dialect.events_of_range, (after, upto, *dialect.bounds(span), limit))
    events = [_event(row) for row in rows]
    return LogRange(after, events, events[-1].rev if len(events) == limit else upto, head)


def _event(row: Any) -> StoreEvent:
    rev, op, key, value, create_rev, prev_rev, prev_value = row
    return StoreEvent(rev, _OPS[op], key, value, create_rev, prev_rev, prev_value)


def _must_have(dialect: Dialect, rev: Rev) -> StatementSteps[Rev]:
    head, compact_rev = yield from revs(dialect)
    if rev > head:
        raise FutureRevision(head)
    if rev and rev < compact_rev:
        raise Compacted(compact_rev, head)
    return head
