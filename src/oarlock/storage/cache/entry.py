"""An `Entry`: what the cache keeps of one object at one revision, and the two kinds of function that make one.

The cache reads `key`, `rev`, `create_rev` and the length of `body`. The caller's `Describe` fills in the rest, and
the caller reads it when it responds. An entry is immutable: a change of the object makes another entry, so lists,
watches and past states may share one.

Must not know: JSON, kinds, selectors. See also: `events`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oarlock.meta.memo import LONGEST_BYTES
from oarlock.storage.backend import Rev

__all__ = ["Describe", "Draft", "Entry", "Interner", "Later"]

_NO_LABELS: Mapping[str, str] = {}
_SET_BYTES = 700
_LABEL_BYTES = 250
_TEXT_BYTES = 150


class Entry:
    """One object at one revision. A plain class for speed: a hundred thousand of them are made at start."""

    __slots__ = (
        "body",
        "broken",
        "create_rev",
        "expires",
        "extra",
        "fields",
        "key",
        "labels",
        "name",
        "namespace",
        "rev",
    )

    key: str
    namespace: str
    """Empty for an object of the cluster."""
    name: str
    rev: Rev
    create_rev: Rev
    body: bytes
    """What a response is joined from, with the resourceVersion already in place."""
    labels: Mapping[str, str]
    """Shared between entries with equal labels (`Interner`): never to be changed."""
    fields: tuple[str, ...]
    """The values of the selectable fields, in the order the definition names them."""
    extra: Any
    """Whatever else `Describe` wants to find again."""
    broken: str
    """Empty, or why the stored value can't be decoded."""
    expires: int | None
    """Epoch milliseconds, as the list that loaded it said. Events don't carry it, so None says nothing."""

    def __init__(
        self,
        key: str,
        namespace: str,
        name: str,
        rev: Rev,
        create_rev: Rev,
        body: bytes,
        labels: Mapping[str, str] = _NO_LABELS,
        fields: tuple[str, ...] = (),
        extra: Any = None,
        broken: str = "",
        expires: int | None = None,
    ) -> None:
        self.key = key
        self.namespace = namespace
        self.name = name
        self.rev = rev
        self.create_rev = create_rev
        self.body = body
        self.labels = labels
        self.fields = fields
        self.extra = extra
        self.broken = broken
        self.expires = expires

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
