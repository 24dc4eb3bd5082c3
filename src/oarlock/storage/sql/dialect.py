"""`Dialect`: the texts of the statements, and where databases differ in them.

Texts are written with ``?`` for a value and with qualified column names, since ``key`` alone is a reserved word in
MySQL. A database overrides what it says otherwise.

    meta  one row: the counter for revisions, which is also the lock, and the compacted revision
    log   every change, append-only; a value is stored once, here
    kv    live keys: key → its row in the log

Revisions are assigned under one lock, so the log has no gaps above ``meta.compact_rev``: a gap is damage,
never a question of timing. (Autoincrement columns have gaps, and readers may see their rows out of order.)

Must not know: drivers, connections. See also: `reads`, `compaction`, which use the texts.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import KEEP_TTL, KV, Op, Rev, StoreEvent, WriteResult

__all__ = [
    "EVERYTHING",
    "SCHEMA_VERSION",
    "BatchPlan",
    "Dialect",
    "KeyRange",
    "QueuedWrite",
    "Rows",
    "Statement",
    "StatementSteps",
    "plan",
]

T = TypeVar("T")

Rows = Sequence[Any]
"""The rows a statement returned, each a sequence of its columns; empty for one that returns none."""


class Statement(NamedTuple):
    """A text in the dialect of the database, and the values of its placeholders in order."""

    text: str
    values: Sequence[object] = ()


StatementSteps = Generator[Statement, Rows, T]
"""An operation that returns a `T`."""


class QueuedWrite:
    """A put (`value` is bytes) or delete (`value` is None), and the future for its result.

    `ttl_ms` is the time to live, None for none, or `KEEP_TTL`.
    """

    __slots__ = ("expect", "future", "key", "ttl_ms", "value")

    def __init__(
        self, key: str, value: bytes | None, expect: Rev, ttl_ms: int | None, future: asyncio.Future[WriteResult]
    ) -> None:
        self.key: Final = key
        self.value: Final = value
        self.expect: Final = expect
        self.ttl_ms: Final = ttl_ms
        self.future: Final = future


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The decided batch.

    `log` has the columns of all new rows one after another; `live` is the new state of each key.
    """

    results: list[WriteResult]
    events: list[StoreEvent]
    log: list[object]
    live: dict[str, KV | None]
    rev: Rev

    @property
    def floor(self) -> Rev:
        """The revision before the batch."""
        return self.rev - len(self.events)


def plan(writes: list[QueuedWrite], rev: Rev, current: dict[str, KV], now_ms: int) -> BatchPlan:
    """Decide `writes` on a store at `rev`; `current` has the live states of their keys, times to live begin now."""
    results: list[WriteResult] = []
    events: list[StoreEvent] = []
    log: list[object] = []
    live: dict[str, KV | None] = {}
    for write in writes:
        key, value = write.key, write.value
        kv = live[key] if key in live else current.get(key)
        if kv is None:
            if write.expect or value is None:
                results.append(WriteResult(False, rev, None))
                continue
            rev += 1
            ttl_ms = write.ttl_ms
            expires = None if ttl_ms is None or ttl_ms == KEEP_TTL else now_ms + ttl_ms
            live[key] = KV(key, value, rev, rev, expires)
            log += (rev, key, 1, rev, 0, expires, value)
            events.append(StoreEvent(rev, Op.CREATE, key, value, rev))
            results.append(WriteResult(True, rev))
        elif kv.mod_rev != write.expect:
            results.append(WriteResult(False, rev, kv))
        elif value is None:
            rev += 1
            live[key] = None
            log += (rev, key, 3, kv.create_rev, kv.mod_rev, None, None)
            events.append(StoreEvent(rev, Op.DELETE, key, None, kv.create_rev, kv.mod_rev, kv.value))
            results.append(WriteResult(True, rev, kv))
        else:
            rev += 1
            ttl_ms = write.ttl_ms
            expires = kv.expires if ttl_ms == KEEP_TTL else None if ttl_ms is None else now_ms + ttl_ms
            live[key] = KV(key, value, rev, kv.create_rev, expires)
            log += (rev, key, 2, kv.create_rev, kv.mod_rev, expires, value)
            events.append(StoreEvent(rev, Op.UPDATE, key, value, kv.create_rev, kv.mod_rev, kv.value))
            results.append(WriteResult(True, rev))
    return BatchPlan(results, events, log, live, rev)


KeyRange = tuple[str, str]
"""A range of keys: the first, and the end, which isn't in it."""

SCHEMA_VERSION = 1

EVERYTHING = 2**31 - 1
"""A LIMIT that is none, in every database."""

_EVENTS = (
    "SELECT log.rev, log.op, log.key, log.value, log.create_rev, log.prev_rev, prev.value"
    " FROM log LEFT JOIN log AS prev ON prev.rev = log.prev_rev WHERE log.rev > ? AND log.rev <= ?"
)


