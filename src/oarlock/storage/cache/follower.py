"""What the process follows of the backend: one watch for what happens, and the history that is read at the start.

The `Follower` starts, restarts and applies the watch in slices. A watch that breaks, or stands still while the store
goes on, is begun again at its last revision, so no event is lost. There is a gap, which the cache handles, when that
revision was compacted, or when the store has lost history meanwhile and is in another epoch.

A `SharedHistory` has the events that the backend still has of some resources, read once for all of them. Each resource
takes its events when its list is complete; until then the watch of the history goes on, so that they reach up to any
list. When they are too many, the oldest are forgotten, for all that haven't taken theirs yet.

Must not know: resources, entries. See also: `watch_cache`; `loading`, which makes cache events of the history.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff
from oarlock.storage.backend import (
    Backend,
    Batch,
    Compacted,
    FutureRevision,
    Rev,
    StorageError,
    StoreEvent,
    Unavailable,
    Watch,
)
from oarlock.storage.pacing import SLICE_S

__all__ = ["CacheLimits", "CacheSource", "EarlierEvents", "Follower", "Position", "SharedHistory"]


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


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """Limits of one `WatchCache`. The first three, of the event ring, are those of Kubernetes' watch cache."""

    ring_min: int = 100
    """Events a resource keeps at least room for."""
    ring_max: int = 102_400
    """Events a resource keeps at most."""
    ring_age_s: float = 75.0
    """The ring grows while its oldest event is younger than this: a client that reconnects after its
    connection was lost (a minute, plus a few seconds of back-off) still finds its place."""
    ring_bytes: int = 64 << 20
    """Bytes of encoded objects a ring may keep alive; a resource updated all the time must not hold gigabytes."""
    ring_warm: int = 256
    """The newest events keep what encoders noted on them; older ones are encoded again when somebody asks."""
    history_revs: int = 10_000
    """How many revisions before the loaded list are asked of the backend, so that a restart doesn't end every watch."""
    roots: int = 128
    """Past states of a resource kept for the next page of a list."""
    undo: int = 1_000
    """How many keys may be set back to answer a list at a past revision from memory (about 5 µs each)."""
    page: int = 2_000
    """Keys per request to the backend while loading: bounds the bytes that are held twice."""
    slice_s: float = SLICE_S
    """How long loading may keep the loop before it gives it back."""
    slice_events: int = 256
    """How many events are applied in one go; a longer batch is applied over several turns of the loop."""
    nudge_s: float = 0.1
    """How often the backend is asked for progress while a reader waits."""
    fresh_s: float = 3.0
    """How long a linearizable read waits for the cache to catch up (Kubernetes: 3 s)."""
    retry_s: float = 0.05
    """The first pause before a lost watch is begun again; doubles up to 20 times this."""

    @property
    def again(self) -> Backoff:
        """The pauses before a lost watch is begun again."""
        return Backoff(self.retry_s, self.retry_s * 20)


log = logging.getLogger("oarlock.storage.cache")


class Follower:
    """Calls `apply` with events in revision order and the revision they are complete up to, or `on_gap`.

    A batch longer than ``limits.slice_events`` is applied over several turns of the loop; later batches wait behind it.
    """

    def __init__(
        self,
        backend: Backend,
        span: tuple[str, str],
        limits: CacheLimits,
        apply: Callable[[Sequence[StoreEvent], Rev], None],
        on_gap: Callable[[StorageError], None],
    ) -> None:
        self._backend = backend
        self._span = span
        self._limits = limits
        self._apply = apply
        self._on_gap = on_gap
        self._watch: Watch | None = None
        self._rev: Rev = 0  # of the last event or progress that was delivered
        self._epoch = ""
        self._backlog: deque[Batch] = deque()
        self._draining: asyncio.Handle | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._down = False
        self._pauses = limits.again.pauses()

    async def begin(self, after: Rev, epoch: str) -> None:
        """Watch everything after `after`, a revision of `epoch`, in place of any earlier watch.

        Raises what the backend raises.
        """
        await self.close()
        self._rev = after
        self._epoch = epoch
        await self._open()

    async def _open(self) -> None:
        start, end = self._span
        watch = await self._backend.watch(start, end, after=self._rev, deliver=self._deliver, failed=self._on_failure)
        self._watch = watch

    async def close(self) -> None:
        """Stop the watch; nothing is applied after this returns."""
        self._down = False
        self._backlog.clear()
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None
        task, self._reopening = self._reopening, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait((task,))
        self._stop()

    def late(self, rev: Rev) -> None:
        """The store is at `rev`, and has been for a while: unless the watch has delivered that, begin it again."""
        if self._rev < rev and self._stop():
            self._on_failure(Unavailable(f"it stands still at revision {self._rev}, and the store is at {rev}"))

    def _stop(self) -> bool:
        """Close the watch; whether there was one."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
        return watch is not None

    def _deliver(self, batch: Batch) -> None:
        if batch.rev > self._rev:
            self._rev = batch.rev
        if self._pauses.failures:
            self._pauses.reset()
        if self._backlog or len(batch.events) > self._limits.slice_events:
            self._backlog.append(batch)
            if self._draining is None:
                self._drain()
        else:
            self._pass_on(batch.events, batch.rev)

    def _pass_on(self, events: Sequence[StoreEvent], rev: Rev) -> None:
        try:
            self._apply(events, rev)
        except Exception as error:
            # It may be applied in part: only loading again gives a known state.
            log.exception("applying events up to revision %d failed", rev)
            self._backlog.clear()
            self._stop()
            self._on_gap(StorageError(f"applying events up to revision {rev} failed: {error}"))

    def _drain(self) -> None:
        """Apply the next slice of the waiting events, and schedule the rest."""
        self._draining = None
        room = self._limits.slice_events
        while self._backlog and room > 0:
            batch = self._backlog.popleft()
            head, rest = batch.events[:room], batch.events[room:]
            room -= max(len(head), 1)
            if rest:
                self._backlog.appendleft(Batch(rest, batch.rev))
                self._pass_on(head, head[-1].rev)
            else:
                self._pass_on(head, batch.rev)
        if self._backlog:
            self._draining = asyncio.get_running_loop().call_soon(self._drain)

    def _on_failure(self, error: StorageError) -> None:
        self._watch = None
        if isinstance(error, Compacted):
            log.warning("the watch cache fell behind what the store keeps and loads again: %s", error)
            self._on_gap(error)
            return
        self._down = True
        if self._reopening is None or self._reopening.done():
            log.warning("the watch of the store was lost and is begun again: %s", error)
            self._reopening = asyncio.get_running_loop().create_task(self._reopen(), name="cache: watch again")

    async def _reopen(self) -> None:
        while self._down:
            await asyncio.sleep(self._pauses.take())
            try:
                self._down = False
                await self._open()
                # Asked once the watch is there: what it delivers from now on can't be of a later epoch unnoticed.
                epoch = await self._backend.epoch()
            except Compacted as error:
                self._on_gap(error)
            except StorageError:
                self._stop()
                self._down = True
            else:
                if epoch != self._epoch and not self._down:
                    log.warning("the store is in another epoch, and the watch cache loads again")
                    self._stop()
                    self._on_gap(StorageError("the store is in another epoch"))
