"""Long work in slices: a loop over many objects gives the event loop back before it has kept it too long.

Must not know: what the work is.
"""

from __future__ import annotations

import asyncio

from oarlock.meta.context import Clock

__all__ = ["Slices"]


class Slices:
    """Call ``due()`` now and then (say, every 64 objects); when it says so, ``await rest()``."""

    __slots__ = ("_clock", "_end", "_slice_s")

    def __init__(self, clock: Clock, slice_s: float) -> None:
        self._clock = clock
        self._slice_s = slice_s
        self._end = clock.monotonic() + slice_s

    def due(self) -> bool:
        """Whether this slice is used up."""
        return self._clock.monotonic() >= self._end

    async def rest(self) -> None:
        """Let everything else that is ready run once, then begin another slice."""
        await asyncio.sleep(0)
        self._end = self._clock.monotonic() + self._slice_s
