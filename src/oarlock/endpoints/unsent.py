"""`Unsent`: the budget of bytes that the process holds for clients that haven't received them yet.

Bytes that several clients wait for (a watch event, a cached document) exist once and count once. When the budget is
exhausted, new requests are answered with 429, and the slowest clients are cut (``server.serving.slow_readers``).
Must not know: connections. See also: ``server.filters.max_in_flight``, which refuses; ``http``, whose bodies are
counted.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.meta.errors import TooManyRequests

__all__ = ["DEFAULT_BYTES", "UNLIMITED", "Unsent"]

DEFAULT_BYTES = 256 * 1024 * 1024
RETRY_AFTER_S = 1
OVERFLOW = 1.25
"""Above this multiple of the limit clients are disconnected at once, not only by the next periodic check."""


class Unsent:
    """A budget in bytes. `cut` counts the clients that were disconnected for reading too slowly, by reason.

    `on_overflow` is called when far more than the limit is held, by answers that can't be refused any more.
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
        """Count `data` for one more client. Keep a reference to it until `release`."""
        key = id(data)
        count = self._holders.get(key)
        if count is None:
            self._holders[key] = 1
            self.add(len(data))
        else:
            self._holders[key] = count + 1

    def release(self, data: bytes) -> None:
        """One client less waits for `data`."""
        key = id(data)
        count = self._holders[key] - 1
        if count:
            self._holders[key] = count
        else:
            del self._holders[key]
            self.size -= len(data)

    def reserve(self, size: int) -> None:
        """Count `size` bytes in advance; subtract them with `add` afterwards. Raises TooManyRequests."""
        if size and self.size + size > self.limit:
            raise TooManyRequests("too much is kept for clients that don't read: try again later", RETRY_AFTER_S)
        self.add(size)

    def add(self, size: int) -> None:
        """Count `size` bytes, negative to subtract, that the caller keeps track of."""
        self.size += size
        if self.size > self.limit * OVERFLOW and size > 0 and self.on_overflow is not None:
            self.on_overflow()

    def count_cut(self, reason: str) -> None:
        self.cut[reason] = self.cut.get(reason, 0) + 1


UNLIMITED = Unsent(1 << 62)
"""For requests without a budget."""
