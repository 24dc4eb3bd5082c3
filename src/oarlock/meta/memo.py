"""`Memo`: a cache of results by text, bounded in bytes; `RecentlyUsed`: one of values whose sizes are known.

Everything that is cached under a text a client can choose is kept in a `Memo`, so a client that varies the text can't
fill the memory. Must not know: what is cached.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

LONGEST_BYTES = 1024
"""The longest text of a client that is remembered, unless a memo says otherwise."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Values by key. The oldest are removed when the total would exceed `limit_bytes`.

    The size of an entry is an estimate: `entry_bytes`, plus `per_byte` for each byte of its text. An entry whose text
    has more than `longest_bytes` isn't kept. Texts under equal keys have the same size. All sizes are in bytes.
    """

    __slots__ = ("_entry_bytes", "_longest_bytes", "_order", "_per_byte", "_values", "get", "held_bytes", "limit_bytes")

    def __init__(
        self, limit_bytes: int, *, entry_bytes: int, per_byte: int = 1, longest_bytes: int = LONGEST_BYTES
    ) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._entry_bytes = entry_bytes
        self._per_byte = per_byte
        self._longest_bytes = longest_bytes
        self._values: dict[K, V] = {}
        self._order: deque[tuple[K, int]] = deque()
        self.get = self._values.get
        """The value under a key; None for none. That of a dict, since it is asked with every request."""

    def put(self, key: K, value: V, text_bytes: int) -> None:
        """Store `value`, made of a text of `text_bytes`, unless the text is too long.

        Replaces an entry under the same `key`.
        """
        if text_bytes > self._longest_bytes:
            return
        if key in self._values:
            self._values[key] = value
            return
        size = self._entry_bytes + self._per_byte * text_bytes
        self._values[key] = value
        self._order.append((key, size))
        self.held_bytes += size
        while self.held_bytes > self.limit_bytes:
            oldest, freed = self._order.popleft()
            del self._values[oldest]
            self.held_bytes -= freed

    def drop(self, outdated: Callable[[V], bool]) -> None:
        """Remove the values of which `outdated` is true."""
        current = [(key, size) for key, size in self._order if not outdated(self._values[key])]
        self._order = deque(current)
        self.held_bytes = sum(size for _, size in current)
        values = {key: self._values[key] for key, _ in current}
        self._values.clear()  # `get` is bound to this very dict
        self._values.update(values)

    def __len__(self) -> int:
        return len(self._values)


class RecentlyUsed(Generic[K, V]):
    """Values by key, of at most `limit` in all by `size_of`, else in number. The longest unused go first."""

    __slots__ = ("_size", "_size_of", "_values", "limit")

    def __init__(self, limit: int, size_of: Callable[[V], int] = lambda value: 1) -> None:
        self.limit = limit
        self._size_of = size_of
        self._values: OrderedDict[K, V] = OrderedDict()
        self._size = 0

    def get(self, key: K) -> V | None:
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        """Store `value`, in place of an entry under the same `key`."""
        self._remove(key)
        self._values[key] = value
        self._size += self._size_of(value)
        while self._size > self.limit:
            self._remove(next(iter(self._values)))

    def keep(self, wanted: Callable[[K], bool]) -> None:
        """Remove the entries whose keys aren't `wanted`."""
        for key in [key for key in self._values if not wanted(key)]:
            self._remove(key)

    def _remove(self, key: K) -> None:
        value = self._values.pop(key, None)
        if value is not None:
            self._size -= self._size_of(value)

    def __len__(self) -> int:
        return len(self._values)
