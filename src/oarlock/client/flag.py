"""`Flag`: an `asyncio.Event` of no event loop, for what outlives one: servers and clients that are made before a loop
runs, and that run again in another one.

An `asyncio.Event` belongs to the loop in which it was first waited for, and refuses every other.
"""

from __future__ import annotations

import asyncio

__all__ = ["Flag"]


class Flag:
    """Set or not; `wait` returns when it is set. Those who wait do so in the loop that runs."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: set[asyncio.Future[None]] = set()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        """Set it, and wake all who wait."""
        self._set = True
        for waiting in self._waiting:
            if not waiting.done() and not waiting.get_loop().is_closed():
                waiting.set_result(None)
        self._waiting.clear()

    def clear(self) -> None:
        self._set = False

    async def wait(self) -> None:
        """Wait until it is set; it may have been cleared again when this returns."""
        if self._set:
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)
