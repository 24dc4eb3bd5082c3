"""`MemoryBackend` (``memory://``): the reference model for every other backend, and the store for tests.

All state is plain Python and every method runs in one step of the event loop, so this code shows what the contract
means. History is kept until it is compacted; nothing survives the process.

Must not know: kinds, JSON, users. See also: `watchers` (delivery of events), `sqlite.backend` (the durable one).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import secrets
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from operator import attrgetter, itemgetter

from oarlock.meta.context import Clock
from oarlock.storage.backend import (
    EPOCH_GAP,
    KEEP_TTL,
    KV,
    Caps,
    Compacted,
    Deliver,
    Failed,
    Findings,
    FutureRevision,
    Op,
    Page,
    Rev,
    StoreEvent,
    TooLarge,
    Unavailable,
    WriteResult,
)
from oarlock.storage.watchers import RangeWatch, Watchers

__all__ = ["DEFAULT_MAX_VALUE", "FIRST_REV", "MemoryBackend"]

FIRST_REV = 1
"""The revision of a store nobody has written to: a list of it must answer something above 0, which means "any"."""

DEFAULT_MAX_VALUE = 4 * 1024 * 1024
"""What a request may have, 3 MiB, and room for what the server adds, managed fields above all."""

REAP_EVERY_S = 1.0

_BY_REV = attrgetter("rev")
_FIRST = itemgetter(0)


class MemoryBackend:
    """A store in this process's memory.

    `next_rev` computes the next revision, if that isn't the next number: a test can pass one that leaves gaps.
    Keys expire when `reap` is called: by a task every `REAP_EVERY_S` seconds after `start`, or by a test.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        next_rev: Callable[[Rev], Rev] | None = None,
    ) -> None:
        self.caps = Caps(durable=False, max_value=DEFAULT_MAX_VALUE)
        self._clock = clock
        self._next_rev = next_rev
        self._epoch = secrets.token_hex(8)
        self._rev: Rev = FIRST_REV
        self._compact_rev: Rev = 0
        self._live: dict[str, KV] = {}
        self._keys: list[str] = []
        self._log: list[StoreEvent] = []
        # Per key, every kept state as (revision, state), oldest first; None means deleted.
        self._history: dict[str, list[tuple[Rev, KV | None]]] = {}
        self._expiries: list[tuple[int, str, Rev]] = []
        self._watchers = Watchers()
        self._reaper: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        self._reaper = asyncio.create_task(self._reap_forever(), name="memory store: expiry")

    async def close(self) -> None:
        self._closed = True
        self._watchers.close()
        task, self._reaper = self._reaper, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def epoch(self) -> str:
        return self._epoch

    def known_rev(self) -> Rev | None:
        return self._rev

    async def current_rev(self) -> Rev:
        self._open()
        return self._rev

    # Reads

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        self._open()
        if not rev:
            return self._live.get(key), self._rev
        self._must_have(rev)
        return self._at(key, rev), rev

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        self._open()
        if rev:
            self._must_have(rev)
            states = (self._at(key, rev) for key in sorted(k for k in self._history if start <= k < end))
            kvs = [kv for kv in states if kv is not None]
        else:
            keys = self._keys
            kvs = [self._live[key] for key in keys[bisect_left(keys, start) : bisect_left(keys, end)]]
        page = kvs[:limit] if limit else kvs
        remaining = len(kvs) - len(page)
        return Page(page, rev or self._rev, more=remaining > 0, count=remaining)

    async def count(self, start: str, end: str) -> tuple[int, Rev]:
        self._open()
        return max(0, bisect_left(self._keys, end) - bisect_left(self._keys, start)), self._rev

    # Writes

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        if self._closed:
            self._open()
        if len(value) > self.caps.max_value:
            raise TooLarge(len(value), self.caps.max_value)
        current = self._live.get(key)
        if (current.mod_rev if current else 0) != expect:
            return WriteResult(False, self._rev, current)
        rev = self._rev + 1 if self._next_rev is None else self._next_rev(self._rev)
        if ttl_ms == KEEP_TTL:
            expires = current.expires if current else None
        else:
            expires = None if ttl_ms is None else int(self._clock.now() * 1000) + ttl_ms
        kv = KV(key, value, rev, current.create_rev if current else rev, expires)
        if current is None:
            insort(self._keys, key)
        self._live[key] = kv
        if expires is not None:
            heapq.heappush(self._expiries, (expires, key, rev))
        self._record(key, rev, kv, current)
        return WriteResult(True, rev)

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        self._open()
        return self._delete(key, expect)

    def reap(self) -> int:
        """Delete every expired key; returns how many there were."""
        now_ms = int(self._clock.now() * 1000)
        count = 0
        while self._expiries and self._expiries[0][0] <= now_ms:
            expires, key, rev = heapq.heappop(self._expiries)
            current = self._live.get(key)
            # Written again since: a later entry covers it, if it still has a time to live.
            if current is not None and current.mod_rev == rev and current.expires == expires:
                count += self._delete(key, rev).ok
        return count

    def _delete(self, key: str, expect: Rev) -> WriteResult:
        current = self._live.get(key)
        if current is None or current.mod_rev != expect:
            return WriteResult(False, self._rev, current)
        del self._live[key]
        del self._keys[bisect_left(self._keys, key)]
        rev = self._rev + 1 if self._next_rev is None else self._next_rev(self._rev)
        self._record(key, rev, None, current)
        return WriteResult(True, rev, current)

    def _record(self, key: str, rev: Rev, kv: KV | None, previous: KV | None) -> None:
        if kv is None:
            op, value, create_rev = Op.DELETE, None, previous.create_rev if previous else 0
        else:
            op, value, create_rev = (Op.UPDATE if previous else Op.CREATE), kv.value, kv.create_rev
        prev_rev, prev_value = (previous.mod_rev, previous.value) if previous else (0, None)
        event = StoreEvent(rev, op, key, value, create_rev, prev_rev, prev_value)
        self._rev = rev
        self._log.append(event)
        self._history.setdefault(key, []).append((rev, kv))
        self._watchers.publish((event,), rev)

    # Watching and history

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> RangeWatch:
        self._open()
        watch = RangeWatch((start, end), after, deliver, failed)
        if after < self._compact_rev:
            watch.fail(Compacted(self._compact_rev, self._rev))
            return watch
        self._watchers.add(watch)
        if after < self._rev:
            watch.send(self._log[bisect_right(self._log, after, key=_BY_REV) :], self._rev)
        return watch

    async def request_progress(self) -> None:
        self._open()
        self._watchers.publish((), self._rev)

    async def compact(self, rev: Rev) -> None:
        self._open()
        if rev > self._rev:
            raise FutureRevision(self._rev)
        if rev <= self._compact_rev:
            raise Compacted(self._compact_rev, self._rev)
        self._compact_rev = rev
        end = bisect_right(self._log, rev, key=_BY_REV)
        for key in {event.key for event in self._log[:end]}:
            states = self._history[key]
            # A read at `rev` sees the last state at or before `rev`; after a deletion, nothing.
            keep = bisect_right(states, rev, key=_FIRST) - 1
            keep += states[keep][1] is None
            if keep < len(states):
                del states[:keep]
            else:
                del self._history[key]
        del self._log[:end]

    async def compact_rev(self) -> Rev:
        return self._compact_rev

    def lose_after(self, rev: Rev, *, skip: int = 1000) -> None:
        """Forget every write after `rev`, as a database does that fails over to a replica which was behind.

        As R3 wants it: another epoch, and revisions that go on above those that were given out, by `skip`.
        """
        self._must_have(rev)
        self._live = {key: kv for key in sorted(self._history) if (kv := self._at(key, rev)) is not None}
        self._keys = list(self._live)
        self._expiries = [(kv.expires, key, kv.mod_rev) for key, kv in self._live.items() if kv.expires is not None]
        heapq.heapify(self._expiries)
        self._begin_epoch(self._rev + skip)

    async def begin_epoch(self, above: Rev) -> Rev:
        self._open()
        self._begin_epoch(max(self._rev, above) + EPOCH_GAP)
        return self._rev

    def _begin_epoch(self, rev: Rev) -> None:
        self._history = {key: [(kv.mod_rev, kv)] for key, kv in self._live.items()}
        self._log = []
        self._epoch = secrets.token_hex(8)
        self._rev = self._compact_rev = rev
        self._watchers.fail(Compacted(rev, rev))

    async def check(self, *, quick: bool = False) -> Findings:
        findings: Findings = []
        if self._keys != sorted(self._live):
            findings.append("the ordered keys differ from the live keys")
        last = {key: states[-1][1] for key, states in self._history.items()}
        if {key: kv for key, kv in last.items() if kv is not None} != self._live:
            findings.append("the live keys differ from the end of their history")
        revs = [event.rev for event in self._log]
        if any(b <= a for a, b in itertools.pairwise(revs)) or (revs and revs[-1] != self._rev):
            findings.append("the revisions of the log don't grow up to the current one")
        return findings

    # Internal

    def _open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")

    def _must_have(self, rev: Rev) -> None:
        if rev > self._rev:
            raise FutureRevision(self._rev)
        if rev < self._compact_rev:
            raise Compacted(self._compact_rev, self._rev)

    def _at(self, key: str, rev: Rev) -> KV | None:
        states = self._history.get(key)
        if not states:
            return None
        index = bisect_right(states, rev, key=_FIRST)
        return states[index - 1][1] if index else None

    async def _reap_forever(self) -> None:
        while True:
            await asyncio.sleep(REAP_EVERY_S)
            self.reap()
