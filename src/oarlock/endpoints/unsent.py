"""`Unsent`: how many bytes of answers the process keeps for clients that have not taken them yet, and the bound of it.

Bytes that several clients wait for (the event of a watch, a kept document) are one piece of memory and count once.
At the bound new requests are answered 429, and what serves the slowest readers cuts them (``server.serving.readers``).
Must not know: connections. Next: ``server.filters.max_in_flight``, which refuses; ``http``, whose bodies are counted.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.meta.errors import TooManyRequests

__all__ = ["DEFAULT_BYTES", "UNLIMITED", "Unsent"]

DEFAULT_BYTES = 256 * 1024 * 1024
RETRY_AFTER_S = 1
OVERFLOW = 1.25
"""Beyond this part of the limit readers are cut at once, not only by the next look at them."""


class Unsent:
    """A budget in bytes. `cut` counts by reason the readers that were cut because they took too little.

    `on_overflow` is called when much more than the limit is held, by what can't be refused any more.
    """

    __slots__ = ("_holders", "cut", "limit", "on_overflow", "size")

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.limit = limit
        self.size = 0
        self.cut: dict[str, int] = {}
        self.on_overflow: Callable[[], None] | None = None
        self._holders: dict[int, int] = {}

    @property
    def full(self) -> bool:
        return self.size >= self.limit

    def hold(self, data: bytes) -> None:
        """`data` waits for one client more. It must be given back with `release` before it may be forgotten."""
        key = id(data)
        count = self._holders.get(key)
        if count is None:
            self._holders[key] = 1
            self.add(len(data))
        else:
            self._holders[key] = count + 1

    def release(self, data: bytes) -> None:
        """One client waits for `data` no more."""
        key = id(data)
        count = self._holders[key] - 1
        if count:
            self._holders[key] = count
        else:
            del self._holders[key]
            self.size -= len(data)

    def reserve(self, size: int) -> None:
        """Count `size` bytes that are about to be made, until they are taken off with `add`. Raises TooManyRequests."""
        if size and self.size + size > self.limit:
            raise TooManyRequests("too much is kept for clients that don't read: try again later", RETRY_AFTER_S)
        self.add(size)

    def add(self, size: int) -> None:
        """So many bytes more, or with a negative number less, are kept by somebody who counts them himself."""
        self.size += size
        if self.size > self.limit * OVERFLOW and size > 0 and self.on_overflow is not None:
            self.on_overflow()

    def count_cut(self, reason: str) -> None:
        self.cut[reason] = self.cut.get(reason, 0) + 1


UNLIMITED = Unsent(1 << 62)
"""For requests that nobody gave a budget."""
