"""Giving the loop back: long work over many objects is done in slices of a few milliseconds.

All that is sliced on one event loop takes turns: however many requests make long answers at the same moment, no more
than a slice of their work is done in one turn of the loop.

It stands on the lowest floor that has a loop, for all above. Must not know: what the work is.
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
    """The slices of one event loop, first come, first served. `Slices.here()` are those of the running loop."""

    __slots__ = ("_begun", "_end", "_line")

    def __init__(self) -> None:
        self._line: deque[Callable[[], None]] = deque()
        self._begun = False  # in this turn of the loop
        self._end = 0.0

    @staticmethod
    def here() -> Slices:
        loop = asyncio.get_running_loop()
        found = _slices.get(loop)
        if found is None:
            found = _slices[loop] = Slices()
        return found

    def begin(self) -> float:
        """When somebody who begins now has to stop, in monotonic seconds: may have passed, then `later` is next."""
        if not self._begun:
            self._start()
        return self._end

    def later(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when it is its turn; it has `SLICE_S` then."""
        self._line.append(go_on)
        if not self._begun:
            self._start()

    def _start(self) -> None:
        self._begun = True
        self._end = time.monotonic() + SLICE_S
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._begun = False
        if self._line:
            self._start()
            self._line.popleft()()


_slices: WeakKeyDictionary[asyncio.AbstractEventLoop, Slices] = WeakKeyDictionary()


class Pacer:
    """`await pacer.turn()` between pieces of work (say, every 64 objects) lets others run once the slice is used up.

    `now` tells the time in seconds; time that is virtual never uses up a slice.
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
        """If this slice is used up, wait for the next one: those who wait take turns."""
        if self.due:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._slices.later(lambda: None if mine.done() else mine.set_result(None))
            await mine
            self._until = self._now() + self._slice_s
