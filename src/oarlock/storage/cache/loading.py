"""Loads one resource: its objects at one revision, in pages, and the earlier events that the backend still has.

Each page is read at the current revision, because reading an old revision costs a store several times as
much; the events that arrive meanwhile bring the earlier pages up to the last one. The events before the list
matter after a restart: without them, every client whose watch was cut off would have to list again.
All work is done in slices, and nothing is visible until it is complete.

Must not know: the watch of the store; arriving events are passed in. See also: `follower`, `history`.
"""

from __future__ import annotations

from collections.abc import Sequence

from oarlock.storage.backend import Op, Rev, StoreEvent, Unavailable
from oarlock.storage.cache.entry import CacheEvent, Entry
from oarlock.storage.cache.follower import EarlierEvents, Position, SharedHistory
from oarlock.storage.cache.resource_cache import ResourceCache
from oarlock.storage.cache.state import Ring, State
from oarlock.storage.pacing import Pacer

__all__ = ["load"]


async def load(
    resource: ResourceCache,
    position: Position,
    arriving: Sequence[StoreEvent],
    *,
    reuse: bool = True,
    history: SharedHistory | None = None,
) -> tuple[State, Rev]:
    """The state of the resource at a revision that was current after this was called, and that revision.

    `position` is that of the store's watch, at least the returned revision when this returns; `arriving` collects
    every event of the resource since this was called, up to it. Without `reuse` the store is in another epoch:
    nothing known is used again, and no earlier event is taken up, so whoever knows an earlier revision lists again.
    `history` has the earlier events of this resource and others; else they are read for this one.
    Raises what the backend raises, and `Unavailable` when watch and list of the backend don't agree.
    """
    source = resource.source
    since = position.rev
    live: dict[str, Entry] = {}
    start, more, rev = resource.prefix, True, since
    while more:
        page = await source.backend.list(start, resource.end, limit=source.limits.page)
        if page.rev < since:
            raise Unavailable(f"the store answered at revision {page.rev} after it had reported revision {since}")
        rev, more = page.rev, page.more
        for entry in await resource.entries(page.kvs, reuse=reuse):
            live[entry.key] = entry
        if more:
            start = page.kvs[-1].key + "\0"
    if not await position.reach(rev, source.limits.fresh_s):
        raise Unavailable(f"the store reported no events up to revision {rev}, at which it had answered before")
    live = _merge(resource, live, [event for event in arriving if event.rev <= rev])
    ring = await _history(resource, live, rev, history) if reuse else Ring(source.limits, rev)
    return State(live, ring, source.limits), rev


def _merge(resource: ResourceCache, live: dict[str, Entry], events: Sequence[StoreEvent]) -> dict[str, Entry]:
    """One state from pages read at different revisions, using all events since the first page."""
    for event in events:
        known = live.get(event.key)
        if known is not None and known.rev >= event.rev:
            continue
        if event.value is None:
            live.pop(event.key, None)
        else:
            live[event.key] = resource.describe(event.key, event.value, event.rev, event.create_rev)
    return dict(sorted(live.items())) if events else live


async def _history(resource: ResourceCache, live: dict[str, Entry], rev: Rev, shared: SharedHistory | None) -> Ring:
    """The event ring up to `rev`, as far back as the backend and the limits go; may be empty."""
    source = resource.source
    if shared is not None and shared.has(resource.prefix):
        earlier = await shared.take(resource.prefix, rev)
    else:
        history = SharedHistory(source, (resource.prefix,))
        try:
            earlier = await history.take(resource.prefix, rev)
        finally:
            await history.close()
    return Ring(source.limits, rev) if earlier is None else await _replay(resource, live, earlier)


async def _replay(resource: ResourceCache, live: dict[str, Entry], earlier: EarlierEvents) -> Ring:
    source = resource.source
    pacer = Pacer(source.limits.slice_s, source.clock.monotonic)
    ring = Ring(source.limits, earlier.start)
    before: dict[str, Entry | None] = {}
    now = source.clock.monotonic()
    while earlier.events:
        event = earlier.events.popleft()
        key = event.key
        previous = before.get(key)
        if key not in before and event.prev_value is not None:
            previous = resource.describe(key, event.prev_value, event.prev_rev, event.create_rev)
        change = _change(resource, live.get(key), event, previous)
        if change is None:
            # The previous state isn't known any more, so no change event can be made of this.
            ring = Ring(source.limits, event.rev)
        else:
            ring.append(change, now)
        if event.value is None:
            before[key] = None
        elif change is not None:
            before[key] = change.entry
        else:
            before[key] = resource.describe(key, event.value, event.rev, event.create_rev)
        if pacer.due:
            await pacer.turn()
    return ring


def _change(resource: ResourceCache, now: Entry | None, event: StoreEvent, previous: Entry | None) -> CacheEvent | None:
    """The cache event for a backend event. `now` is the live entry, used if it is the result of this event."""
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
