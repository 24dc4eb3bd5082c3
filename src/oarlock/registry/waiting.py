"""Code that may wait, and the task it needs for that.

A request begins without a task, because most never wait. What a user writes may use what asks for the current task
(``asyncio.timeout``, an HTTP client), so where it could wait, the request gets its task first.
Must not know: who drives requests. Next: `resource_waits` for which requests these are.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Generator

from oarlock.registry.served import Served

__all__ = ["in_task", "resource_waits"]


def resource_waits(served: Served) -> bool:
    """May a request for this resource run a user's asynchronous code: its storage, or a conversion that waits?"""
    return served.virtual is not None or served.converter.waits


async def in_task() -> None:
    """Return inside a task: at once when there is one, else after one turn of the loop."""
    if asyncio.current_task() is None:
        await _next_turn()


@types.coroutine
def _next_turn() -> Generator[None, None, None]:
    yield
