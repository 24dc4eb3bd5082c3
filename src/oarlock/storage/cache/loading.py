"""Loading one resource: its objects at one revision, in pages, and the events before it that the backend still has.

The events matter after a restart: without them, every client whose watch was cut off would have to list again.
Everything here takes its time in slices, and nothing is put in place until it is complete.

Must not know: what happens meanwhile (`cache` buffers it). Next: `follower`.
"""

from __future__ import annotations

from collections import deque

from oarlock.storage.backend import Batch, Event, Op, Rev, StorageError
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.events import CacheEvent
from oarlock.storage.cache.position import Position
from oarlock.storage.cache.resource import ResourceCache
from oarlock.storage.cache.ring import Ring
from oarlock.storage.cache.slices import Slices
from oarlock.storage.cache.state import State

__all__ = ["load"]


async def load(resource: ResourceCache, *, reuse: bool = True) -> tuple[State, Rev]:
    """The state of the resource at a revision that was current after this was called, and that revision.

    `reuse` takes over entries the resource already has. Raises what the backend raises; `Compacted` when loading
    took longer than history is kept.
    """
    live, rev = await _objects(resource, reuse)
    ring = await _history(resource, live, rev)
    return State(live, ring, resource.store.limits), rev


async def _objects(resource: ResourceCache, reuse: bool) -> tuple[dict[str, Entry], Rev]:
    store = resource.store
    live: dict[str, Entry] = {}
    start, rev = resource.prefix, 0
    while True:
        page = await store.backend.list(start, resource.end, rev=rev, limit=store.limits.page)
        rev = rev or page.rev
        for entry in await resource.entries(page.kvs, reuse=reuse):
            live[entry.key] = entry
        if not page.more:
            return live, rev
        start = page.kvs[-1].key + "\0"


class _Collector:
    """Takes a watch's events up to a revision, and the newest of them if they are too many."""

    def __init__(self, resource: ResourceCache, start: Rev, until: Rev) -> None:
        store = resource.store
        self.events: deque[Event] = deque()
        self.start = start
        self.lost = False
        self.progress = Position(store.backend.request_progress, store.limits.nudge_s)
        self._until = until
        self._bytes = 0
        self._limits = store.limits

    def deliver(self, batch: Batch) -> None:
        for event in batch.events:
            if event.rev <= self._until:
                self.events.append(event)
                self._bytes += _size(event)
        while len(self.events) > self._limits.ring_max or self._bytes > 2 * self._limits.ring_bytes:
            dropped = self.events.popleft()
            self.start = dropped.rev
            self._bytes -= _size(dropped)
        self.progress.advance(batch.rev)

    def failed(self, error: StorageError) -> None:
        self.lost = True
        self.progress.advance(self._until)


def _size(event: Event) -> int:
    return len(event.value or b"") + len(event.prev_value or b"")


async def _history(resource: ResourceCache, live: dict[str, Entry], rev: Rev) -> Ring:
    """The ring up to `rev`, as far back as the backend and the limits go; empty when there is nothing to be had."""
    store = resource.store
    start = max(await store.backend.compact_rev(), rev - store.limits.history_revs)
    if start >= rev:
        return Ring(store.limits, rev)
    collector = _Collector(resource, start, rev)
    watch = await store.backend.watch(
        resource.prefix, resource.end, after=start, deliver=collector.deliver, failed=collector.failed
    )
    try:
        arrived = await collector.progress.reach(rev, store.limits.fresh_s)
    finally:
        watch.close()
        await collector.progress.close()
    if collector.lost or not arrived:
        return Ring(store.limits, rev)
    return await _replay(resource, live, collector)


async def _replay(resource: ResourceCache, live: dict[str, Entry], collector: _Collector) -> Ring:
    store = resource.store
    slices = Slices(store.clock, store.limits.slice_s)
    ring = Ring(store.limits, collector.start)
    before: dict[str, Entry | None] = {}
    now = store.clock.monotonic()
    while collector.events:
        event = collector.events.popleft()
        key = event.key
        previous = before.get(key)
        if key not in before and event.prev_value is not None:
            previous = resource.describe(key, event.prev_value, event.prev_rev, event.create_rev)
        change = _change(resource, live.get(key), event, previous)
        if change is None:
            # What was there before is no longer known, so nobody can be told of this as a change.
            ring = Ring(store.limits, event.rev)
        else:
            ring.append(change, now)
        if event.value is None:
            before[key] = None
        elif change is not None:
            before[key] = change.entry
        else:
            before[key] = resource.describe(key, event.value, event.rev, event.create_rev)
        if slices.due():
            await slices.rest()
    return ring


def _change(resource: ResourceCache, now: Entry | None, event: Event, previous: Entry | None) -> CacheEvent | None:
    """The event as watchers see it; `now` is the live entry, used where it is what the event made."""
    if previous is None and event.op is not Op.CREATE:
        return None
    value = event.value
    if value is None:
        if previous is None:
            return None
        return CacheEvent("DELETED", event.rev, resource.describe_deleted(event, previous), previous)
    if now is None or now.rev != event.rev:
        now = resource.describe(event.key, value, event.rev, event.create_rev)
    return CacheEvent("MODIFIED" if previous else "ADDED", event.rev, now, previous)
