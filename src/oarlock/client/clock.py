"""`SystemClock`: the machine's clock. All other code gets its clock as a parameter; tests pass another one."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from oarlock.meta.context import Clock

__all__ = ["SystemClock", "TimerClock"]


class TimerClock(Clock, Protocol):
    """A clock that one can wait for: work that is due later waits on it, so that a test decides when that is."""

    async def sleep(self, seconds: float) -> None:
        """Wait until `monotonic` is so many seconds further."""
        ...


class SystemClock:
    """Implements `TimerClock`."""

    __slots__ = ()

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
