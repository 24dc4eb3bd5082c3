"""Gives a request a task before it runs code that may wait.

Requests begin without a task, because most never wait. Users' code may need the current task (``asyncio.timeout``, an
HTTP client), so a request that may run such code gets its task first.
Must not know: what runs requests. See also: `resource_waits`, for which requests these are.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Generator
from typing import Any

from oarlock.registry.served import Served

__all__ = ["ensure_task", "resource_waits", "sync_variant"]


def resource_waits(served: Served) -> bool:
    """Whether a request for this resource may run users' asynchronous code: its storage, or a conversion that waits."""
    return served.virtual is not None or served.converter.waits


def sync_variant(component: object, slow: str, quick: str) -> Any:
    """The method `quick` of a `component`, which answers what the coroutine `slow` would, as long as that needn't be
    asked.

    None if it has none, or inherits it from a class whose `slow` it has overridden.
    """
    for each in type(component).__mro__:
        if slow in vars(each):
            return getattr(component, quick) if quick in vars(each) else None
    return None


async def ensure_task() -> None:
    """Return inside a task: at once if there is one, else after one turn of the event loop."""
    if asyncio.current_task() is None:
        await _next_turn()


@types.coroutine
def _next_turn() -> Generator[None, None, None]:
    yield
