"""Connections to a backend are shared by its users: whoever opens many leaves some to others, and waits in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scripted_backend import Asked, ScriptedBackend, newest

from oarlock.net.connecting import Address
from oarlock.net.messages import HttpRequest, HttpResponse
from oarlock.net.pool import HTTP1, FairPlaces, HttpPool, NoPlace, PoolLimits

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


async def hang(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Begins an answer without an end, or switches protocols."""
    if asked.values("upgrade"):
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")
    else:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    await writer.drain()
    await asyncio.Event().wait()


class Asking:
    """Requests of several owners to one backend, which don't end."""

    def __init__(self, backend: ScriptedBackend) -> None:
        self.pool = HttpPool(newest([backend.client_context()]), PoolLimits(calls=4, lasting=4), protocols=(HTTP1,))
        self._address = Address("127.0.0.1", backend.port, "echo.default.svc")

    async def __call__(self, owner: str, *, lasting: bool = False, upgrade: bool = False) -> HttpResponse:
        lines = (("connection", "upgrade"), ("upgrade", "x")) if upgrade else ()
        request = HttpRequest("GET", "x", "/a", lines, upgrade=upgrade)
        return await self.pool.ask(self._address, request, owner=owner, lasting=lasting)


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asking]:
    backend = await ScriptedBackend(answer=hang).start(tmp_path)
    one = Asking(backend)
    async with asyncio.timeout(60):
        yield one
    one.pool.close()
    await backend.stop()


async def test_watches_of_one_take_nothing_from_calls_nor_all_from_others(ask: Asking) -> None:
    watches = [await ask("mallory", lasting=True) for _ in range(3)]
    with pytest.raises(NoPlace, match="too many watches of it are open"):
        await ask("mallory", lasting=True)
    await ask("alice", lasting=True)
    calls = [await ask("alice") for _ in range(3)]
    assert [call.status for call in calls] == [200] * 3
    watches[0].close()
    await ask("alice", lasting=True)


async def test_a_call_that_switches_protocols_is_counted_as_lasting(ask: Asking) -> None:
    for _ in range(3):
        assert (await ask("mallory", upgrade=True)).status == 101
    with pytest.raises(NoPlace):
        await ask("mallory", upgrade=True)
    assert len([await ask("mallory") for _ in range(3)]) == 3
