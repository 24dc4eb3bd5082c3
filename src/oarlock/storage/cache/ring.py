"""The event ring of one resource: its latest changes, in revision order, bounded in number, age and bytes.

It decides whether a watch can continue (`oldest`), replays events, and gives the changes to undo for a past state.
Its capacity grows while the oldest event is younger than `CacheLimits.ring_age_s`, and is halved when a
quarter of it is enough for that age.

Must not know: who listens. See also: `roots`, the past states.
"""

from __future__ import annotations

from bisect import bisect_right

from oarlock.storage.backend import Rev
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.events import CacheEvent
from oarlock.storage.cache.limits import CacheLimits

__all__ = ["Ring"]

_OVERHEAD_BYTES = 256
"""An event and its entry without the body, about."""


class Ring:
    """All events of one resource with a revision in ``(oldest, …]``.

    Three parallel lists with a moving head instead of a deque, so that finding a revision is a bisection.
    """

    __slots__ = ("_bytes", "_events", "_head", "_limits", "_revs", "_room", "_times", "last", "oldest")

    oldest: Rev
    """Every change after this revision is here."""
    last: Rev
    """The revision of the newest change, or where the ring began when there has been none."""

    def __init__(self, limits: CacheLimits, start: Rev) -> None:
        self._limits = limits
        self._room = limits.ring_min
        self._events: list[CacheEvent | None] = []
        self._revs: list[Rev] = []
        self._times: list[float] = []
        self._head = 0
        self._bytes = 0
        self.oldest = start
        self.last = start

    def __len__(self) -> int:
        return len(self._revs) - self._head

    @property
    def bytes(self) -> int:
        """The estimated memory kept alive by the events.

        Each body counts once: an event's entry is the next one's previous.
        """
        return self._bytes

    def append(self, event: CacheEvent, now: float) -> None:
        """Add the newest event, and drop old ones beyond the limits. `now` is in monotonic seconds."""
        events = self._events
        events.append(event)
        self._revs.append(event.rev)
        self._times.append(now)
        self.last = event.rev
        event.size = len(event.entry.body) + _OVERHEAD_BYTES
        self._bytes += event.size
        count = len(events) - self._head
        if count > self._limits.ring_warm:
            older = events[-1 - self._limits.ring_warm]
            if older is not None:
                older.memo = None
        if count > self._room:
            self._make_room(now)
        while self._bytes > self._limits.ring_bytes and len(self) > 1:
            self._drop()

    def _make_room(self, now: float) -> None:
        young = now - self._limits.ring_age_s
        if self._times[self._head] > young:
            self._room = min(self._room * 2, self._limits.ring_max)
        elif self._times[len(self._times) - self._room // 4] <= young:
            self._room = max(self._room // 2, self._limits.ring_min)
        while len(self) > self._room:
            self._drop()

    def _drop(self) -> None:
        head = self._head
        event = self._events[head]
        if event is not None:
            self.oldest = event.rev
            self._bytes -= event.size
        self._events[head] = None
        self._head = head = head + 1
        if head > 64 and head * 2 > len(self._revs):
            del self._events[:head]
            del self._revs[:head]
            del self._times[:head]
            self._head = 0

    def after(self, rev: Rev) -> list[CacheEvent]:
        """The events after `rev`, oldest first. Complete when ``rev >= oldest``."""
        first = bisect_right(self._revs, rev, self._head)
        return [event for event in self._events[first:] if event is not None]

    def find(self, rev: Rev) -> CacheEvent | None:
        """The event at exactly `rev`."""
        at = bisect_right(self._revs, rev, self._head) - 1
        return self._events[at] if at >= self._head and self._revs[at] == rev else None

    def next_change(self, rev: Rev) -> Rev:
        """The revision of the first change after `rev`, which must be below `last`."""
        return self._revs[bisect_right(self._revs, rev, self._head)]

    def before(self, rev: Rev, until: Rev, most: int) -> dict[str, Entry | None] | None:
        """For the keys changed in ``(rev, until]``, their entries at `rev`, None for absent.

        The result is None when that is unknown, or when there are more than `most`.
        """
        if rev < self.oldest:
            return None
        first = bisect_right(self._revs, rev, self._head)
        end = bisect_right(self._revs, until, first)
        if end - first > most * 4:
            return None
        states: dict[str, Entry | None] = {}
        for event in self._events[first:end]:
            if event is not None:
                states.setdefault(event.entry.key, event.previous)
        return states if len(states) <= most else None
