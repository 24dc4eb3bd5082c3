"""Connections to a backend are shared by its users: whoever opens many leaves some to others, and waits in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scripted_backend import ScriptedBackend, newest

from oarlock.apps.aggregation.forwarding import pool as pools
from oarlock.apps.aggregation.forwarding.places import FairPlaces
from oarlock.apps.aggregation.forwarding.pool import Address, BackendPool, NoPlace

pytestmark = pytest.mark.anyio


def filled(places: FairPlaces, owner: str) -> int:
    """Takes all that this owner can have."""
    count = 0
    while places.taken(owner):
        count += 1
    return count


async def test_nobody_can_have_all() -> None:
    places = FairPlaces(512)
    assert [filled(places, owner) for owner in "abcdefghijkl"] == [257, 128, 64, 32, 16, 8, 4, 2, 1, 0, 0, 0]
    places.give_back("a")
    assert [places.taken(owner) for owner in "al"] == [False, True]


async def test_one_place_is_enough_for_all_in_turn() -> None:
    places, order = FairPlaces(1), list[str]()

    async def work(owner: str) -> None:
        await places.take(owner)
        order.append(owner)
        await asyncio.sleep(0)
        places.give_back(owner)

    await asyncio.gather(*(work(owner) for owner in "aaaabbc"))
    assert order.index("c") <= 3
    assert sorted(order) == list("aaaabbc")
    assert places.taken("x")


async def test_who_gives_up_waiting_loses_no_place() -> None:
    places = FairPlaces(1)
    await places.take("a")
    waiting = [asyncio.ensure_future(places.take(owner)) for owner in "bbc"]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    places.give_back("a")  # to the second of b
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert waiting[2].exception() is None
    places.give_back("c")
    assert places.taken("d")
    assert not places._waiting


@pytest.fixture
async def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[BackendPool, Address]]:
    monkeypatch.setattr(pools, "MOST_CALLS", 4)
    monkeypatch.setattr(pools, "MOST_LASTING", 4)
    backend = await ScriptedBackend().start(tmp_path)
    one = BackendPool(newest([backend.client_context()]))
    async with asyncio.timeout(20):
        yield one, Address("127.0.0.1", backend.port, "echo.default.svc")
    one.close()
    await backend.stop()


async def test_watches_of_one_take_nothing_from_calls_nor_all_from_others(pool: tuple[BackendPool, Address]) -> None:
    connections, address = pool
    watches = [await connections.take(address, owner="mallory", lasting=True) for _ in range(3)]
    with pytest.raises(NoPlace, match="too many watches of it are open"):
        await connections.take(address, owner="mallory", lasting=True)
    await connections.take(address, owner="alice", lasting=True)
    calls = [await connections.take(address, owner="alice") for _ in range(3)]
    assert len(calls) == 3
    connections.give_back(address, watches[0])
    await connections.take(address, owner="alice", lasting=True)


async def test_a_call_that_switches_protocols_is_counted_as_lasting(pool: tuple[BackendPool, Address]) -> None:
    connections, address = pool
    for _ in range(3):
        connections.lasts(await connections.take(address, owner="mallory"))
    call = await connections.take(address, owner="mallory")
    with pytest.raises(NoPlace):
        connections.lasts(call)
    connections.give_back(address, call)
    assert len([await connections.take(address, owner="mallory") for _ in range(3)]) == 3
