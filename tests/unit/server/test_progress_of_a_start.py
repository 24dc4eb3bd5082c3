"""A start that takes long tells what it is doing; one that doesn't tells nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.server.assembly.lifecycle import tell_steps
from oarlock.testing import InMemory, VirtualClock


@dataclass
class Start:
    name: str = "sea"
    starting: str = ""


@pytest.mark.anyio
async def test_a_long_step_is_told_and_told_again() -> None:
    clock, start, told = VirtualClock(), Start(), list[str]()
    telling = asyncio.ensure_future(tell_steps(start, clock, told.append))
    try:
        await clock.run(5)
        assert told == []
        start.starting = "reading the store"
        await clock.run(1.5)
        assert told == []
        await clock.run(1)
        assert told == ["sea: reading the store, for 2 s"]
        await clock.run(10)
        assert told[1:] == ["sea: reading the store, for 12 s"]
        start.starting = "in on_start"
        await clock.run(3)
        assert told[2:] == ["sea: in on_start, for 2 s"]
    finally:
        telling.cancel()


@pytest.mark.anyio
async def test_a_control_plane_says_which_part_it_is_at() -> None:
    steps: list[str] = []
    server = ControlPlane(on_start=lambda client: steps.append(server.starting))
    async with InMemory(server):
        assert steps == ["in on_start"]
        assert server.starting == ""
