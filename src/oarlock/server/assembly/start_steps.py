"""Tells what a start is doing when that takes a while: a large store, a database that is locked, many definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from oarlock.client.clock import TimerClock

__all__ = ["Starting", "tell_steps"]

FIRST_S = 2.0
"""A step that takes less isn't told."""
AGAIN_S = 10.0
"""Then it is told so often that it still goes on."""
LOOK_S = 0.5


class Starting(Protocol):
    """What starts. `starting` is the step that it is at, as ``reading the store``."""

    name: str
    starting: str


async def tell_steps(server: Starting, clock: TimerClock, tell: Callable[[str], None]) -> None:
    """Tell each step that takes long, until cancelled."""
    step, begun, due_s = "", clock.monotonic(), FIRST_S
    while True:
        await clock.sleep(LOOK_S)
        if server.starting != step:
            step, begun, due_s = server.starting, clock.monotonic(), FIRST_S - LOOK_S
        seconds = clock.monotonic() - begun
        if step and seconds >= due_s:
            tell(f"{server.name}: {step}, for {seconds:.0f} s")
            due_s = seconds + AGAIN_S
