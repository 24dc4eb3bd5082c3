"""`WatchCache`: all resources of one store, kept current by one watch of the backend.

The watch covers ``/registry/``. An event goes to the resources of its key's prefix; keys without a resource are
skipped. `rev` is the revision up to which everything has been applied. A resource is loaded while the watch goes on;
its events are buffered until the list is complete. One prefix may be loaded more than once with different `Describe`
functions: when a definition is replaced, the new cache is loaded beside the old one, which still answers. When the
store has compacted the watch's revision, or has lost history, all subscriptions end with `TooOld`, everything is loaded
again and exchanged in one step; until then readers see the old state at its old revision.

Must not know: kinds, HTTP, encodings. See also: `loading`, `follower`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from oarlock.meta.context import Clock
from oarlock.net.futures import shared
from oarlock.storage.backend import Backend, Compacted, Rev, StorageError, StoreEvent, Unavailable, shown_key
from oarlock.storage.cache.entry import CacheEvent, Describe, Later, TooOld
from oarlock.storage.cache.follower import CacheLimits, CacheSource, Follower, Position, SharedHistory
from oarlock.storage.cache.loading import load
from oarlock.storage.cache.resource_cache import ResourceCache
from oarlock.storage.cache.state import State

__all__ = ["ROOT", "ResourceCache", "WatchCache"]

ROOT = "/registry/"
"""Where the keys of objects begin: ``/registry/<group>/<resource>/[<namespace>/]<name>``."""

ASKED_AT_ONCE = 2
"""How often the store is asked for its revision at the same time. Were it once, an answer that is lost would hold up
all."""

_SKIP = len(ROOT)

log = logging.getLogger("oarlock.storage.cache")


class WatchCache:
    """One per process and store. Used from one event loop."""

    def __init__(self, backend: Backend, *, clock: Clock, limits: CacheLimits | None = None) -> None:
        limits = limits or CacheLimits()
        self._backend = backend
        self._limits = limits
        self._clock = clock
        self._known_rev = backend.known_rev
        self._current_rev_sync: Callable[[], Rev | None] | None = getattr(backend, "current_rev_sync", None)
        self._position = Position(backend.request_progress, limits.nudge_s)
        # Ahead of `_position` only while everything is loaded again and arriving events are buffered.
        self._watch_position = Position(backend.request_progress, limits.nudge_s)
        self._source = CacheSource(backend, self._position, limits, clock, self._late)
        self._follower = Follower(backend, (ROOT, ROOT[:-1] + "0"), limits, self._apply, self._on_gap)
        self._resources: dict[ResourceCache, None] = {}
        self._live: dict[str, tuple[ResourceCache, ...]] = {}
        self._buffers: dict[str, dict[ResourceCache, list[StoreEvent]]] = {}
        self._epoch = ""
        self._gaps = 0
        self._stale: dict[ResourceCache, None] = {}
        self._reloading: asyncio.Task[None] | None = None
        self._round: asyncio.Task[None] | None = None
        self._rounds: set[asyncio.Task[None]] = set()
        self._asking = asyncio.Semaphore(ASKED_AT_ONCE)

    async def start(self) -> None:
        """Begin to watch the store, which must have been started. Raises `StorageError`."""
        self._epoch = await self._backend.epoch()
        rev = await self._backend.current_rev()
        self._watch_position.advance(rev)
        self._position.advance(rev)
        await self._follower.begin(rev, self._epoch)

    async def close(self) -> None:
        """End all subscriptions and waits. Safe to call twice. The backend stays open."""
        tasks = [*self._rounds, *([self._reloading] if self._reloading else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._reloading = None
        await self._follower.close()
        await self._position.close()
        await self._watch_position.close()
        for resource in list(self._resources):
            self.drop(resource)

    # State

    def shown_key(self, key: str) -> str:
        """The key as an operator finds it in the store."""
        return shown_key(self._backend, key)

    @property
    def rev(self) -> Rev:
        """Everything up to this revision of the whole store has been applied.

        Watches use it for bookmarks: outside of a `Deliver` call, everything up to it has been delivered.
        """
        return self._position.rev

    @property
    def epoch(self) -> str:
        """The epoch of the store that `rev` belongs to."""
        return self._epoch

    @property
    def resources(self) -> Sequence[ResourceCache]:
        """The resources that are loaded or being loaded."""
        return tuple(self._resources)

    def fresh(self) -> Awaitable[None] | None:
        """An awaitable that makes a read linearizable; None when there is nothing to wait for.

        Once it is done, everything written before this call, by any process, has been applied. One `current_rev` serves
        all callers of the same turn of the loop, and while the store is being asked, those that come until it has
        answered. Awaiting raises `Unavailable` when the store doesn't answer or the
        cache doesn't catch up within ``limits.fresh_s``.
        """
        known = self._known_rev()
        if known is not None:
            if known <= self._position.rev:
                return None
        elif (
            self._current_rev_sync is not None
            and self._reloading is None
            and self._current_rev_sync() == self._position.rev
        ):
            return None
        if self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._catch_up(), name="cache: catch up")
            self._rounds.add(self._round)
            self._round.add_done_callback(self._rounds.discard)
        return shared(self._round)

    async def _catch_up(self) -> None:
        known = self._known_rev()
        if known is None:
            rev = await self._asked_rev()
        else:
            self._round, rev = None, known
        if self._reloading is not None:
            await asyncio.wait((self._reloading,), timeout=self._limits.fresh_s)
        if self._reloading is not None or not await self._position.reach(rev, self._limits.fresh_s):
            self._late(rev)
            raise Unavailable(f"the watch cache is at revision {self.rev} and doesn't catch up with the store at {rev}")

    async def _asked_rev(self) -> Rev:
        """The store's revision. If that is behind what was delivered before, the store has lost history."""
        reached = self._watch_position.rev
        try:
            async with asyncio.timeout(self._limits.fresh_s), self._asking:
                self._round = None  # it is asked now: whoever calls from here on needs a later answer
                rev = await self._backend.current_rev()
        except TimeoutError:
            raise Unavailable("the store doesn't answer") from None
        finally:
            if self._round is asyncio.current_task():
                self._round = None
        if rev < reached and self._reloading is None:
            log.warning("the store went back from revision %d to %d, and the watch cache loads again", reached, rev)
            self._on_gap(StorageError(f"the store went back from revision {reached} to {rev}"))
        return rev

    def _late(self, rev: Rev) -> None:
        if self._reloading is None:
            self._follower.late(rev)

    async def wait_for(self, rev: Rev, timeout_s: float = 3.0) -> None:
        """Wait until everything up to `rev` has been applied. Raises `FutureRevision` on timeout."""
        await self._position.require(rev, timeout_s)

    # Resources

    @asynccontextmanager
    async def together(self, prefixes: Iterable[str]) -> AsyncIterator[SharedHistory]:
        """What `resource` is given for resources with these prefixes, so that they read the store's log once."""
        history = SharedHistory(self._source, prefixes)
        try:
            yield history
        finally:
            await history.close()

    async def resource(
        self, prefix: str, describe: Describe, later: Later, history: SharedHistory | None = None
    ) -> ResourceCache:
        """Load all keys below `prefix` (``/registry/<group>/<resource>/``) and keep them current.

        An existing cache of the same prefix stays current until it is dropped. `history` is that of `together`.
        Raises ValueError when the prefix has another form, and what the backend raises.
        """
        if not prefix.startswith(ROOT) or prefix.count("/") != 4 or not prefix.endswith("/"):
            raise ValueError(f"a resource's prefix is {ROOT}<group>/<resource>/, not {prefix!r}")
        resource = ResourceCache(self._source, prefix, describe, later)
        self._resources[resource] = None
        try:
            await self._bring_up(resource, history)
        except BaseException:
            self.drop(resource)
            raise
        return resource

    def drop(self, resource: ResourceCache) -> None:
        """Remove a resource: its subscriptions end with None, and it is no longer kept current. Safe to call twice."""
        if resource not in self._resources:
            return
        del self._resources[resource]
        live = tuple(other for other in self._live.pop(resource.prefix, ()) if other is not resource)
        if live:
            self._live[resource.prefix] = live
        self._stale.pop(resource, None)
        self._stop_buffering(resource)
        resource.withdraw()

    async def _bring_up(self, resource: ResourceCache, history: SharedHistory | None) -> None:
        while True:
            if self._reloading is not None:
                await shared(self._reloading)
            gaps = self._gaps
            try:
                loaded = await self._load(resource, history=history)
            except StorageError:
                if gaps == self._gaps:
                    raise
                history = None  # after a gap it may have events that the store has lost
                continue
            if resource not in self._resources:
                raise StorageError(f"{resource.prefix} was withdrawn while it was loaded")
            if gaps == self._gaps:
                self._put_in_place(resource, *loaded)
                return
            history = None

    async def _load(
        self, resource: ResourceCache, *, reuse: bool = True, history: SharedHistory | None = None
    ) -> tuple[State, Rev, list[StoreEvent]]:
        """The state at a revision, the revision, and the events buffered since; `_watch_position` has reached it."""
        buffer: list[StoreEvent] = []
        self._buffers.setdefault(resource.prefix, {})[resource] = buffer
        try:
            state, rev = await load(resource, self._watch_position, buffer, reuse=reuse, history=history)
        except BaseException:
            self._stop_buffering(resource)
            raise
        return state, rev, buffer

    def _stop_buffering(self, resource: ResourceCache) -> None:
        """Stop buffering events for `resource`."""
        buffers = self._buffers.get(resource.prefix)
        if buffers is not None:
            buffers.pop(resource, None)
            if not buffers:
                del self._buffers[resource.prefix]

    def _put_in_place(self, resource: ResourceCache, state: State, rev: Rev, buffer: list[StoreEvent]) -> None:
        """Make what was loaded current.

        Must run in the same step of the loop as the end of the wait for `_watch_position`, or an event could be lost or
        doubled.
        """
        self._stop_buffering(resource)
        resource.install(state)
        now = self._clock.monotonic()
        for event in buffer:
            if event.rev > rev:
                resource.apply(event, now)
        self._live[resource.prefix] = (*self._live.get(resource.prefix, ()), resource)

    # Events

    def _apply(self, events: Sequence[StoreEvent], rev: Rev) -> None:
        """Apply events to all resources, then advance `rev`, then call the subscribers.

        In this order, no subscriber is told of a change that some cache doesn't have yet.
        """
        changes_of: dict[ResourceCache, list[CacheEvent]] = {}
        if events:
            live, buffers = self._live, self._buffers
            reached = self._watch_position.rev
            now = self._clock.monotonic()
            for event in events:
                if event.rev <= reached:
                    continue  # an event that was delivered before must not spoil the order of the rings
                key = event.key
                prefix = key[: key.find("/", key.find("/", _SKIP) + 1) + 1]
                for resource in live.get(prefix, ()):
                    change = resource.apply(event, now)
                    if change is None:
                        continue
                    if resource in changes_of:
                        changes_of[resource].append(change)
                    else:
                        changes_of[resource] = [change]
                if buffers:
                    for buffer in buffers.get(prefix, {}).values():
                        buffer.append(event)
        self._watch_position.advance(rev)
        if self._reloading is None:
            self._position.advance(rev)
        if changes_of:
            # The subscribers are collected first: one that subscribes later has these events from the ring.
            listeners = [*map(ResourceCache.settle, changes_of)]
            for told, changes in zip(listeners, changes_of.values(), strict=True):
                for subscription in told:
                    try:
                        subscription.deliver(changes)
                    except Exception as error:  # one that raises is ended; the others still get theirs
                        log.exception("delivering events of %s failed", changes[0].entry.key)
                        subscription.end(error)

    # Loading again after a gap

    def _on_gap(self, error: StorageError) -> None:
        self._gaps += 1
        self._watch_position.interrupt()
        if self._reloading is not None:
            return
        self._reloading = asyncio.get_running_loop().create_task(self._reload(), name="cache: load again")
        self._stale = {resource: None for resources in self._live.values() for resource in resources}
        self._live = {}
        for resource in self._stale:
            resource.ready = False
        why = TooOld(error.compact_rev if isinstance(error, Compacted) else self._watch_position.rev)
        for resource in list(self._stale):
            resource.end_subscriptions(why)

    async def _reload(self) -> None:
        pauses = self._limits.again.pauses()
        while True:
            try:
                if await self._reload_once():
                    return
            except Exception as error:
                # Any error: without another attempt this process would serve the old state for ever.
                level = logging.WARNING if isinstance(error, StorageError) else logging.ERROR
                log.log(level, "loading again failed, next attempt in %.2f s", pauses.next_s, exc_info=error)
            await asyncio.sleep(pauses.take())

    async def _reload_once(self) -> bool:
        """Load everything again and exchange it. False when the revision was compacted again meanwhile."""
        gaps = self._gaps
        reached = self._watch_position.rev
        epoch = await self._backend.epoch()
        rev = await self._backend.current_rev()
        if epoch == self._epoch and rev < reached:
            # It was put back by means that know nothing of epochs: without one, revisions would have two meanings.
            rev = await self._backend.begin_epoch(reached)
            epoch = await self._backend.epoch()
        await self._follower.close()
        if epoch == self._epoch:
            self._watch_position.advance(rev)
        else:
            self._watch_position.restart(rev)
        await self._follower.begin(rev, epoch)
        loaded: list[tuple[ResourceCache, tuple[State, Rev, list[StoreEvent]]]] = []
        async with self.together(resource.prefix for resource in self._stale) as history:
            for resource in list(self._stale):
                if gaps != self._gaps:
                    return False
                loaded.append((resource, await self._load(resource, reuse=epoch == self._epoch, history=history)))
        if gaps != self._gaps:
            return False
        if epoch != self._epoch:
            log.error(
                "the store has lost history after a failover or restore: it was at revision %d", self._position.rev
            )
            self._epoch = epoch
        for resource, parts in loaded:
            if resource in self._stale:
                self._put_in_place(resource, *parts)
        self._stale = {}
        self._reloading = None
        self._position.restart(self._watch_position.rev)
        return True
