"""Waiting for a change, or for a time; and work on many objects that lets others have the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, TypeVar

from oarlock.extend import Pacer, TimerClock

__all__ = ["changed_or_due", "paced"]

T = TypeVar("T")


async def paced(items: Iterable[T], every: int = 16) -> list[T]:
    """The items of an iterable that is long to work through, `every` so many in a slice of the loop's time."""
    pacer = Pacer()
    found: list[T] = []
    for item in items:
        found.append(item)
        if len(found) % every == 0:
            await pacer.turn()
    return found


async def changed_or_due(changed: asyncio.Event, clock: TimerClock, seconds: float | None) -> None:
    """Wait until `changed` is set, or until `seconds` have passed; None for no time."""
    waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(changed.wait())]
    if seconds is not None:
        waiting.append(asyncio.ensure_future(clock.sleep(seconds)))
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
