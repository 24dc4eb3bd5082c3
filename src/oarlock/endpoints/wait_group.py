"""`WaitGroup`: counts requests that use something, so that it can be released when the last of them has ended."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["WaitGroup"]


class WaitGroup:
    """A counter of requests, which the caller increments and decrements."""

    __slots__ = ("_idle", "closed", "count")

    def __init__(self) -> None:
        self.count = 0
        self.closed = False
        """Whether new requests are refused."""
        self._idle: Callable[[], None] | None = None

    def settle(self) -> None:
        """One of the `count` requests has ended after `close`."""
        if self.count:
            return
        idle, self._idle = self._idle, None
        if idle is not None:
            idle()

    def close(self, idle: Callable[[], None]) -> None:
        """Refuse new requests, and call `idle` when none is left: at once, or when the last has ended."""
        self.closed = True
        self._idle = idle
        self.settle()
