"""`SharedHistory`: the events that the backend still has of some resources, read once for all of them.

The log of a store may be long and resources may be many, so that resources that are loaded together share one watch
over it. Each takes its events when its list is complete; until then the watch goes on, so that they reach up to any
list. When they are too many, the oldest are forgotten, for all that haven't taken theirs yet.

Must not know: entries, the state of a resource. See also: `loading`, which makes cache events of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import Backend, Batch, FutureRevision, Rev, StorageError, StoreEvent, Watch
from oarlock.storage.cache.follower import CacheLimits

__all__ = ["CacheSource", "EarlierEvents", "Position", "SharedHistory"]


class Position:
    """A revision that only grows, with its waiters.

    While there are waiters, `ask` is called at once and then every `nudge_s` seconds, never concurrently. It should
    make the store report its revision (`Backend.request_progress`). Only when the store has begun another history does
    the revision go back (`restart`).
    """

    __slots__ = ("_ask", "_asking", "_closed", "_nudge_s", "_waiters", "rev")

    rev: Rev

    def __init__(self, ask: Callable[[], Awaitable[None]], nudge_s: float) -> None:
        self.rev = 0
        self._ask = ask
        self._nudge_s = nudge_s
        self._asking: asyncio.Task[None] | None = None
        self._closed = False
        self._waiters: dict[asyncio.Future[None], Rev] = {}

    def advance(self, rev: Rev) -> None:
        """Set the revision to `rev` if that is larger, and wake the waiters."""
        if rev > self.rev:
            self.rev = rev
            if self._waiters:
                self._wake()

    def _wake(self) -> None:
        for future, rev in list(self._waiters.items()):
            if rev <= self.rev or self._closed:
                del self._waiters[future]
                if not future.done():
                    future.set_result(None)

    def interrupt(self) -> None:
        """End all waits now: what they wait for isn't coming."""
        for future in self._waiters:
            if not future.done():
                future.set_result(None)

    def restart(self, rev: Rev) -> None:
        """Set the revision to one of another history, which may be smaller."""
        self.rev = rev
        self._wake()

    async def reach(self, rev: Rev, timeout_s: float, *, ask_after_s: float = 0.0) -> bool:
        """Wait until `rev` is reached, at most `timeout_s` seconds of the loop's time.

        The first `ask` is made after `ask_after_s`: a caller who knows that the events are coming doesn't ask at once.
        False on timeout, or when the position was closed or interrupted.
        """
        if rev <= self.rev:
            return True
        loop = asyncio.get_running_loop()
        start = loop.time()
        arrival: asyncio.Future[None] = loop.create_future()
        self._waiters[arrival] = rev
        try:
            while not arrival.done() and not self._closed:
                elapsed = loop.time() - start
                if elapsed >= timeout_s:
                    break
                if elapsed >= ask_after_s:
                    self._nudge()
                await asyncio.wait((arrival,), timeout=min(timeout_s - elapsed, self._nudge_s))
            return rev <= self.rev
        finally:
            self._waiters.pop(arrival, None)

    async def require(self, rev: Rev, timeout_s: float) -> None:
        """Like `reach`, but raises `FutureRevision` instead of returning False."""
        if rev > self.rev and not await self.reach(rev, timeout_s):
            raise FutureRevision(self.rev)

    def _nudge(self) -> None:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask_quietly())

    async def _ask_quietly(self) -> None:
        try:
            await self._ask()
        except StorageError:
            pass  # whoever waits finds out by not arriving, and says so with more context

    async def close(self) -> None:
        """Stop asking, and release the waiters."""
        self._closed = True
        self._wake()
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))


@dataclass(frozen=True, slots=True)
class CacheSource:
    """What all resources of a cache share. `late` is called with a revision whose events don't come."""

    backend: Backend
    position: Position
    limits: CacheLimits
    clock: Clock
    late: Callable[[Rev], None]


@dataclass(frozen=True, slots=True)
class EarlierEvents:
    """All events of a resource after `start`, up to the revision that was asked for."""

    start: Rev
    events: deque[StoreEvent]


class _Collected(NamedTuple):
    rev: Rev
    prefix: str
    size: int


class SharedHistory:
    """Events of the resources with these `prefixes`, each of which takes its own once. Close it after use.

    Two resources may have the same prefix, which is listed twice then.
    """

    def __init__(self, source: CacheSource, prefixes: Iterable[str]) -> None:
        self._source = source
        self._limits = source.limits
        self._takers = Counter(prefixes)
        self._events: dict[str, deque[StoreEvent]] = {prefix: deque() for prefix in self._takers}
        self._order: deque[_Collected] = deque()
        self._bytes = 0
        self._start: Rev = 0
        self._failure = False
        self._watch: Watch | None = None
        self._opening = asyncio.Lock()
        self._progress = Position(source.backend.request_progress, source.limits.nudge_s)

    def has(self, prefix: str) -> bool:
        """Whether events of this prefix are collected for one who hasn't taken them."""
        return self._takers[prefix] > 0

    async def take(self, prefix: str, rev: Rev) -> EarlierEvents | None:
        """The events of a prefix up to `rev`, as far back as the backend and the limits go; None if there are none.

        Raises `StorageError` when the watch can't be begun.
        """
        async with self._opening:
            if self._watch is None:
                await self._open(rev)
        complete = await self._progress.reach(rev, self._limits.fresh_s)
        events = self._events[prefix]
        self._takers[prefix] -= 1
        if not self._takers[prefix]:
            self._forget(prefix)
        if self._failure or not complete or self._start >= rev:
            return None
        return EarlierEvents(self._start, deque(event for event in events if self._start < event.rev <= rev))

    async def close(self) -> None:
        """End the watch. Safe to call twice."""
        if self._watch is not None:
            self._watch.close()
        self._events.clear()
        self._order.clear()
        await self._progress.close()

    async def _open(self, rev: Rev) -> None:
        backend = self._source.backend
        first, last = min(self._events), max(self._events)
        self._start = max(await backend.compact_rev(), rev - self._limits.history_revs)
        self._watch = await backend.watch(
            first, last[:-1] + "0", after=self._start, deliver=self._deliver, failed=self._failed
        )

    def _deliver(self, batch: Batch) -> None:
        for event in batch.events:
            key = event.key
            prefix = key[: key.find("/", key.find("/", key.find("/", 1) + 1) + 1) + 1]
            events = self._events.get(prefix)
            if events is not None:
                events.append(event)
                size = _size(event)
                self._order.append(_Collected(event.rev, prefix, size))
                self._bytes += size
        while len(self._order) > self._limits.ring_max or self._bytes > 2 * self._limits.ring_bytes:
            self._forget_oldest()
        self._progress.advance(batch.rev)

    def _forget(self, prefix: str) -> None:
        self._bytes -= sum(map(_size, self._events.pop(prefix, ())))

    def _forget_oldest(self) -> None:
        oldest = self._order.popleft()
        events = self._events.get(oldest.prefix)
        if events is not None:
            events.popleft()
            self._bytes -= oldest.size
            self._start = oldest.rev

    def _failed(self, error: StorageError) -> None:
        self._failure = True
        self._progress.interrupt()


def _size(event: StoreEvent) -> int:
    return len(event.value or b"") + len(event.prev_value or b"")
