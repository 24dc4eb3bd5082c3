"""Decides the results of a batch in Python: current state × writes → results, events and rows. Pure.

Each write is decided on the state that the writes before it leave, so a write whose compare fails, fails alone.

Must not know: SQL, locks, threads. See also: `commits` for how a plan is executed.
"""

from __future__ import annotations

import asyncio
from typing import Final

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import KEEP_TTL, KV, Op, Rev, StoreEvent, WriteResult

__all__ = ["BatchPlan", "QueuedWrite", "plan"]


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
