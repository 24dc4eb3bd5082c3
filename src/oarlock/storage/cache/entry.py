"""An `Entry`: what the cache keeps of one object at one revision; a `CacheEvent`: one that came or went.

The cache reads `key`, `rev`, `create_rev` and the length of `body`. The caller's `Describe` fills in the rest, and
the caller reads it when it responds. An entry is immutable: a change of the object makes another entry, so lists,
watches and past states may share one. A `Subscription` is told of events; `TooOld` is raised when a watch can't
continue (Kubernetes: 410 Expired).

Must not know: JSON, kinds, selectors, HTTP; an encoder of the caller caches its results in `CacheEvent.memo`.
See also: `resource_cache`, which delivers events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct

from oarlock.meta.memo import LONGEST_BYTES
from oarlock.storage.backend import Rev, StorageError

__all__ = [
    "CacheEvent",
    "Closed",
    "DeliverEvents",
    "Describe",
    "Draft",
    "Entry",
    "EventType",
    "Interner",
    "Later",
    "Subscription",
    "TooOld",
]

_NO_LABELS: Mapping[str, str] = MappingProxyType({})

_SET_BYTES = 700

_LABEL_BYTES = 250

_TEXT_BYTES = 150


class Entry(Struct, eq=False):
    """One object at one revision. A struct for speed: a hundred thousand of them are made at start."""

    key: str
    namespace: str
    """Empty for an object of the cluster."""
    name: str
    rev: Rev
    create_rev: Rev
    body: bytes
    """What a response is joined from, with the resourceVersion already in place."""
    labels: Mapping[str, str] = _NO_LABELS
    """Shared between entries with equal labels (`Interner`): never to be changed."""
    fields: tuple[str, ...] = ()
    """The values of the selectable fields, in the order the definition names them."""
    extra: Any = None
    """Whatever else `Describe` wants to find again."""
    broken: str = ""
    """Empty, or why the stored value can't be decoded."""
    expires: int | None = None
    """Epoch milliseconds, as the list that loaded it said. Events don't carry it, so None says nothing."""

    def __repr__(self) -> str:
        return f"<Entry {self.key} at {self.rev}{' broken' if self.broken else ''}>"


Describe = Callable[[str, bytes, Rev, Rev], Entry]
"""``(key, value, rev, create_rev)`` → entry. Pure and quick: it is called for every object at start and for every
event after. Never raises: for a value it can't decode it makes an entry with `broken` set."""

Draft = Callable[[Rev, Rev], Entry]
"""``(rev, create_rev)`` → entry, from a writer that knows the object it has just written. Must make what
`Describe` would make of the same bytes."""

Later = Callable[[Entry, Rev], Entry]
"""The same object at a later revision, which is that of its deletion."""


class Interner:
    """Replaces equal label sets, and equal strings, by one shared object.

    A store of 100,000 objects has a few hundred distinct label sets, and a selector may then be evaluated once for
    each. Bounded: beyond `limit_bytes` of distinct values it is emptied, so labels which are all different cost no more
    than without interning. A set with more than `LONGEST_BYTES` of text isn't interned.
    The result is always equal to the argument; that equal arguments give the identical object is not guaranteed.
    """

    __slots__ = ("_in_order", "_labels", "_texts", "held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int = 64 * 1024 * 1024) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._labels: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}
        self._in_order: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}  # found for half of what a set costs
        self._texts: dict[str, str] = {}

    def labels(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        """The shared mapping equal to `labels`. Neither the argument nor the result may be changed later."""
        if not labels:
            return _NO_LABELS
        in_order = tuple(labels.items())
        shared = self._in_order.get(in_order)
        if shared is None:
            size = sum([len(key) + len(value) for key, value in in_order])
            if size > LONGEST_BYTES:
                return dict(labels)
            self.held_bytes += _SET_BYTES + _LABEL_BYTES * len(in_order) + 2 * size
            if self.held_bytes > self.limit_bytes:
                self._forget()
            name = frozenset(in_order)
            shared = self._labels.get(name)
            if shared is None:
                text = self._texts.setdefault
                shared = self._labels[name] = {text(key, key): text(value, value) for key, value in labels.items()}
            self._in_order[in_order] = shared
        return shared

    def text(self, text: str) -> str:
        """The shared string equal to `text`."""
        shared = self._texts.get(text)
        if shared is None:
            if len(text) > LONGEST_BYTES:
                return text
            self.held_bytes += _TEXT_BYTES + len(text)
            if self.held_bytes > self.limit_bytes:
                self._forget()
            shared = self._texts[text] = text
        return shared

    def _forget(self) -> None:
        self._in_order.clear()
        self._labels.clear()
        self._texts.clear()
        self.held_bytes = 0


EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class TooOld(StorageError):
    """Events after the requested revision are gone; the client must list again. `oldest` is the first one possible."""

    def __init__(self, oldest: Rev) -> None:
        super().__init__(f"the requested events are gone: the oldest revision to continue from is {oldest}")
        self.oldest = oldest


class CacheEvent(Struct, eq=False):
    """A change of one object, shared by all its watchers.

    The `entry` of a DELETED event is the last state of the object, described at the revision of the deletion;
    `previous` is the entry before the change, None for ADDED.
    """

    type: EventType
    rev: Rev
    entry: Entry
    previous: Entry | None
    size: int = 0
    """What the ring counts it as: an entry may be completed while it is there."""
    memo: dict[Any, Any] | None = None
    """For encoders above: frames of this event, made once for all watchers. Dropped when the event is not recent."""

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
