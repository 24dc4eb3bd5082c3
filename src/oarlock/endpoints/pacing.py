"""Runs long steps that can't be cut into pieces in a thread.

Must not know: what is done. See also: ``storage.pacing``, for steps that can be cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["OFFLOAD_ABOVE", "offload"]

OFFLOAD_ABOVE = 32 * 1024
"""More bytes than this are converted from and to YAML, CBOR and indented JSON in a thread."""

T = TypeVar("T")


async def offload(size: int, make: Callable[..., T], *args: Any) -> T:
    """Run `make(*args)`; in a thread if `size`, in bytes, is large."""
    if size <= OFFLOAD_ABOVE:
        return make(*args)
    return await asyncio.get_running_loop().run_in_executor(None, make, *args)
