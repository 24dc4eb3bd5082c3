"""Decides the results of a batch in Python: current state × writes → results, events and rows. Pure.

Each write is decided on the state that the writes before it leave, so a write whose compare fails, fails alone.

Must not know: SQLite, locks, threads. See also: `commits` for how a plan is executed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from oarlock.storage.backend import KEEP_TTL, KV, Event, Op, Rev, WriteResult

__all__ = ["BatchPlan", "QueuedWrite", "plan"]


class QueuedWrite:
    """A put (`value` is bytes) or delete (`value` is None), and the future for its result.

    `expires` is in epoch milliseconds, None for no time to live, or `KEEP_TTL`.
    """

    __slots__ = ("expect", "expires", "future", "key", "value")

    def __init__(
        self, key: str, value: bytes | None, expect: Rev, expires: int | None, future: asyncio.Future[WriteResult]
    ) -> None:
        self.key: Final = key
        self.value: Final = value
        self.expect: Final = expect
        self.expires: Final = expires
        self.future: Final = future


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The decided batch.

    `log` has the columns of all new rows one after another; `live` is the new state of each key.
    """

    results: list[WriteResult]
    events: list[Event]
    log: list[object]
    live: dict[str, KV | None]
    rev: Rev


def plan(writes: list[QueuedWrite], rev: Rev, current: dict[str, KV]) -> BatchPlan:
    """Decide `writes` on a store at `rev`; `current` has the live states of their keys."""
    results: list[WriteResult] = []
    events: list[Event] = []
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
            expires = None if write.expires == KEEP_TTL else write.expires
            live[key] = KV(key, value, rev, rev, expires)
            log += (rev, key, 1, rev, 0, expires, value)
            events.append(Event(rev, Op.CREATE, key, value, rev))
            results.append(WriteResult(True, rev))
        elif kv.mod_rev != write.expect:
            results.append(WriteResult(False, rev, kv))
        elif value is None:
            rev += 1
            live[key] = None
            log += (rev, key, 3, kv.create_rev, kv.mod_rev, None, None)
            events.append(Event(rev, Op.DELETE, key, None, kv.create_rev, kv.mod_rev, kv.value))
            results.append(WriteResult(True, rev, kv))
        else:
            rev += 1
            expires = kv.expires if write.expires == KEEP_TTL else write.expires
            live[key] = KV(key, value, rev, kv.create_rev, expires)
            log += (rev, key, 2, kv.create_rev, kv.mod_rev, expires, value)
            events.append(Event(rev, Op.UPDATE, key, value, kv.create_rev, kv.mod_rev, kv.value))
            results.append(WriteResult(True, rev))
    return BatchPlan(results, events, log, live, rev)
