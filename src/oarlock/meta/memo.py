"""`Memo`: results by what they were made of, within a bound in bytes.

Everything that is remembered by a text which a client spells is kept in one of these: a client that spells something
else each time must not fill the memory. Must not know: what is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["LONGEST_BYTES", "Memo"]

LONGEST_BYTES = 1024
"""The longest text of a client that is remembered, unless a memo says otherwise."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Values by key; the oldest go first when all together would hold more than `limit_bytes`.

    What an entry holds is estimated: `entry_bytes`, and `per_byte` for each byte of the text it was made of. One whose
    text has more than `longest_bytes` isn't kept. Under equal keys there are texts of one size. All sizes are in bytes.
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
        """Keep `value`, made of a text of `text_bytes`, unless that is too long. What was under `key` is replaced."""
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

    def __len__(self) -> int:
        return len(self._values)
