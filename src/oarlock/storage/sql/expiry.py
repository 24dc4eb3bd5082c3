"""Deletes keys whose time to live is over.

Must not know: clocks, connections. See also: `reads.expired`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from oarlock.storage.backend import Rev, WriteResult

__all__ = ["REAP_EVERY_S", "Delete", "reap"]

REAP_EVERY_S = 1.0
_KEYS = 500


class Delete(Protocol):
    def __call__(self, key: str, *, expect: Rev) -> Awaitable[WriteResult]: ...


async def reap(due: Callable[[int], Awaitable[Sequence[tuple[str, Rev]]]], delete: Delete) -> int:
    """Delete expired keys by compare-and-swap, so one written again meanwhile stays; how many were deleted.

    `due` returns expired keys with their revisions, at most so many.
    """
    count = 0
    while expired := await due(_KEYS):
        results = await asyncio.gather(*(delete(key, expect=rev) for key, rev in expired))
        count += sum(result.ok for result in results)
    return count
