"""`ResourceCache`: one resource's objects in memory. Reads, past states and subscriptions.

Reads are as of `rev`, the position in the whole store. For linearizable reads, await `WatchCache.fresh` first.

Must not know: the watch of the store (`watch_cache` passes the events), what an object is (`Describe` knows).
See also: `writes`, which write through it; `loading`, `watch_cache`.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Sequence

from msgspec import Struct

from oarlock.storage.backend import (
    KEEP_TTL,
    KV,
    OutcomeUnknown,
    Rev,
    Stale,
    StorageError,
    StoreEvent,
    Unavailable,
    WriteResult,
)
from oarlock.storage.cache.entry import (
    CacheEvent,
    Closed,
    DeliverEvents,
    Describe,
    Draft,
    Entry,
    Later,
    Subscription,
    TooOld,
)
from oarlock.storage.cache.follower import CacheSource
from oarlock.storage.cache.state import Ring, Snapshot, State
from oarlock.storage.pacing import Pacer

__all__ = ["ResourceCache", "Writes"]

log = logging.getLogger("oarlock.storage.cache")


class _Pending(Struct, eq=False):
    """A write in progress. An event of its key with equal bytes is its own, or one that the draft describes as well."""

    value: bytes
    draft: Draft | None
    entry: Entry | None = None


class Writes:
    """Writes to one resource. `pending` are those in progress, by key.

    `entry_at` returns what the cache has of a key at a revision.
    """

    def __init__(self, source: CacheSource, describe: Describe, entry_at: Callable[[str, Rev], Entry | None]) -> None:
        self.pending: dict[str, _Pending] = {}
        self.rewrites = source.backend.caps.rewrites
        """Whether `is_stale` needs to be asked."""
        self._source = source
        self._backend = source.backend
        self._position = source.position
        self._describe = describe
        self._entry_at = entry_at

    async def put(
        self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL, draft: Draft | None = None
    ) -> tuple[WriteResult, Entry | None]:
        """`Backend.put`. On success the entry is returned, and has been applied to the cache.

        With `draft` the writer makes the entry itself; otherwise it is described from the bytes. Should the event not
        come within the time a read may wait, the entry is returned all the same: the write is done, and linearizable
        reads wait for it.
        """
        pending = _Pending(value, draft)
        mine = self.pending.setdefault(key, pending) is pending
        try:
            result = await self._backend.put(key, value, expect=expect, ttl_ms=ttl_ms)
            if not result.ok:
                return result, None
            if result.rev > self._position.rev:
                await self._arrival(result.rev)
        finally:
            if mine:
                del self.pending[key]
        entry = pending.entry
        if entry is None or entry.rev != result.rev:
            entry = await self._entry_of_write(key, pending, expect, result.rev)
        return result, entry

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        """`Backend.delete`. On success it has been applied to the cache, unless its event stays away as in `put`."""
        result = await self._backend.delete(key, expect=expect)
        if result.ok and result.rev > self._position.rev:
            await self._arrival(result.rev)
        return result

    async def is_stale(self, key: str, rev: Rev) -> bool:
        """Whether the store has `key` at `rev` in another form than it would write today. Asks the store.

        The cache doesn't know: what is stale changes with the store's configuration. Raises `StorageError`.
        """
        kv, _ = await self._backend.get(key)
        return kv is not None and kv.mod_rev == rev and isinstance(kv.value, Stale)

    def entry(self, event: StoreEvent, value: bytes) -> Entry | None:
        """The entry that a write in progress has for `event`; None if the event is another's."""
        pending = self.pending.get(event.key)
        if pending is None or pending.value != value:
            return None
        pending.entry = self._drafted(pending, event.key, event.rev, event.create_rev)
        return pending.entry

    def _drafted(self, pending: _Pending, key: str, rev: Rev, create_rev: Rev) -> Entry:
        if pending.draft is not None:
            try:
                return pending.draft(rev, create_rev)
            except Exception:
                log.exception("drafting %s at revision %d failed", key, rev)
        return self._describe(key, pending.value, rev, create_rev)

    async def _arrival(self, rev: Rev) -> None:
        """Wait for the events up to `rev`, which are on their way without being asked for."""
        source = self._source
        if not await self._position.reach(rev, source.limits.fresh_s, ask_after_s=source.limits.nudge_s):
            source.late(rev)

    async def _entry_of_write(self, key: str, pending: _Pending, expect: Rev, rev: Rev) -> Entry:
        """The entry written at `rev`, if its event couldn't be recognised or hasn't come."""
        entry = self._entry_at(key, rev)
        if entry is not None:
            return entry
        before = self._entry_at(key, expect) if expect else None
        if before is not None or not expect:
            return self._drafted(pending, key, rev, rev if before is None else before.create_rev)
        try:
            kv, _ = await self._backend.get(key, rev=rev)
        except StorageError as error:
            raise OutcomeUnknown(f"{key} was written at revision {rev} but can't be read back: {error}") from error
        if kv is None:
            raise OutcomeUnknown(f"{key} was written at revision {rev} but isn't there")
        return self._describe(key, kv.value, kv.mod_rev, kv.create_rev)


