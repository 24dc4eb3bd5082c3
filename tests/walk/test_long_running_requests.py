"""Requests that go on for as long as somebody listens take no place among those in flight, whatever their method."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from test_proxied_versions import Elsewhere
from walk_kit import GROUP, made, path, walk

from oarlock import APIServer, Pipe, Resource, StoredCollection, User, subresource
from oarlock.server.config import ServerConfig
from oarlock.server.local.streams import MemoryTunnel
from oarlock.testing.server import InMemory

BIRDS = path("birds", version="v1")
LIMIT = 10
BOB = User("bob", groups=("system:authenticated",))


class Bird(Resource, group=GROUP, version="v1"):
    """A bird."""


class Birds(StoredCollection[Bird]):
    """Birds, and connections to them."""

    @subresource("pipe", upgrade=["tcp"])
    async def pipe(self, name: str, pipe: Pipe) -> None:
        await asyncio.Event().wait()

    @subresource("log")
    async def log(self, name: str) -> AsyncIterator[bytes]:
        yield b"it sings\n"
        await asyncio.Event().wait()


def limited(fairness: bool) -> InMemory:
    config = ServerConfig(
        storage="memory://",
        max_read_only_in_flight=LIMIT,
        max_mutating_in_flight=LIMIT,
        enable_priority_and_fairness=fairness,
    )
    return InMemory(APIServer(serve=[Birds]), config=config, user=BOB)


async def opened(api: InMemory, method: str) -> MemoryTunnel:
    response = await api._send(method, f"{BIRDS}/a/pipe", None, {"connection": "Upgrade", "upgrade": "tcp"})
    assert response.status == 101
    assert response.stream is not None
    tunnel = MemoryTunnel(response)
    response.stream(tunnel)
    return tunnel


@pytest.mark.parametrize("fairness", [False, True], ids=["in flight", "by fairness"])
@walk
async def test_open_connections_and_logs_stop_nobody(fairness: bool):
    async with limited(fairness) as api:
        await made(api, BIRDS, {"metadata": {"name": "a"}})
        tunnels = [await opened(api, method) for method in ("POST", "GET") * 2 * LIMIT]
        async with api.follow(f"{BIRDS}/a/log"), api.follow(f"{BIRDS}/a/log"):
            assert (await api.post(BIRDS, {"metadata": {"name": "b"}})).status == 201
            assert (await api.get(BIRDS)).status == 200
            in_flight = api.parts.fairness.in_flight
            assert (in_flight.read_only, in_flight.mutating) == (0, 0)
        for tunnel in tunnels:
            tunnel.leave()


@pytest.mark.parametrize("fairness", [False, True], ids=["in flight", "by fairness"])
@walk
async def test_those_that_another_server_answers_neither(fairness: bool):
    pods = "/apis/metrics.example.com/v1/namespaces/default/pods"
    there = Elsewhere()
    async with limited(fairness) as api:
        await api.server.change(put=[there.proxied()])
        open_ones: list[Any] = []
        for name in ("attach", "exec", "log", "portforward", "proxy") * LIMIT:
            for method in ("POST", "GET"):
                open_ones.append(asyncio.ensure_future(api.request(method, f"{pods}/slow/{name}?timeout=1ms")))
        await there.arrived.wait()
        assert (await api.post(BIRDS, {"metadata": {"name": "b"}})).status == 201
        assert (await api.get(BIRDS)).status == 200
        await asyncio.sleep(3600)
        there.release.set()
        assert {one.status for one in await asyncio.gather(*open_ones)} == {200}, "no deadline ends them"


@walk
async def test_what_another_server_serves_is_counted_under_no_name_that_a_client_spells():
    async with limited(fairness=False) as api:
        await api.server.change(put=[Elsewhere().proxied()])
        for number in range(50):
            await api.get(f"/apis/metrics.example.com/v1/things-{number}?watch=1")
        assert "things-" not in (await api.get("/metrics")).body.decode()
