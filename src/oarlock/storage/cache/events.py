"""Events of the watch cache: `CacheEvent`, its `Subscription`, and `TooOld` when a watch can't continue.

Errors (all of the `StorageError` family):

    StorageError
    └── TooOld    some events after the requested revision are gone (Kubernetes: 410 Expired)

Must not know: media types, selectors, HTTP; an encoder of the caller caches its results in `CacheEvent.memo`.
See also: `ring`, which keeps events; `resource_cache`, which delivers them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from oarlock.storage.backend import Rev, StorageError
from oarlock.storage.cache.entry import Entry

__all__ = ["CacheEvent", "Closed", "DeliverEvents", "EventType", "Subscription", "TooOld"]

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class TooOld(StorageError):
    """Events after the requested revision are gone; the client must list again. `oldest` is the first one possible."""

    def __init__(self, oldest: Rev) -> None:
        super().__init__(f"the events asked for are gone: the oldest revision to continue from is {oldest}")
        self.oldest = oldest


class CacheEvent:
    """A change of one object, shared by all its watchers.

    The `entry` of a DELETED event is the last state of the object, described at the revision of the deletion;
    `previous` is the entry before the change, None for ADDED.
    """

    __slots__ = ("entry", "memo", "previous", "rev", "size", "type")

    type: EventType
    rev: Rev
    entry: Entry
    previous: Entry | None
    size: int
    """What the ring counts it as: an entry may be completed while it is there."""
    memo: dict[Any, Any] | None
    """For encoders above: frames of this event, made once for all watchers. Dropped when the event is not recent."""

    def __init__(self, type: EventType, rev: Rev, entry: Entry, previous: Entry | None) -> None:
        self.type = type
        self.rev = rev
        self.entry = entry
        self.previous = previous
        self.size = 0
        self.memo = None

    def __repr__(self) -> str:
        return f"<{self.type} {self.entry.key} at {self.rev}>"


DeliverEvents = Callable[[Sequence[CacheEvent]], None]
"""Called on the loop with one or more events, in revision order. Must be quick, and must neither raise nor wait."""

Closed = Callable[[Exception | None], None]
"""Called at most once, after which nothing is delivered: with None when the resource is withdrawn or the cache
closed, with `TooOld` when the cache lost its own place in the store. Not called after `Subscription.close`."""


class Subscription:
    """One watcher of a resource. Made by `ResourceCache.subscribe`."""

    __slots__ = ("_after", "_closed", "_deliver", "_forget", "deliver")

    def __init__(self, deliver: DeliverEvents, closed: Closed, forget: Callable[[Subscription], None]) -> None:
        self.deliver: DeliverEvents = deliver
        self._closed: Closed = closed
        self._forget = forget
        self._deliver = deliver
        self._after = 0

    def begin_after(self, after: Rev) -> None:
        """Deliver nothing up to `after`, a revision that this process hasn't reached yet."""
        self._after = after
        self.deliver = self._deliver_later

    def _deliver_later(self, events: Sequence[CacheEvent]) -> None:
        later = [event for event in events if event.rev > self._after]
        if later:
            self.deliver = self._deliver
            self._deliver(later)

    def close(self) -> None:
        """Stop delivering at once, even in the middle of a batch. Safe to call twice."""
        self.deliver = _ignore
        self._deliver = _ignore
        self._closed = _ignore_end
        self._forget(self)

    def end(self, why: Exception | None) -> None:
        """Stop delivering, and tell the watcher why (see `Closed`)."""
        closed = self._closed
        self.close()
        closed(why)


def _ignore(events: Sequence[CacheEvent]) -> None:
    """The `deliver` of a closed subscription."""


def _ignore_end(error: Exception | None) -> None:
    """The `closed` of a closed subscription: it must not hold the watcher."""
