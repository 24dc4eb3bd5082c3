"""The past states of a resource that are kept: for the next page of a list, and for exact revisions.

A state is recorded when it is read and is valid until the next change. A state that wasn't recorded is
made from the nearest later one by undoing the changes in the ring. States older than the ring
are dropped, so what they keep alive is bounded like the ring.

Must not know: how changes arrive. Next: `resource_cache`.
"""

from __future__ import annotations

from collections import deque

from oarlock.storage.backend import Rev
from oarlock.storage.cache.leaves import Leaves, Root
from oarlock.storage.cache.limits import CacheLimits
from oarlock.storage.cache.ring import Ring

__all__ = ["Roots"]


class _Held:
    """A root that was the state of the resource at every revision in ``[first, last]``."""

    __slots__ = ("first", "last", "root")

    def __init__(self, first: Rev, last: Rev, root: Root) -> None:
        self.first = first
        self.last = last
        self.root = root


_OPEN = 1 << 62


class Roots:
    """The recorded states, oldest first."""

    __slots__ = ("_held", "_limits", "open")

    open: bool
    """Whether the newest held state is the current one. Read on every change, so that `seal` is called rarely."""

    def __init__(self, limits: CacheLimits) -> None:
        self._held: deque[_Held] = deque(maxlen=limits.roots)
        self._limits = limits
        self.open = False

    def __len__(self) -> int:
        return len(self._held)

    def current(self, tree: Leaves, ring: Ring) -> Root:
        """The current state, recorded from now on."""
        if self.open:
            return self._held[-1].root
        root = tree.freeze()
        self._held.append(_Held(ring.last, _OPEN, root))
        self.open = True
        return root

    def seal(self, rev: Rev) -> None:
        """End the current state: a change at revision `rev` is about to be made."""
        if self.open:
            self._held[-1].last = rev - 1
            self.open = False

    def forget(self, oldest: Rev) -> None:
        """Drop states that ended before `oldest`, the ring's."""
        held = self._held
        while held and held[0].last < oldest:
            held.popleft()

    def at(self, rev: Rev, tree: Leaves, ring: Ring) -> Root | None:
        """The state at `rev`, a revision below ``ring.last``; None when it isn't recorded and can't be made cheaply."""
        if rev < ring.oldest:
            return None
        later: _Held | None = None
        place = len(self._held)
        for held in reversed(self._held):
            if held.last < rev:
                break
            place -= 1
            later = held
            if held.first <= rev:
                return held.root
        until = later.first if later else ring.last
        changed = ring.before(rev, until, self._limits.undo)
        if changed is None:
            return None
        past = Leaves(later.root if later else tree.freeze())
        for key, entry in changed.items():
            if entry is None:
                past.remove(key)
            else:
                past.put(entry)
        root = past.freeze()
        if len(self._held) < self._limits.roots:
            self._held.insert(place, _Held(rev, ring.next_change(rev) - 1, root))
        return root
