"""`KeyMap`: the keys of this program as keys of etcd, below the prefix of the URL.

    /registry/shop.example.com/orders/ns/a  →  <prefix>/shop.example.com/orders/ns/a     as kube-apiserver has them
    /oarlock/definitions/…                  →  <prefix>/.oarlock/oarlock/definitions/…    anything else

No group or resource begins with a dot, so a kube-apiserver on the same prefix never looks there. Keys of this backend
itself begin with ``<prefix>/.oarlock-`` and are no keys of the program.

See also: ``registry.keys``.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KeyMap", "Span", "after"]

_OBJECTS, _AFTER_OBJECTS = "/registry/", "/registry0"


class Span(NamedTuple):
    """A range of etcd's keys: ``start <= key < end``."""

    start: bytes
    end: bytes


class KeyMap:
    """Both directions. Keys of others that aren't UTF-8 keep their bytes."""

    def __init__(self, prefix: str) -> None:
        root = prefix.encode()
        self._root = root + b"/"
        self._other = root + b"/.oarlock"
        self._objects_start = root + b"/.oarlock\x7f"
        self.all = Span(root + b"/", root + b"0")
        self.epoch = root + b"/.oarlock-epoch"
        self.marker = root + b"/.oarlock-marker"

    def encode(self, key: str) -> bytes:
        """The key in etcd."""
        if key.startswith(_OBJECTS):
            return self._root + key[len(_OBJECTS) :].encode(errors="surrogateescape")
        return self._other + key.encode(errors="surrogateescape")

    def decode(self, key: bytes) -> str | None:
        """The key of the program; None for one of this backend."""
        if not key.startswith(self._other):
            return _OBJECTS + key[len(self._root) :].decode(errors="surrogateescape")
        if key[len(self._other) : len(self._other) + 1] == b"/":
            return key[len(self._other) :].decode(errors="surrogateescape")
        return None

    def spans(self, start: str, end: str) -> list[Span]:
        """The ranges of etcd's keys for a range of the program's, in order."""
        found = []
        for low, high in (("/", _OBJECTS), (_OBJECTS, _AFTER_OBJECTS), (_AFTER_OBJECTS, "0")):
            first, last = max(start, low), min(end, high)
            if first < last:
                found.append(self._span(first, last))
        return [span for span in found if span.start < span.end]

    def _span(self, first: str, last: str) -> Span:
        start = max(self.encode(first), self._objects_start) if first.startswith(_OBJECTS) else self.encode(first)
        if first.startswith(_OBJECTS):
            return Span(start, self.all.end if last == _AFTER_OBJECTS else self.encode(last))
        return Span(start, self._other + last.encode(errors="surrogateescape"))


def after(key: bytes) -> bytes:
    """The next possible key."""
    return key + b"\0"
