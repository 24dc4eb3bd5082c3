"""The state of one resource: its live entries by key and in order, its event ring and its recorded past states.

One object, so that a reload can build another and replace it in one step. An event costs one `put` or `remove`;
everything else here is a read.

Must not know: the backend, subscriptions, how entries are made. See also: `resource_cache`.
"""

from __future__ import annotations

from oarlock.storage.backend import Rev
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.events import CacheEvent
from oarlock.storage.cache.leaves import Leaves
from oarlock.storage.cache.limits import CacheLimits
from oarlock.storage.cache.ring import Ring
from oarlock.storage.cache.roots import Roots
from oarlock.storage.cache.snapshot import Snapshot

__all__ = ["State"]


class State:
    """Built from entries in key order and a ring that ends at or before the list's revision."""

    __slots__ = ("_roots", "_tree", "live", "ring")

    def __init__(self, live: dict[str, Entry], ring: Ring, limits: CacheLimits) -> None:
        self.live = live
        self.ring = ring
        self._tree = Leaves.build(list(live.values()))
        self._roots = Roots(limits)

    def put(self, entry: Entry, now: float) -> CacheEvent:
        """Apply the creation or update of an object. Revisions only grow; `now` is in monotonic seconds."""
        roots = self._roots
        if roots.open:
            roots.seal(entry.rev)
        live = self.live
        previous = live.get(entry.key)
        live[entry.key] = entry
        self._tree.put(entry)
        event = CacheEvent("ADDED" if previous is None else "MODIFIED", entry.rev, entry, previous)
        self.ring.append(event, now)
        return event

    def remove(self, entry: Entry, now: float) -> CacheEvent:
        """Apply the deletion of an existing object. `entry` is its last state, at the revision of the deletion."""
        roots = self._roots
        if roots.open:
            roots.seal(entry.rev)
        previous = self.live.pop(entry.key)
        self._tree.remove(entry.key)
        event = CacheEvent("DELETED", entry.rev, entry, previous)
        self.ring.append(event, now)
        return event

    def settle(self) -> None:
        """Called after a batch: drop what the ring has dropped."""
        self._roots.forget(self.ring.oldest)

    def snapshot(self, rev: Rev) -> Snapshot:
        """The current state as of `rev`: every event up to `rev` has been applied."""
        return Snapshot(rev, self._roots.current(self._tree, self.ring))

    def snapshot_at(self, rev: Rev) -> Snapshot | None:
        """The state at `rev`, every event up to which has been applied; None when it isn't in memory."""
        if rev >= self.ring.last:
            return self.snapshot(rev)
        root = self._roots.at(rev, self._tree, self.ring)
        return None if root is None else Snapshot(rev, root)
