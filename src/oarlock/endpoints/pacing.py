"""Giving the loop back: what is made of many objects is made in slices of a few milliseconds.

Must not know: what is made. Used by `lists` and ``verbs.watch``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["BESIDE_ABOVE", "SLICE_S", "Pacer", "beside"]

BESIDE_ABOVE = 32 * 1024
"""More bytes than this are turned from and into YAML, CBOR and indented JSON outside the event loop."""

T = TypeVar("T")

SLICE_S = 0.004
"""How long the loop is held at a time, in seconds."""


async def beside(size: int, make: Callable[..., T], *args: Any) -> T:
    """`make(*args)`, outside the event loop when the `size` bytes it is about are many."""
    if size <= BESIDE_ABOVE:
        return make(*args)
    return await asyncio.get_running_loop().run_in_executor(None, make, *args)


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
