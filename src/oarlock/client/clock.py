"""What work waits for: a clock that can be slept on, and a `Flag`, which outlives event loops.

All code gets its clock as a parameter, so a test decides what time it is. `SystemClock` is the machine's.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from oarlock.meta.context import Clock


class TimerClock(Clock, Protocol):
    """A clock with timers. Code that waits uses its `sleep`, so that a test can control the time."""

    async def sleep(self, seconds: float) -> None:
        """Wait until `monotonic` has advanced by this number of seconds."""
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Flag:
    """A flag that is set or not. `wait` returns when it is set. Several event loops may use it in turn."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: set[asyncio.Future[None]] = set()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        """Set it, and wake all waiting tasks."""
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
