"""An event loop whose time is its own: timers that are due next are due now, whatever the machine does meanwhile.

For tests without sockets to other processes: bytes that are on their way would come too late.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Any

__all__ = ["HastyLoop"]

_TICK_S = 1e-8
"""What passes each time somebody looks at the clock, so that nobody waits for ever for the rest of a nanosecond."""


class _Clockwork(selectors.DefaultSelector):
    """Never sleeps: when nothing is ready, the time that would have been slept is skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.in_threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if self.in_threads:
            before = time.monotonic()
            ready = super().select(timeout)
            self.now += time.monotonic() - before
            return ready
        ready = super().select(0)
        if not ready:
            self.now += timeout
        return ready


class HastyLoop(asyncio.SelectorEventLoop):
    """A loop in which timers that are due next are due now. Otherwise hardly any time passes, on any machine."""

    def __init__(self) -> None:
        self._hasty = _Clockwork()
        super().__init__(self._hasty)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """While a thread works, time is real: it can't be skipped for the thread."""
        self._hasty.in_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    async def shutdown_default_executor(self, *timeout: Any) -> None:
        """Threads end in real time too. Since Python 3.12 a loop that closes waits for them at most so many seconds."""
        self._hasty.in_threads += 1
        try:
            await super().shutdown_default_executor(*timeout)
        finally:
            self._hasty.in_threads -= 1

    def _thread_ended(self, _: Any) -> None:
        self._hasty.in_threads -= 1

    def time(self) -> float:
        self._hasty.now += _TICK_S
        return self._hasty.now
