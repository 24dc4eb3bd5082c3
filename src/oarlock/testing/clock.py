"""`VirtualClock`: time that only moves when a test says so."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

__all__ = ["VirtualClock"]

_TURNS = 50


class VirtualClock:
    """A `TimerClock`. Starts at `epoch_s` seconds since the epoch (2026-01-01 by default), monotonic at 0.

    What waits with `sleep` is woken by `advance`, when its time has come.
    """

    def __init__(self, epoch_s: float = 1_767_225_600.0) -> None:
        self._epoch_s = epoch_s
        self._elapsed_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()

    def now(self) -> float:
        return self._epoch_s + self._elapsed_s

    def monotonic(self) -> float:
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, next(self._numbers), future))
        await future

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass at once. Timers of the event loop are not touched."""
        if seconds < 0:
            raise ValueError("time doesn't go back")
        self._elapsed_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed_s:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                future.set_result(None)

    async def run(self, seconds: float) -> None:
        """Let `seconds` pass from one sleeper to the next, each with some turns of the event loop to do its work."""
        until = self._elapsed_s + seconds
        await _turns()
        while self._sleepers and self._sleepers[0][0] <= until:
            self.advance(max(0.0, self._sleepers[0][0] - self._elapsed_s))
            await _turns()
        self.advance(until - self._elapsed_s)
        await _turns()


async def _turns() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
