"""A cache of what is made of stored objects: bodies in other versions than the stored one, and other encodings.

Bounded in bytes, least recently used dropped first, shared by all resources of a server. See also: `stored.resource`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

__all__ = ["ConversionCache", "ConversionKey", "Encode"]

ConversionKey = tuple[str, int, object]
"""The key of an object, its revision, and the mark of a version; for an encoding the mark with its `Encode`."""

Encode = Callable[[bytes], bytes]
"""Another encoding of an object's body. Hashable."""

_OVERHEAD = 200  # memory of an item besides its bytes


class ConversionCache:
    """An LRU cache of at most `limit_bytes`.

    A mark is one version of one `StoredResource`, so that a changed definition never finds the bodies of the old one.
    """

    __slots__ = ("_items", "_size", "limit_bytes")

    def __init__(self, limit_bytes: int = 64 * 1024 * 1024) -> None:
        self.limit_bytes = limit_bytes
        self._items: OrderedDict[ConversionKey, bytes] = OrderedDict()
        self._size = 0

    def get(self, key: ConversionKey) -> bytes | None:
        found = self._items.get(key)
        if found is not None:
            self._items.move_to_end(key)
        return found

    def put(self, key: ConversionKey, body: bytes) -> None:
        if key in self._items:
            return
        self._items[key] = body
        self._size += len(body) + _OVERHEAD
        while self._size > self.limit_bytes:
            _, dropped = self._items.popitem(last=False)
            self._size -= len(dropped) + _OVERHEAD

    def __len__(self) -> int:
        return len(self._items)
