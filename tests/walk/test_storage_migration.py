"""Objects written by an old generation of a server are rewritten in the version of the new one, beside it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from walk_kit import BOATS, BOATS_V1, GROUP, Boat, Boats, BoatV1, boat, failure, key, made

from oarlock import APIServer, Resource, StoredCollection, served_from
from oarlock.registry.stored.migration import MigrationRefused, Progress, migrate
from oarlock.registry.stored.records import DefinitionRecords, StoreTooNew
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

RESOURCE = "boats.walk.example.com"


def in_real_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An async test in an ordinary loop: SQLite's threads take real time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class NewBoats(StoredCollection[Boat]):
    """The next generation: boats are written as v2."""


(NEW,) = served_from([NewBoats, BoatV1])


def old_generation(store: Path) -> InMemory:
    return InMemory(APIServer(serve=[Boats]), backend=SqliteBackend(store, VirtualClock()))


def new_generation(store: Path, *, knows_old: bool = True) -> InMemory:
    serve = [NewBoats, BoatV1] if knows_old else [NewBoats]
    return InMemory(APIServer(serve=serve), backend=SqliteBackend(store, VirtualClock()))


class Opened:
    """The store, as a command beside the servers opens it."""

    def __init__(self, store: Path) -> None:
        self.backend = SqliteBackend(store, VirtualClock())

    async def __aenter__(self) -> SqliteBackend:
        await self.backend.start()
        return self.backend

    async def __aexit__(self, *error: object) -> None:
        await self.backend.close()


async def versions(backend: SqliteBackend) -> list[str]:
    """The version each boat is stored in."""
    page = await backend.list(key("boats", ""), key("boats0"))
    return [json.loads(kv.value)["apiVersion"].partition("/")[2] for kv in page.kvs]


async def written(backend: SqliteBackend) -> list[str]:
    facts, _ = await DefinitionRecords(backend).find(NEW.definition)
    found: list[str] = facts["storedVersions"]
    return found


async def with_old_boats(store: Path, count: int) -> None:
    async with old_generation(store) as api:
        for n in range(count):
            await made(api, BOATS_V1, {"metadata": {"name": f"b{n}"}, "spec": {"harbour": f"h{n}"}})


@in_real_time
async def test_everything_old_is_rewritten_once_beside_a_server(tmp_path: Path):
    store = tmp_path / "store.db"
    await with_old_boats(store, 7)
    async with new_generation(store) as api, Opened(store) as backend:
        before = {b["metadata"]["name"]: b for b in (await api.get(BOATS)).json["items"]}
        await made(api, BOATS, boat("new"))
        assert sorted(await versions(backend)) == ["v1"] * 7 + ["v2"]
        assert await written(backend) == ["v1", "v2"]
        told: list[tuple[int, int, int]] = []
        done = await migrate(backend, NEW, lambda p: told.append((p.seen, p.total, p.rewritten)), page=3)
        assert (done.resource, done.seen, done.rewritten, done.broken) == (RESOURCE, 8, 7, [])
        assert told[:3] == [(3, 8, 3), (6, 8, 6), (8, 8, 7)]
        assert await versions(backend) == ["v2"] * 8
        assert await written(backend) == ["v2"]
        after = {b["metadata"]["name"]: b for b in (await api.get(BOATS)).json["items"]}
        for name, old in before.items():
            assert after[name]["spec"] == old["spec"] == {"port": f"h{name[1:]}", "crew": 1}
            assert int(after[name]["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])
            assert after[name]["metadata"]["uid"] == old["metadata"]["uid"]
        rev = await backend.current_rev()
        again = await migrate(backend, NEW)
        assert (again.seen, again.rewritten) == (8, 0)
        assert await backend.current_rev() == rev, "there was nothing to do"
    async with new_generation(store, knows_old=False) as api:
        assert len((await api.get(BOATS)).json["items"]) == 8
    with pytest.raises(StoreTooNew):
        async with InMemory(APIServer(serve=[BoatOnlyV1]), backend=SqliteBackend(store, VirtualClock())):
            pass


class BoatOnlyV1(Resource, group=GROUP, version="v1", kind="Boat"):
    """A boat as a server knows it that was never told of v2."""


@in_real_time
async def test_interrupted_and_resumed(tmp_path: Path):
    store = tmp_path / "store.db"
    await with_old_boats(store, 9)

    class Stopped(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.seen >= 4:
            raise Stopped

    async with new_generation(store), Opened(store) as backend:
        with pytest.raises(Stopped):
            await migrate(backend, NEW, stop, page=2)
        assert sorted(await versions(backend)) == ["v1"] * 5 + ["v2"] * 4
        assert await written(backend) == ["v1", "v2"], "not before everything is rewritten"
        task = asyncio.ensure_future(migrate(backend, NEW, lambda p: p.seen == 6 and task.cancel(), page=1))
        await asyncio.wait([task])
    async with new_generation(store), Opened(store) as backend:
        left = (await versions(backend)).count("v1")
        assert 0 < left < 5
        assert (await migrate(backend, NEW)).rewritten == left
        assert await versions(backend) == ["v2"] * 9
        assert await written(backend) == ["v2"]


@in_real_time
async def test_nothing_is_lost_beside_servers_that_write(tmp_path: Path):
    store = tmp_path / "store.db"
    await with_old_boats(store, 6)
    async with old_generation(store) as old, new_generation(store) as new, Opened(store) as backend:

        async def write(api: InMemory, who: str) -> None:
            for n in range(20):
                where = f"{BOATS}/b{n % 6}"
                assert (await api.patch(where, {"metadata": {"labels": {f"{who}{n}": "1"}}})).status == 200

        async def rewrite() -> None:
            for _ in range(3):
                with contextlib.suppress(MigrationRefused):  # the old one goes on writing
                    await migrate(backend, NEW, page=2)

        await asyncio.gather(write(old, "old"), write(new, "new"), rewrite())
        done = await migrate(backend, NEW, page=2)
        assert done.broken == []
        assert await versions(backend) == ["v2"] * 6
        labels = [b["metadata"]["labels"] for b in (await new.get(BOATS)).json["items"]]
        assert sorted(k for found in labels for k in found) == sorted(
            f"{w}{n}" for w in ("old", "new") for n in range(20)
        )


@in_real_time
async def test_it_is_refused_while_an_old_server_is_the_last(tmp_path: Path):
    store = tmp_path / "store.db"
    await with_old_boats(store, 2)
    async with Opened(store) as backend:
        with pytest.raises(MigrationRefused, match=r"writes boats.walk.example.com as v1, not v2: start the one"):
            await migrate(backend, NEW)
        assert await versions(backend) == ["v1", "v1"]


@in_real_time
async def test_what_cant_be_read_stays_and_is_named(tmp_path: Path):
    store = tmp_path / "store.db"
    await with_old_boats(store, 2)
    async with new_generation(store) as api, Opened(store) as backend:
        await backend.put(key("boats", "default", "a"), b"\xff{", expect=0)
        strange = b'{"apiVersion":"walk.example.com/v9","kind":"Boat","metadata":{"name":"z"}}'
        await backend.put(key("boats", "default", "z"), strange, expect=0)
        done = await migrate(backend, NEW)
        assert done.rewritten == 2
        assert [line.split(":")[0] for line in done.broken] == [key("boats", "default", n) for n in "az"]
        assert "doesn't know" in done.broken[1]
        assert (await backend.get(key("boats", "default", "z")))[0].value == strange
        assert await written(backend) == ["v1", "v2"], "what is broken may be of any version"
        assert failure(await api.get(BOATS))[0] == 500


@in_real_time
async def test_an_empty_store_and_one_without_a_record(tmp_path: Path):
    async with Opened(tmp_path / "store.db") as backend:
        done = await migrate(backend, NEW)
        assert (done.seen, done.total, done.rewritten) == (0, 0, 0)
        old = b'{"apiVersion":"walk.example.com/v1","kind":"Boat","metadata":{"name":"a"},"spec":{"harbour":"h"}}'
        await backend.put(key("boats", "default", "a"), old, expect=0)
        assert (await migrate(backend, NEW)).rewritten == 1
        assert await versions(backend) == ["v2"]
