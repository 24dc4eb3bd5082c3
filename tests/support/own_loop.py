"""Async tests of real clients, each in a loop of its own. Must not know: clients, servers."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["DEADLINE_S", "in_a_loop"]

DEADLINE_S = 120.0
"""How long a test may take before it has hung."""


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An async test in a loop of its own, and not for ever."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(in_time(test(*args, **kwargs)))

    async def in_time(running: Coroutine[Any, Any, None]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await running

    return run
