"""Giving the loop back: what is made of many objects is made in slices of a few milliseconds.

Must not know: what is made. Used by `lists` and ``verbs.watch``.
"""

from __future__ import annotations

import asyncio
import time

__all__ = ["SLICE_S", "Pacer"]

SLICE_S = 0.004
"""How long the loop is held at a time, in seconds."""


class Pacer:
    """`await pacer.turn()` between pieces of work lets others run once the slice is used up."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE_S

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._until

    async def turn(self) -> None:
        if self.due:
            await asyncio.sleep(0)
            self._until = time.monotonic() + SLICE_S
