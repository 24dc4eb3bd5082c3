"""`WaitGroup`: counts requests that use something, so that it can be released when the last of them has ended.

See also: ``route_table``, which has one for each group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["WaitGroup", "close_all"]


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


def close_all(groups: Sequence[WaitGroup], idle: Callable[[], None]) -> None:
    """Close all `groups`; `idle` is called when none has a request left."""
    busy = len(groups)

    def one_is_idle() -> None:
        nonlocal busy
        busy -= 1
        if not busy:
            idle()

    for group in groups:
        group.close(one_is_idle)
