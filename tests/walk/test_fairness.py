"""Priority and fairness in a whole server: what lists and watches of many objects take, and when they give it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from oarlock import APIServer, Model, Resource
from oarlock.meta.context import User
from oarlock.policy.fairness.level import PriorityLevel
from oarlock.server.config import ServerConfig
from oarlock.server.filters.fairness import FairnessFilter
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

KEGS = "/apis/pub.example.com/v1/namespaces/default/kegs"


class KegSpec(Model):
    litres: int = 30


class Keg(Resource, group="pub.example.com", version="v1"):
    spec: KegSpec = KegSpec()


@pytest.fixture
async def api() -> AsyncIterator[InMemory]:
    config = ServerConfig(storage="memory://", enable_priority_and_fairness=True)
    alice = User("alice", groups=("system:authenticated",))
    async with InMemory(APIServer(serve=[Keg]), config=config, user=alice) as api:
        for number in range(250):
            await api.post(KEGS, {"metadata": {"name": f"k{number}"}})
        yield api


def level(api: InMemory) -> PriorityLevel:
    fair = api.parts.fairness.in_flight
    assert isinstance(fair, FairnessFilter)
    return fair.fairness.levels["global-default"]


@pytest.mark.parametrize(("query", "seats"), [("", 3), ("?limit=120", 2), ("?limit=50", 1), ("?labelSelector=a", 3)])
async def test_a_list_takes_a_seat_for_each_hundred_objects_that_it_reads(
    api: InMemory, query: str, seats: int
) -> None:
    response = await api._send("GET", KEGS + query, None, {})
    assert level(api).seats_in_use == seats
    response.sent(True)
    assert level(api).is_idle


async def test_one_wide_list_begins_in_a_turn_and_a_get_does_not_wait_for_the_others(api: InMemory) -> None:
    lists = [asyncio.ensure_future(api._send("GET", KEGS, None, {})) for _ in range(5)]
    get = asyncio.ensure_future(api._send("GET", f"{KEGS}/k7", None, {}))
    await asyncio.sleep(0)
    assert (level(api).wide_seats, level(api).waiting) == (3, 4)
    assert get.done()
    responses = await asyncio.gather(*lists)
    assert [response.status for response in responses] == [200] * 5
    assert level(api).wide_seats == 15
    for response in (*responses, get.result()):
        response.sent(True)
    assert level(api).is_idle


def seats_taken(api: InMemory) -> float:
    """By all requests so far; those that began at once on one seat are counted apart."""
    counts = level(api).counts["global-default"]
    return counts.seats.sum + counts.at_once


async def test_a_watch_gives_its_seats_back_once_its_initial_objects_are_sent(api: InMemory) -> None:
    before = seats_taken(api)
    async with api.watch(KEGS) as events:
        assert len([await events.next() for _ in range(250)]) == 250
        assert level(api).is_idle
        async with api.watch(KEGS + "?resourceVersion=3"):
            assert level(api).is_idle
    assert seats_taken(api) - before == 3 + 1


async def test_a_watch_whose_client_leaves_first_gives_its_seats_back(api: InMemory) -> None:
    response = await api._send("GET", KEGS + "?watch=1", None, {})
    assert level(api).seats_in_use == 3
    response.sent(False)
    assert level(api).is_idle
