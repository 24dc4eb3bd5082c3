"""`Watchdog`: cancels what takes longer than it may, with one timer for all tasks of a controller.

A timer, or a task, for each reconcile would cost more than the rest of the loop.
"""

from __future__ import annotations

import asyncio

from oarlock.client.clock import TimerClock

__all__ = ["Watchdog"]


class Watchdog:
    """Each task between `begin` and `end` is cancelled after `timeout_s`, and again after as long if it goes on."""

    def __init__(self, clock: TimerClock, timeout_s: float) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._deadlines: dict[asyncio.Task[None], float] = {}
        """In the order in which they are due: all have the same time."""
        self._cancelled: dict[asyncio.Task[None], int] = {}
        self._timer: asyncio.Task[None] | None = None

    def begin(self, task: asyncio.Task[None]) -> None:
        self._deadlines[task] = self._clock.monotonic() + self._timeout_s
        if self._timer is None:
            self._timer = asyncio.create_task(self._watch(), name="watchdog")

    def end(self, task: asyncio.Task[None]) -> bool:
        """Whether the task was cancelled because it took too long. Only others' cancellations are left on it then."""
        del self._deadlines[task]
        times = self._cancelled.pop(task, 0)
        for _ in range(times):
            task.uncancel()
        return times > 0

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _watch(self) -> None:
        while self._deadlines:
            task, deadline = next(iter(self._deadlines.items()))
            left_s = deadline - self._clock.monotonic()
            if left_s > 0:
                await self._clock.sleep(left_s)
                continue
            del self._deadlines[task]
            self._deadlines[task] = self._clock.monotonic() + self._timeout_s
            self._cancelled[task] = self._cancelled.get(task, 0) + 1
            task.cancel()
        self._timer = None
