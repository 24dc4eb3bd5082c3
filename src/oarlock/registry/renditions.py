"""Bodies of objects in versions that aren't stored, kept while they are asked for.

A bounded memory of bytes, oldest use forgotten first, shared by every resource of a server.
Next: `stored_resource`.
"""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["Renditions"]

_OVERHEAD = 200  # what an item costs besides its bytes


class Renditions:
    """`limit_bytes` bounds what is kept. Keys are (object key, revision, rendition);
    a rendition is a mark of the resource that made it, so another definition never finds what this one made."""

    __slots__ = ("_items", "_size", "limit_bytes")

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self.limit_bytes = limit_bytes
        self._items: OrderedDict[tuple[str, int, object], bytes] = OrderedDict()
        self._size = 0

    def get(self, key: tuple[str, int, object]) -> bytes | None:
        found = self._items.get(key)
        if found is not None:
            self._items.move_to_end(key)
        return found

    def keep(self, key: tuple[str, int, object], body: bytes) -> None:
        if key in self._items:
            return
        self._items[key] = body
        self._size += len(body) + _OVERHEAD
        while self._size > self.limit_bytes:
            _, dropped = self._items.popitem(last=False)
            self._size -= len(dropped) + _OVERHEAD

    def __len__(self) -> int:
        return len(self._items)
