"""Waiting for a change, or for a time."""

from __future__ import annotations

import asyncio
from typing import Any

from oarlock.extend import TimerClock

__all__ = ["changed_or_due"]


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
