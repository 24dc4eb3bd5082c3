"""The state of one resource: its live entries, the same in order, its latest events and its held past.

One object, so that a reload can build another beside it and put it in place in one step. `put` and `remove` are
what an event costs; everything else here is a read.

Must not know: the backend, subscriptions, how entries are made. Next: `resource`.
"""

from __future__ import annotations

from oarlock.storage.backend import Rev
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.events import CacheEvent
from oarlock.storage.cache.leaves import Leaves
from oarlock.storage.cache.limits import Limits
from oarlock.storage.cache.ring import Ring
from oarlock.storage.cache.roots import Roots
from oarlock.storage.cache.snapshot import Snapshot

__all__ = ["State"]


class State:
    """Built from entries in key order and a ring that ends at the list's revision or before."""

    __slots__ = ("_roots", "_tree", "live", "ring")

    def __init__(self, live: dict[str, Entry], ring: Ring, limits: Limits) -> None:
        self.live = live
        self.ring = ring
        self._tree = Leaves.build(list(live.values()))
        self._roots = Roots(limits)

    def put(self, entry: Entry, now: float) -> CacheEvent:
        """The object of `entry` was created or changed. Revisions only grow; `now` is monotonic seconds."""
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
        """The object, which is here, was deleted. `entry` is how it last was, at the revision of the deletion."""
        roots = self._roots
        if roots.open:
            roots.seal(entry.rev)
        previous = self.live.pop(entry.key)
        self._tree.remove(entry.key)
        event = CacheEvent("DELETED", entry.rev, entry, previous)
        self.ring.append(event, now)
        return event

    def settle(self) -> None:
        """After a batch: let go of what the ring let go of."""
        self._roots.forget(self.ring.oldest)

    def snapshot(self, rev: Rev) -> Snapshot:
        """The state now, called `rev`: everything up to `rev` has been put here."""
        return Snapshot(rev, self._roots.current(self._tree, self.ring))

    def snapshot_at(self, rev: Rev) -> Snapshot | None:
        """The state at `rev`, a revision that everything up to has been put here; None when memory doesn't reach."""
        if rev >= self.ring.last:
            return self.snapshot(rev)
        root = self._roots.at(rev, self._tree, self.ring)
        return None if root is None else Snapshot(rev, root)