class Dialect(ABC):
    """The texts for one kind of database. `damage` are the driver's errors for a value that can't be read."""

    damage: tuple[type[Exception], ...] = ()
    now_ms = "NULL"
    """The database's clock in epoch milliseconds; NULL where the host's is used instead."""

    sweep_replaced = (
        "DELETE FROM log WHERE log.rev IN"
        " (SELECT old.prev_rev FROM log AS old WHERE old.rev > ? AND old.rev <= ? AND old.prev_rev > 0)"
    )

    def __init__(self) -> None:
        key = self.unindexed("log.key")
        count_at = (
            # The live keys at a revision are those unchanged since, and those replaced or deleted since.
            "SELECT (SELECT count(*) FROM kv WHERE kv.key >= ? AND kv.key < ? AND kv.rev <= ?)"
            f" + (SELECT count(*) FROM log WHERE {key} >= ? AND {key} < ? AND log.rev > ?"
            " AND log.prev_rev BETWEEN 1 AND ?)"
        )
        self.meta = "SELECT meta.rev, meta.compact_rev, meta.swept_rev, meta.epoch FROM meta"
        self.origin = "SELECT meta.rev, meta.compact_rev, meta.swept_rev, meta.epoch, meta.origin FROM meta"
        self.revs = "SELECT meta.rev, meta.compact_rev FROM meta"
        self.clock = f"SELECT {self.now_ms}"
        self.get = self.marked(
            "SELECT meta.rev, log.value, log.rev, log.create_rev, log.expires"
            " FROM meta LEFT JOIN kv ON kv.key = ? LEFT JOIN log ON log.rev = kv.rev"
        )
        self.get_at = self.marked(
            "SELECT log.value, log.rev, log.create_rev, log.expires, log.op FROM log"
            " WHERE log.key = ? AND log.rev <= ? ORDER BY log.rev DESC LIMIT 1"
        )
        self.live = self.marked(
            "SELECT log.key, log.value, log.rev, log.create_rev, log.expires FROM kv JOIN log ON log.rev = kv.rev"
            " WHERE kv.key >= ? AND kv.key < ? ORDER BY kv.key LIMIT ?"
        )
        # In the order of the index by key, each row that no later one up to the revision replaced: nothing is sorted,
        # so a page costs what is on it.
        self.live_at = self.marked(
            "SELECT log.key, log.value, log.rev, log.create_rev, log.expires FROM log"
            " WHERE log.key >= ? AND log.key < ? AND log.rev <= ? AND NOT EXISTS"
            " (SELECT 1 FROM log AS later WHERE later.key = log.key AND later.rev > log.rev AND later.rev <= ?)"
            " AND log.op != 3 ORDER BY log.key LIMIT ?"
        )
        self.live_keys = self.marked(
            "SELECT kv.key, kv.rev, kv.create_rev, kv.expires FROM kv"
            " WHERE kv.key >= ? AND kv.key < ? ORDER BY kv.key LIMIT ?"
        )
        self.value = self.marked("SELECT log.value FROM log WHERE log.rev = ?")
        self.count = self.marked("SELECT count(*) FROM kv WHERE kv.key >= ? AND kv.key < ?")
        self.count_now = self.marked(
            "SELECT meta.rev, (SELECT count(*) FROM kv WHERE kv.key >= ? AND kv.key < ?) FROM meta"
        )
        self.count_at = self.marked(count_at)
        self.expired = self.marked("SELECT kv.key, kv.rev FROM kv WHERE kv.expires <= ? ORDER BY kv.expires LIMIT ?")
        self.events = self.marked(f"{_EVENTS} ORDER BY log.rev LIMIT ?")
        # By key, the planner would visit the whole history of the range.
        self.events_of_range = self.marked(f"{_EVENTS} AND {key} >= ? AND {key} < ? ORDER BY log.rev LIMIT ?")
        self.publish_compaction = self.marked("UPDATE meta SET compact_rev = ?")
        self.sweep_replaced = self.marked(self.sweep_replaced)
        self.sweep_deletions = self.marked("DELETE FROM log WHERE log.rev > ? AND log.rev <= ? AND log.op = 3")
        self.note_sweep = self.marked("UPDATE meta SET swept_rev = ?")
        self.note_origin = self.marked("UPDATE meta SET origin = ?")
        self.note_epoch = self.marked("UPDATE meta SET rev = ?, compact_rev = ?, swept_rev = ?, epoch = ?")

    @abstractmethod
    def marked(self, text: str) -> str:
        """`text` with the driver's placeholders in the place of each ``?``."""

    def bounds(self, span: KeyRange) -> KeyRange:
        """The same range, of keys that the database can have, in bounds that it takes."""
        return span

    @abstractmethod
    def unindexed(self, column: str) -> str:
        """The column as an expression that the planner doesn't look up in an index."""

    @abstractmethod
    def differ(self, left: str, right: str) -> str:
        """A condition: the two are not the same, where NULL is the same as NULL."""

    @abstractmethod
    def state(self, keys: Sequence[str]) -> Iterator[Statement]:
        """Read the counter and the live states among `keys`.

        Each statement returns a row ``(NULL, NULL, meta.rev, 0, now_ms)`` and one row ``(key, value, rev, create_rev,
        expires)`` for each live key.
        """

    @abstractmethod
    def apply(self, plan: BatchPlan) -> Iterator[Statement]:
        """Write the rows of `plan` and the counter. Each key ends in the state after the plan's last write of it."""
