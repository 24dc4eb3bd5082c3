"""A store on another machine: it fails over and loses writes, its connections break, its answers are lost."""

from __future__ import annotations

import asyncio
from typing import Any

from walk_kit import BOATS, Boats, BoatV1, boat, failure, made, walk

from oarlock import APIServer
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.network import NO_FAULTS, Faults, NetworkBackend
from oarlock.testing.server import InMemory


def far_fleet() -> tuple[InMemory, NetworkBackend, MemoryBackend]:
    """Boats in a store on another machine."""
    clock = VirtualClock()
    store = MemoryBackend(clock)
    backend = NetworkBackend(store, seed=11)
    return InMemory(APIServer(serve=[Boats, BoatV1]), backend=backend, clock=clock), backend, store


async def ready(api: InMemory) -> Any:
    """The answer to a list, once there is one."""
    for _ in range(1000):
        answer = await api.get(BOATS)
        if answer.status == 200:
            return answer.json
        assert answer.status in (429, 503), answer
        assert answer.headers["retry-after"]
        await asyncio.sleep(0.05)
    raise AssertionError("it doesn't come back")


def names(listed: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


@walk
async def test_a_failover_that_lost_writes_makes_every_client_list_again():
    api, _, store = far_fleet()
    async with api:
        first = await made(api, BOATS, boat("a"))
        kept = int(first["metadata"]["resourceVersion"])
        async with api.watch(f"{BOATS}?resourceVersion={kept}") as events:
            lost = await made(api, BOATS, boat("b"))
            assert (await events.next())[0] == "ADDED"
            listed = (await api.get(f"{BOATS}?limit=1")).json
            store.lose_after(kept)
            kind, status = await events.next()
            assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        now = await ready(api)
        assert names(now) == ["a"]
        assert now["items"][0]["metadata"]["resourceVersion"] == str(kept), "what was kept is as it was"
        assert int(now["metadata"]["resourceVersion"]) > int(lost["metadata"]["resourceVersion"])
        assert (await api.get(f"{BOATS}/b")).status == 404
        for stale in (kept, lost["metadata"]["resourceVersion"]):
            async with api.watch(f"{BOATS}?resourceVersion={stale}") as events:
                assert (await events.next())[1]["code"] == 410
            assert failure(await api.get(f"{BOATS}?resourceVersion={stale}&resourceVersionMatch=Exact"))[0] == 410
        assert failure(await api.get(f"{BOATS}?limit=1&continue={listed['metadata']['continue']}"))[0] == 410
        async with api.watch(f"{BOATS}?resourceVersion={now['metadata']['resourceVersion']}") as events:
            again = await made(api, BOATS, boat("b"))
            assert again["metadata"]["uid"] != lost["metadata"]["uid"]
            assert (await events.next())[1]["metadata"]["uid"] == again["metadata"]["uid"]
        stale_write = await api.put(f"{BOATS}/b", lost)
        assert failure(stale_write)[:2] == (409, "Conflict")


@walk
async def test_a_watch_of_the_store_that_breaks_is_noticed_by_nobody():
    api, backend, _ = far_fleet()
    async with api:
        listed = (await api.get(BOATS)).json
        async with api.watch(f"{BOATS}?resourceVersion={listed['metadata']['resourceVersion']}") as events:
            for number in range(30):
                if number % 3 == 0:
                    backend.cut()
                answer = await made(api, BOATS, boat(f"boat-{number:02}"))
                assert (await api.get(f"{BOATS}/boat-{number:02}")).json == answer, "its own writes are read"
                assert (await events.next())[1]["metadata"]["name"] == f"boat-{number:02}"
            assert events.pending() == []


@walk
async def test_answers_that_are_lost_and_connections_that_break():
    """Clients that try again end with what they wanted; what was acknowledged is there; nothing hangs."""
    api, backend, store = far_fleet()
    async with api:
        backend.faults = Faults(unavailable=0.1, unknown=0.2, cut=0.2)

        async def client(number: int) -> None:
            name = f"boat-{number}"
            await until(lambda: api.post(BOATS, boat(name)), {201, 409})
            patch = {"spec": {"crew": 3}}
            await until(lambda: api.patch(f"{BOATS}/{name}", patch), {200})
            if number % 2:
                await until(lambda: api.delete(f"{BOATS}/{name}"), {200, 404})

        await asyncio.gather(*(client(number) for number in range(20)))
        backend.faults = NO_FAULTS
        await backend.written()
        listed = await ready(api)
        assert sorted(names(listed)) == sorted(f"boat-{number}" for number in range(0, 20, 2))
        assert {item["spec"]["crew"] for item in listed["items"]} == {3}
        page = await store.list("/registry/walk.example.com/boats/", "/registry/walk.example.com/boats0")
        assert [str(kv.mod_rev) for kv in page.kvs] == [item["metadata"]["resourceVersion"] for item in listed["items"]]


@walk
async def test_two_servers_read_each_others_writes():
    clock = VirtualClock()
    store = MemoryBackend(clock)
    servers = [
        InMemory(APIServer(serve=[Boats, BoatV1]), backend=NetworkBackend(store, seed=seed), clock=clock)
        for seed in (1, 2)
    ]
    async with servers[0] as one, servers[1] as two, two.watch(BOATS) as events:
        for number in range(20):
            writer, reader = (one, two) if number % 2 else (two, one)
            where = f"{BOATS}/boat-{number:02}"
            written = await made(writer, BOATS, boat(f"boat-{number:02}"))
            assert (await reader.get(where)).json == written
            assert failure(await reader.post(BOATS, boat(f"boat-{number:02}")))[:2] == (409, "AlreadyExists")
            patched = (await reader.patch(where, {"spec": {"crew": 3}})).json
            assert (await writer.get(BOATS)).json["items"][-1]["metadata"] == patched["metadata"]
            assert failure(await writer.put(where, written))[:2] == (409, "Conflict")
            assert (await events.next())[1]["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]
            assert (await events.next())[0] == "MODIFIED"
        racers = [
            server.patch(f"{BOATS}/boat-00", {"spec": {"tags": [str(n)]}}) for n in range(8) for server in (one, two)
        ]
        assert {answer.status for answer in await asyncio.gather(*racers)} == {200}
        assert (await one.get(f"{BOATS}/boat-00")).json == (await two.get(f"{BOATS}/boat-00")).json


async def until(call: Any, wanted: set[int]) -> None:
    for _ in range(100):
        answer = await call()
        if answer.status in wanted:
            return
        assert answer.status in (429, 500, 503), answer
        assert failure(answer)[1] in ("TooManyRequests", "ServerTimeout", "ServiceUnavailable"), answer
        await asyncio.sleep(0.1)
    raise AssertionError("no answer that was wanted")
