"""Runs a handler without a task until it first waits, and in a task from there on.

Most requests are answered from memory and never suspend, so a task for each (3–5 µs) would be waste. `run_eagerly` runs
the coroutine's first step at once; only if that suspends, an `asyncio.Task` continues it. In the first step there is no
current task: code that needs one (``asyncio.timeout``, ``TaskGroup``) calls ``registry.workers.ensure_task`` first.
"""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar, cast

__all__ = ["run_eagerly"]

T = TypeVar("T")


def run_eagerly(awaitable: Awaitable[T], loop: asyncio.AbstractEventLoop) -> T | asyncio.Task[T]:
    """Run the first step of `awaitable`: returns its result, or the task that continues it.

    Exceptions in the first step are raised here. Both parts run in one copied `contextvars` context, so a variable set
    before the first wait can be reset after it and isn't visible outside. Called from inside a task it makes an
    ordinary task at once: a coroutine that has seen another current task in its first step couldn't be moved to its
    own.
    """
    # nearly always a coroutine; asking the abstract class of all of them is slow
    is_one = type(awaitable) is types.CoroutineType or isinstance(awaitable, Coroutine)
    coroutine: Coroutine[Any, Any, T] = cast("Coroutine[Any, Any, T]", awaitable) if is_one else _coroutine(awaitable)
    if asyncio.current_task(loop) is not None:
        return loop.create_task(coroutine)
    context = contextvars.copy_context()
    try:
        awaited = context.run(coroutine.send, None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    if getattr(awaited, "_asyncio_future_blocking", None):
        # The flag says "a task is about to take this future". Another coroutine may reach the same future
        # before our task does, so it's put back only in the step that hands the future over.
        awaited._asyncio_future_blocking = False
        rearm = True
    else:
        rearm = False
    rest = _carry_on(_resume(coroutine, awaited, rearm))
    rest.send(None)  # up to its first yield: an exception thrown by cancel() must find it started
    return loop.create_task(rest, context=context)


async def _coroutine(awaitable: Awaitable[T]) -> T:
    return await awaitable


async def _carry_on(rest: Awaitable[T]) -> T:
    return await rest


@types.coroutine
def _resume(coroutine: Coroutine[Any, Any, T], awaited: Any, rearm: bool) -> Generator[Any, Any, T]:
    """The rest of a coroutine that stopped at `awaited` (a future, or None for "the next turn")."""
    try:
        yield
        if awaited is not None:
            if rearm:
                awaited._asyncio_future_blocking = True
            yield awaited
    except BaseException as caught:
        error = caught
    else:
        result: T = yield from coroutine
        return result
    while True:
        try:
            awaited = coroutine.throw(error)
        except StopIteration as stop:
            result = stop.value
            return result
        finally:
            del error
        try:
            yield awaited
        except BaseException as caught:
            error = caught
        else:
            result = yield from coroutine
            return result
