"""Work that would hold the loop too long in one piece and can't be cut: it goes beside it.

Must not know: what is made. What can be cut goes by ``storage.pacing``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["BESIDE_ABOVE", "beside"]

BESIDE_ABOVE = 32 * 1024
"""More bytes than this are turned from and into YAML, CBOR and indented JSON outside the event loop."""

T = TypeVar("T")


async def beside(size: int, make: Callable[..., T], *args: Any) -> T:
    """`make(*args)`, outside the event loop when the `size` bytes it is about are many."""
    if size <= BESIDE_ABOVE:
        return make(*args)
    return await asyncio.get_running_loop().run_in_executor(None, make, *args)
