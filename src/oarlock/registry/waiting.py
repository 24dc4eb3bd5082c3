"""Code that may wait, and the task it needs for that.

A request begins without a task, because most never wait. What a user writes may use what asks for the current task
(``asyncio.timeout``, an HTTP client), so where it could wait, the request gets its task first.
Must not know: who drives requests. Next: `resource_waits` for which requests these are.
"""

from __future__ import annotations

import asyncio
import dis
import inspect
import types
from collections.abc import Generator
from typing import Any

from oarlock.registry.served import Served

__all__ = ["in_task", "may_wait", "resource_waits"]


def may_wait(function: Any) -> bool:
    """Could calling this wait? Not where it is a coroutine function without a single ``await`` in it."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.iscoroutinefunction(function):
        return True
    return any(step.opname in ("GET_AWAITABLE", "GET_AITER") for step in dis.get_instructions(function))


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
