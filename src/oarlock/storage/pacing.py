"""Cooperative scheduling: long work over many objects is done in slices of a few milliseconds.

All sliced work on one event loop takes turns: however many requests make long responses at the same time, at most
one slice of it runs in one turn of the loop.

It is here because storage is the lowest package that has an event loop. Must not know: what the work is.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

__all__ = ["SLICE_S", "Pacer", "Slices"]

SLICE_S = 0.004
"""How long the loop is held at a time, in seconds."""


class Slices:
    """The slices of one event loop, first come, first served. `Slices.here()` returns those of the running loop."""

    __slots__ = ("_end", "_queue", "_running")

    def __init__(self) -> None:
        self._queue: deque[Callable[[], None]] = deque()
        self._running = False  # in this turn of the loop
        self._end = 0.0

    @staticmethod
    def here() -> Slices:
        loop = asyncio.get_running_loop()
        slices = _slices.get(loop)
        if slices is None:
            slices = _slices[loop] = Slices()
        return slices

    def begin(self) -> float:
        """The end of a slice that begins now, in monotonic seconds. If it is past already, use `later`."""
        if not self._running:
            self._start()
        return self._end

    def later(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when it is its turn; it may then run for `SLICE_S` seconds."""
        self._queue.append(go_on)
        if not self._running:
            self._start()

    def _start(self) -> None:
        self._running = True
        self._end = time.monotonic() + SLICE_S
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._running = False
        if self._queue:
            self._start()
            self._queue.popleft()()


_slices: WeakKeyDictionary[asyncio.AbstractEventLoop, Slices] = WeakKeyDictionary()


class Pacer:
    """Call ``await pacer.turn()`` between pieces of work (say, every 64 objects): it yields once the slice is used up.

    `now` returns the time in seconds; virtual time never uses up a slice.
    """

    __slots__ = ("_now", "_slice_s", "_slices", "_until")

    def __init__(self, slice_s: float = SLICE_S, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._slice_s = slice_s
        self._slices = Slices.here()
        self._until = now() + slice_s
        if now is time.monotonic:
            self._until = min(self._until, self._slices.begin())

    @property
    def due(self) -> bool:
        """Whether this slice is used up."""
        return self._now() >= self._until

    async def turn(self) -> None:
        """If this slice is used up, wait for the next one, in turn with others."""
        if self.due:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._slices.later(lambda: None if turn.done() else turn.set_result(None))
            await turn
            self._until = self._now() + self._slice_s
