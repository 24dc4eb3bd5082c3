"""A server that starts on a store with definitions: what it doesn't serve yet, it asks for later."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from crd_kit import GROUP, Shared, definition, established

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.storage.memory import MemoryBackend
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio

PLAINS = f"/apis/{GROUP}/v1/plains"
NOT_YET = "the request has been made before all known HTTP paths have been installed, please try again"


async def test_what_is_not_served_yet_is_not_missing() -> None:
    clock = VirtualClock()
    store = Shared(MemoryBackend(clock=clock))
    async with InMemory(ControlPlane(), backend=store, clock=clock) as first:
        await established(first, definition())
    second = InMemory(ControlPlane(), backend=store, clock=clock)
    answers: Counter[int] = Counter()
    starting = asyncio.create_task(second.__aenter__())
    while not starting.done():
        answer = await second.get(PLAINS)
        answers[answer.status] += 1
        if answer.status == 503:
            assert answer.json["message"] == NOT_YET
        await asyncio.sleep(0)
    await starting
    assert [*answers] == [503, 200]
    assert (await second.get("/apis/other.example.com/v1/plains")).status == 404
    await second.__aexit__(None, None, None)


async def test_without_definitions_everything_is_served_at_once() -> None:
    async with InMemory(ControlPlane(disable=["crds"])) as api:
        assert (await api.get(PLAINS)).status == 404
