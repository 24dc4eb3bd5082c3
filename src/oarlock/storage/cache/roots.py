"""The past states of a resource that are kept: for the next page of a list, and for exact revisions.

A state is recorded when it is read and is valid until the next change. A state that wasn't recorded is
made from the nearest later one by undoing the changes in the ring. States older than the ring
are dropped, so what they keep alive is bounded like the ring.

Must not know: how changes arrive. See also: `resource_cache`.
"""

from __future__ import annotations

from collections import deque

from oarlock.storage.backend import Rev
from oarlock.storage.cache.leaves import Leaves, Root
from oarlock.storage.cache.limits import CacheLimits
from oarlock.storage.cache.ring import Ring

__all__ = ["Roots"]


class _PastState:
    """A root that was the state of the resource at every revision in ``[first, last]``."""

    __slots__ = ("first", "last", "root")

    def __init__(self, first: Rev, last: Rev, root: Root) -> None:
        self.first = first
        self.last = last
        self.root = root


_OPEN = 1 << 62


class Roots:
    """The recorded states, oldest first."""

    __slots__ = ("_limits", "_states", "open")

    open: bool
    """Whether the newest recorded state is the current one. Read on every change, so that `seal` is called rarely."""

    def __init__(self, limits: CacheLimits) -> None:
        self._states: deque[_PastState] = deque(maxlen=limits.roots)
        self._limits = limits
        self.open = False

    def __len__(self) -> int:
        return len(self._states)

    def current(self, tree: Leaves, ring: Ring) -> Root:
        """The current state, recorded from now on."""
        if self.open:
            return self._states[-1].root
        root = tree.freeze()
        self._states.append(_PastState(ring.last, _OPEN, root))
        self.open = True
        return root

    def seal(self, rev: Rev) -> None:
        """End the current state: a change at revision `rev` is about to be made."""
        if self.open:
            newest = self._states[-1]
            newest.last = rev - 1
            newest.root.forget_selected()
            self.open = False

    def forget(self, oldest: Rev) -> None:
        """Drop states that ended before `oldest`, the ring's."""
        states = self._states
        while states and states[0].last < oldest:
            states.popleft()

    def at(self, rev: Rev, tree: Leaves, ring: Ring) -> Root | None:
        """The state at `rev`, a revision below ``ring.last``; None when it isn't recorded and can't be made cheaply."""
        if rev < ring.oldest:
            return None
        later: _PastState | None = None
        place = len(self._states)
        for state in reversed(self._states):
            if state.last < rev:
                break
            place -= 1
            later = state
            if state.first <= rev:
                return state.root
        until = later.first if later else ring.last
        changes = ring.before(rev, until, self._limits.undo)
        if changes is None:
            return None
        past = Leaves(later.root if later else tree.freeze())
        for key, entry in changes.items():
            if entry is None:
                past.remove(key)
            else:
                past.put(entry)
        root = past.freeze()
        if len(self._states) < self._limits.roots:
            self._states.insert(place, _PastState(rev, ring.next_change(rev) - 1, root))
        return root