class ResourceCache:
    """The cache of one resource, made by `WatchCache.resource`.

    Keys are whole keys, ranges are ``start <= key < end``.
    """

    def __init__(self, source: CacheSource, prefix: str, describe: Describe, later: Later) -> None:
        self.prefix = prefix
        self.source = source
        self.ready = False
        """Whether what is here is being kept current: False before it is loaded, while it is loaded again, and
        once it is withdrawn."""
        self._later = later
        self._describe = describe
        self._position = source.position
        self._state = State({}, Ring(source.limits, 0), source.limits)
        self._retired = False
        self._subscriptions: dict[Subscription, None] = {}
        self._listeners: tuple[Subscription, ...] | None = ()
        this = weakref.proxy(self)  # so that a dropped cache is freed at once: collections of cycles are rare
        self.writes = Writes(source, lambda *event: this.describe(*event), lambda key, rev: this.entry_at(key, rev))

    # Reads

    @property
    def rev(self) -> Rev:
        """Everything up to this revision of the store has been applied."""
        return self._position.rev

    @property
    def end(self) -> str:
        """The end of the resource's range of keys: ``prefix <= key < end``."""
        return self.prefix[:-1] + "0"

    @property
    def oldest(self) -> Rev:
        """The smallest revision that `subscribe` can begin after."""
        return self._state.ring.oldest

    def __len__(self) -> int:
        return len(self._state.live)

    def get(self, key: str) -> Entry | None:
        """The object now, or None."""
        return self._state.live.get(key)

    def snapshot(self) -> Snapshot:
        """All objects now. Constant time."""
        return self._state.snapshot(self._position.rev)

    def snapshot_at(self, rev: Rev) -> Snapshot | None:
        """All objects exactly as they were at `rev`; None when `rev` is in the future or no longer in memory."""
        return self._state.snapshot_at(rev) if rev <= self._position.rev else None

    async def list_at(self, rev: Rev, start: str, end: str, limit: int = 0) -> tuple[list[Sequence[Entry]], bool, int]:
        """A page of the range at exactly `rev`, in slices, whether there are more, and how many keys follow it.

        Read from memory if possible, else from the backend. Raises `Compacted`, or `FutureRevision` when `rev`
        isn't reached within the time a read may wait.
        """
        await self._position.require(rev, self.source.limits.fresh_s)
        snapshot = self.snapshot_at(rev)
        if snapshot is not None:
            slices, more = snapshot.page(start, end, limit)
            return slices, more, snapshot.count(start, end) - limit if more else 0
        # In a task: the first step of a request isn't in one, and deadlines on a network need it.
        page = await asyncio.ensure_future(self.source.backend.list(start, end, rev=rev, limit=limit))
        entries = await self.entries(page.kvs)
        return [entries] if entries else [], page.more, page.count

    async def entries(self, kvs: Sequence[KV], *, reuse: bool = True) -> list[Entry]:
        """Describe what the backend listed, in slices; entries that are here at the same revision are used again.

        Broken ones are not: what the backend couldn't read it may read by now. Without `reuse` everything is described:
        after a restore, the same revision may mean another value.
        """
        pacer = Pacer(self.source.limits.slice_s, self.source.clock.monotonic)
        live = self._state.live if reuse else {}
        entries: list[Entry] = []
        for number, kv in enumerate(kvs):
            entry = live.get(kv.key)
            if entry is None or entry.rev != kv.mod_rev or entry.broken:
                entry = self.describe(kv.key, kv.value, kv.mod_rev, kv.create_rev)
                entry.expires = kv.expires
            entries.append(entry)
            if not number & 31:
                await pacer.turn()
        return entries

    def describe(self, key: str, value: bytes, rev: Rev, create_rev: Rev) -> Entry:
        """Call `Describe`; if it raises although it must not, the object is marked as broken."""
        try:
            return self._describe(key, value, rev, create_rev)
        except Exception as error:
            log.exception("describing %s at revision %d failed", key, rev)
            return self._broken(key, rev, create_rev, error)

    def describe_deleted(self, event: StoreEvent, previous: Entry) -> Entry:
        """The last state of a deleted object, at the revision of the deletion."""
        try:
            return self._later(previous, event.rev)
        except Exception as error:
            log.exception("describing %s, deleted at revision %d, failed", event.key, event.rev)
            return self._broken(event.key, event.rev, previous.create_rev, error)

    def _broken(self, key: str, rev: Rev, create_rev: Rev, error: Exception) -> Entry:
        namespace, _, name = key[len(self.prefix) :].rpartition("/")
        return Entry(key, namespace, name, rev, create_rev, b"", broken=f"{type(error).__name__}: {error}")

    def entry_at(self, key: str, rev: Rev) -> Entry | None:
        """The object as it was written at `rev`, while that is in memory."""
        entry = self._state.live.get(key)
        if entry is not None and entry.rev == rev:
            return entry
        event = self._state.ring.find(rev)
        return event.entry if event is not None and event.entry.key == key else None

    # Subscriptions

    def subscribe(self, after: Rev, deliver: DeliverEvents, closed: Closed) -> Subscription:
        """Deliver every change after `after`: known ones before this returns, then each as it arrives.

        `after` may be ahead of `rev` when another process has told the client of it; changes up to `after` are skipped.
        Raises `TooOld` when the ring doesn't reach back to `after`, `Unavailable` when this isn't `ready`. On a
        retired or dropped resource the subscription ends at once.
        """
        if self._retired:
            closed(None)
            return Subscription(deliver, closed, self._forget)
        if not self.ready:
            raise Unavailable(f"the watch cache of {self.prefix} is not ready")
        ring = self._state.ring
        if after < ring.oldest:
            raise TooOld(ring.oldest)
        subscription = Subscription(deliver, closed, self._forget)
        if after > self._position.rev:
            subscription.begin_after(after)
        self._subscriptions[subscription] = None
        self._listeners = None
        if after < ring.last:
            subscription.deliver(ring.after(after))
        return subscription

    def _forget(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            del self._subscriptions[subscription]
            self._listeners = None

    def end_subscriptions(self, why: Exception | None) -> None:
        """End all subscriptions with `why`."""
        for subscription in tuple(self._subscriptions):
            subscription.end(why)

    # Events, passed on by the cache

    def install(self, state: State) -> None:
        """Replace the state by a loaded one."""
        self._state = state
        self.ready = True

    def retire(self) -> None:
        """Another cache replaces this one: watches end, reads still work until it is dropped."""
        self._retired = True
        self.end_subscriptions(None)

    def withdraw(self) -> None:
        """Mark as dropped: it is not kept current any more."""
        self.ready = False
        self.retire()

    def apply(self, event: StoreEvent, now: float) -> CacheEvent | None:
        """Apply an event of the backend. None when it changes nothing here."""
        key = event.key
        value = event.value
        state = self._state
        if value is None:
            previous = state.live.get(key)
            if previous is None:
                return None
            return state.remove(self.describe_deleted(event, previous), now)
        entry = self.writes.entry(event, value) if self.writes.pending else None
        if entry is None:
            entry = self.describe(key, value, event.rev, event.create_rev)
        return state.put(entry, now)

    def settle(self) -> tuple[Subscription, ...]:
        """Called after the last event of a batch; returns the subscriptions to tell of its events."""
        self._state.settle()
        if self._listeners is None:
            self._listeners = tuple(self._subscriptions)
        return self._listeners
