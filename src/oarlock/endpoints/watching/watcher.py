"""`Watcher`: connects one watch's stream to the cache.

The cache calls it on the event loop with each batch of events; it selects, frames and writes them without waiting. Only
the initial objects, or missed events, are paced, so that a hundred thousand of them neither block the event loop nor
fill the memory; new events meanwhile wait in order.
Must not know: HTTP beyond `Stream`. Source: API concepts, "efficient detection of changes"; KEP-3157.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from itertools import chain
from time import monotonic
from typing import Any

from oarlock.endpoints.http import Stream
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.endpoints.watching.event_frames import BrokenObject, EventFrames
from oarlock.endpoints.watching.watch_groups import Interest, WatchGroup, watch_groups
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Expired, InternalError, TooManyRequests
from oarlock.registry.read.selection import Selection
from oarlock.registry.stored.resource import StoredResource
from oarlock.registry.workers import offload_bytes
from oarlock.storage.backend import Compacted, StorageError, Unavailable
from oarlock.storage.cache.entry import CacheEvent, Entry, Subscription, TooOld
from oarlock.storage.pacing import SLICE_S, Pacer, Slices

log = logging.getLogger("oarlock.endpoints")

BOOKMARK_S = 60.0
"""Interval of BOOKMARK events of an idle watch, in seconds."""

LAST_BOOKMARK_S = 2.0
"""A watch that ends by its timeout gets a BOOKMARK this many seconds before."""

SHORT_WATCH_S = 10.0
"""A watch shorter than this, in seconds, gets no BOOKMARK before its end."""

AHEAD_BYTES = 128 * 1024
"""How many bytes of initial events may be buffered for the client."""

CATCH_UP_STEP = 32

WAITING_EVENTS = 200_000
WAITING_BYTES = 64 * 1024 * 1024
"""The most events, and bytes of their objects, that may wait for the initial events; beyond, the watch is ended."""

_NOTHING: deque[CacheEvent] = deque(maxlen=0)
"""No events that wait, for all watches: an empty deque of its own takes 600 bytes."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a watch begins and what it selects. `after` None means now.

    `on_initial_sent` is called once the initial objects were written, unless the watch ends before.
    """

    namespace: str
    name: str
    selection: Selection
    initial: bool
    after: int | None
    bookmarks: bool
    annotated: bool
    timeout_s: float
    on_initial_sent: Callable[[], None] | None = None


class Watcher:
    """One open watch; it exists as long as its stream."""

    __slots__ = (
        "_after",
        "_awaits",
        "_behind",
        "_book",
        "_bookmark_timer",
        "_converts",
        "_end_timer",
        "_frames",
        "_group",
        "_interest",
        "_live",
        "_loop",
        "_pumping",
        "_resource",
        "_slices",
        "_start",
        "_subscription",
        "_tally",
        "_waiting",
        "_waiting_bytes",
        "_woken",
        "stream",
    )

    def __init__(
        self, resource: StoredResource, route: ResourceRoute, stream: Stream, frames: EventFrames, start: Start
    ) -> None:
        self._resource = resource
        self.stream = stream
        self._frames = frames
        self._start = start
        self._loop = asyncio.get_running_loop()
        self._book = route.watches
        self._tally = (route.target.group, route.target.version, route.target.resource)
        self._interest = Interest(resource, start.namespace, start.name, start.selection)
        self._group: WatchGroup | None = None
        self._waiting = _NOTHING
        self._waiting_bytes = 0
        self._live = False
        self._awaits = resource.served.converter.waits
        self._converts = resource.definition.stored_as != route.target.version
        self._behind = False
        self._woken: asyncio.Future[None] | None = None
        self._after = 0
        self._subscription: Subscription | None = None
        self._bookmark_timer: asyncio.TimerHandle | None = None
        self._pumping: asyncio.Task[None] | None = None
        self._slices = Slices.here()
        self._end_timer = self._loop.call_later(start.timeout_s, self.stream.close)

    def run(self) -> None:
        """Start. Called once, after the head of the answer was sent."""
        self.stream.on_close(self._closed)
        self._book.add(self.stream.close)
        if self.stream.closed:
            return
        resource, start = self._resource, self._start
        chunks: Iterator[Sequence[Entry]] = iter(())
        if start.initial:
            chunks = iter(resource.cache.snapshot().range(*resource.range(start.namespace)))
        self._after = resource.watch_cache.rev if start.after is None else start.after
        if self._subscribe(self._after):
            if self._awaits:
                self._begin_to_follow(chunks)
                return
            # most watches have little to send first: half a slice at once, even if many others have just begun
            self._pump(max(self._slices.begin(), monotonic() + SLICE_S / 2), chunks, iter(()))

    def _subscribe(self, after: int) -> bool:
        try:
            self._subscription = self._resource.cache.subscribe(after, self._deliver, self.ended)
        except TooOld as error:
            self.ended(error)
            return False
        except Unavailable as error:
            self.stream.write(self._frames.error(TooManyRequests(f"storage is (re)initializing: {error}")))
            self.stream.close()
            return False
        if self.stream.closed:
            self._closed()
        return not self.stream.closed

    def _pump(self, until: float, chunks: Iterator[Sequence[Entry]], rest: Iterator[Entry]) -> None:
        """Write initial objects for one slice of time, then let others run and wait for the client."""
        stream = self.stream
        if stream.buffered > AHEAD_BYTES:
            self._later(self._pump, chunks, rest)
            return
        while not stream.closed:
            for entry in rest:
                if self._converts and offload_bytes(entry.body):
                    self._begin_to_follow(chain([[entry, *rest]], chunks))
                    return
                if self._interest.wants(entry) and not self._write_added(entry):
                    return
                if stream.buffered > AHEAD_BYTES or monotonic() > until:
                    self._later(self._pump, chunks, rest)
                    return
            chunk = next(chunks, None)
            if chunk is None:
                break
            rest = iter(chunk)
        if stream.closed:
            return
        self._end_initial()
        self._catch_up(until)

    def _end_initial(self) -> None:
        """All initial objects are written."""
        start = self._start
        if start.initial and start.bookmarks and start.annotated:
            self.stream.write(self._frames.bookmark(self._after, initial_end=True))
        if start.on_initial_sent is not None:
            start.on_initial_sent()

    def _catch_up(self, until: float) -> None:
        """Write the missed and the waiting events, likewise in slices; then the watch is live."""
        waiting = self._waiting
        while waiting and not self.stream.closed:
            if self.stream.buffered > AHEAD_BYTES or monotonic() > until:
                self._later(self._catch_up)
                return
            if self._converts and self._are_large(waiting):
                self._run_concurrently(self._follow_on())
                self._schedule_bookmark()
                return
            batch = [waiting.popleft() for _ in range(min(len(waiting), CATCH_UP_STEP))]
            self._waiting_bytes -= sum([event.size for event in batch])
            self._write_events(batch)
        self._live = True
        self._waiting = _NOTHING
        self._join()
        self._schedule_bookmark()

    def _join(self) -> None:
        """Join the group of watches with the same selection, once no earlier event is missing."""
        resource, subscription = self._resource, self._subscription
        if self._converts or not self._frames.shared or subscription is None or self._after > resource.watch_cache.rev:
            return
        try:
            groups = watch_groups(self._book, resource)
        except StorageError:  # this one ends too
            return
        subscription.close()
        self._subscription = None
        self._group = groups.join(self, self._interest, self._frames, self._tally)

    def _begin_to_follow(self, chunks: Iterator[Sequence[Entry]]) -> None:
        """Objects may have to be converted by a webhook before they can be sent: a task does that, in order."""
        self._run_concurrently(self._follow(chunks))

    def _run_concurrently(self, work: Coroutine[Any, Any, None]) -> None:
        self._pumping = following = self._loop.create_task(work, name="watch: conversions")
        following.add_done_callback(self._followed)

    @staticmethod
    def _are_large(events: Iterable[CacheEvent]) -> bool:
        """Whether one of these objects is too large to convert on the event loop."""
        shown = (entry for event in events for entry in (event.entry, event.previous) if entry is not None)
        return any(offload_bytes(entry.body) for entry in shown)

    def _followed(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            log.error("a watch of %s failed", self._resource.definition.group_resource, exc_info=error)
            self.ended(error)

    async def _follow(self, chunks: Iterator[Sequence[Entry]]) -> None:
        stream, resource, version = self.stream, self._resource, self._start.selection.version
        pacer = Pacer()
        await resource.settled(version)
        for chunk in chunks:
            for batch in _batches(filter(self._interest.wants, chunk)):
                await self._frames.prepare_added(batch)
                for entry in batch:
                    if stream.closed or not self._write_added(entry):
                        return
                await self._keep_pace(pacer)
        self._end_initial()
        self._schedule_bookmark()
        await self._follow_on()

    async def _follow_on(self) -> None:
        """Write events as they come, each when its object has been converted."""
        stream, resource, interest = self.stream, self._resource, self._interest
        version = self._start.selection.version
        pacer = Pacer()
        while not stream.closed:
            if not self._waiting:
                self._woken = self._loop.create_future()
                await self._woken
            self._behind = True
            batch = self._next_few()
            await resource.settled(version)
            await self._frames.prepare([(event, kind) for event in batch if (kind := interest.kind(event))])
            self._write_events(batch)
            self._behind = False
            await self._keep_pace(pacer)

    def _next_few(self) -> list[CacheEvent]:
        batch: list[CacheEvent] = []
        size = 0
        while self._waiting and len(batch) < CATCH_UP_STEP and size < AHEAD_BYTES:
            event = self._waiting.popleft()
            size += event.size
            batch.append(event)
        self._waiting_bytes -= size
        return batch

    async def _keep_pace(self, pacer: Pacer) -> None:
        """Let others run, and wait for the client."""
        if self.stream.buffered > AHEAD_BYTES:
            await self.stream.drained()
        await pacer.turn()

    def _later(self, step: Callable[..., None], *args: object) -> None:
        if self.stream.buffered > AHEAD_BYTES:
            self._pumping = waiting = self._loop.create_task(self.stream.drained())
            waiting.add_done_callback(lambda done: None if done.cancelled() else self._in_line(step, *args))
        else:
            self._in_line(step, *args)

    def _in_line(self, step: Callable[..., None], *args: object) -> None:
        """Call `step` with the end of its time slice, when it is this watch's turn."""
        self._slices.later(lambda: None if self.stream.closed else step(monotonic() + SLICE_S, *args))

    def _write_added(self, entry: Entry) -> bool:
        try:
            self.stream.write(self._frames.added(entry))
        except BrokenObject as broken:
            self.fail(broken)
            return False
        return True

    def _deliver(self, events: Sequence[CacheEvent]) -> None:
        """Called by the cache, on the event loop, with events in revision order."""
        if self._live:
            if not self._converts or not self._are_large(events):
                self._write_events(events)
                return
            self._live = False  # from now on a task sends the events in order
            self._run_concurrently(self._follow_on())
        if self._waiting is _NOTHING:
            self._waiting = deque()
        self._waiting += events
        self._waiting_bytes += sum([event.size for event in events])
        if len(self._waiting) > WAITING_EVENTS or self._waiting_bytes > WAITING_BYTES:
            self.stream.abort()
        elif self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _write_events(self, events: Sequence[CacheEvent]) -> None:
        stream, frames, kind_of = self.stream, self._frames, self._interest.kind
        sent = 0
        try:
            for event in events:
                kind = kind_of(event)
                if kind:
                    stream.write(frames.event(event, kind))
                    sent += 1
        except BrokenObject as broken:
            self.fail(broken)
        if sent:
            counts = self._book.events
            counts[self._tally] = counts.get(self._tally, 0) + sent

    def fail(self, broken: BrokenObject) -> None:
        """End the watch at an object that can't be shown: later events must not overtake it."""
        self.stream.write(self._frames.error(broken.status))
        self.stream.close()

    def ended(self, error: Exception | None) -> None:
        """The cache ends the watch: the resource was withdrawn (None), or its history was lost."""
        if isinstance(error, (TooOld, Compacted)):
            text = f"too old resource version: {self._after} ({self._resource.watch_cache.rev})"
            self.stream.write(self._frames.error(Expired(text)))
        elif error is not None:
            self.stream.write(self._frames.error(InternalError(str(error))))
        self.stream.close()

    def _schedule_bookmark(self) -> None:
        if not self._start.bookmarks or self.stream.closed:
            return
        left = self._end_timer.when() - self._loop.time()
        if left > BOOKMARK_S + LAST_BOOKMARK_S:
            self._bookmark_timer = self._loop.call_later(BOOKMARK_S, self._bookmark)
        elif left > LAST_BOOKMARK_S and self._start.timeout_s >= SHORT_WATCH_S:
            self._bookmark_timer = self._loop.call_later(left - LAST_BOOKMARK_S, self._bookmark)

    def _bookmark(self) -> None:
        if not self._behind and not self._waiting:  # else events up to the revision are still waiting
            rev = max(self._after, self._resource.watch_cache.rev)
            self.stream.write(self._frames.bookmark(rev, initial_end=False))
        self._schedule_bookmark()

    def _closed(self) -> None:
        """Called when the stream has ended, by either side."""
        self._book.release(self.stream.close)
        self._end_timer.cancel()
        for waiting in (self._bookmark_timer, self._pumping):
            if waiting is not None:
                waiting.cancel()
        self._waiting.clear()
        if self._group is not None:
            self._group.leave(self)
            self._group = None
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """As many entries, and bytes of them, as are converted at once."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.body)
        if len(batch) >= CATCH_UP_STEP or size >= AHEAD_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
