"""`replace` while requests and watches go on: what is unchanged isn't disturbed, what changed starts anew."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import Any, ClassVar

import pytest
from walk_kit import BOATS, CRATES, GROUP, boat, crate, failure, fleet, made, path, walk

from oarlock import APIServer, Resource, Spoke, VirtualCollection, served_from
from oarlock.endpoints.catalog import Catalog
from oarlock.registry.served import Served
from oarlock.registry.stored.records import StoreTooNew
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory


class Wave(Resource, group=GROUP, version="v1", scope="Cluster"):
    """Something new."""

    height: int = 1


class OldWave(Spoke[Wave], version="v1alpha1"):
    """The same, before."""

    height: int = 1

    def to_hub(self) -> Wave:
        return Wave(metadata=self.metadata, height=self.height)

    @classmethod
    def from_hub(cls, hub: Wave) -> OldWave:
        return cls(metadata=hub.metadata, height=hub.height * 100)


class OtherOldWave(Spoke[Wave], version="v1alpha1"):
    """The same, said otherwise."""

    height: int = 1

    def to_hub(self) -> Wave:
        return Wave(metadata=self.metadata, height=self.height)

    @classmethod
    def from_hub(cls, hub: Wave) -> OtherOldWave:
        return cls(metadata=hub.metadata, height=hub.height * 1000)


WAVES = path("waves", version="v1", namespace="")


async def documents(api: Any) -> dict[str, Any]:
    """What clients cache by ETag."""
    v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    found = {
        "discovery": await api.get("/apis", accept=v2),
        "v2": await api.get("/openapi/v2"),
        "v3": await api.get("/openapi/v3"),
    }
    assert [answer.status for answer in found.values()] == [200, 200, 200]
    return {
        "discovery": found["discovery"].headers["etag"],
        "v2": found["v2"].headers["etag"],
        "v3": found["v3"].json["paths"],
    }


async def resources(api: Any) -> list[str]:
    return [r["name"] for r in (await api.get(f"/apis/{GROUP}/v1")).json["resources"]]


@walk
async def test_a_definition_is_added_changed_and_withdrawn():
    api, _ = fleet()
    async with api:
        old = api.server.catalog
        await made(api, BOATS, boat())
        crated = await made(api, CRATES, {"metadata": {"name": "c"}, "spec": {"size": 1}})
        before = await documents(api)
        assert failure(await api.get(WAVES))[2] == "the server could not find the requested resource"
        async with api.watch(BOATS) as boats, api.watch(CRATES) as crates:
            waves = served_from([Wave])
            await api.replace(Catalog.of([*old.entries, *waves], 2))
            await made(api, WAVES, {"metadata": {"name": "w"}})
            added = await documents(api)
            assert all(added[name] != before[name] for name in before)
            assert "waves" in await resources(api)
            assert not crates.closed

            kept = [s for s in old.entries if s.definition.names.plural != "crates"]
            changed = crate("v2", versions=("v1", "v2"))
            await api.replace(Catalog.of([*kept, *waves, changed], 3))
            assert crates.closed
            assert [kind for kind, _ in crates.pending()] == ["ADDED"]
            assert (await api.get(CRATES + "/c")).json == crated
            assert (await api.get(path("crates", "c", version="v2"))).json["apiVersion"] == f"{GROUP}/v2"

            async with api.watch(WAVES) as waving:
                await api.replace(Catalog.of(old.entries, 4))
                assert waving.closed
                assert [kind for kind, _ in waving.pending()] == ["ADDED"]
            assert (await api.get(WAVES)).status == 404
            assert "waves" not in await resources(api)
            assert await documents(api) == before
            await made(api, BOATS, boat("b"))
            assert not boats.closed
            assert [tree["metadata"]["name"] for _, tree in boats.pending()] == ["a", "b"]
        await api.replace(Catalog.of([*old.entries, *waves], 5))
        assert [item["metadata"]["name"] for item in (await api.get(WAVES)).json["items"]] == ["w"]


@walk
async def test_a_changed_conversion_is_seen_at_once():
    api, _ = fleet()
    async with api:
        old = api.server.catalog
        await api.replace(Catalog.of([*old.entries, *served_from([Wave, OldWave])], 2))
        await made(api, WAVES, {"metadata": {"name": "w"}, "height": 2})
        assert (await api.get(WAVES.replace("v1", "v1alpha1") + "/w")).json["height"] == 200
        await api.replace(Catalog.of([*old.entries, *served_from([Wave, OtherOldWave])], 3))
        assert (await api.get(WAVES.replace("v1", "v1alpha1") + "/w")).json["height"] == 2000


@walk
async def test_requests_go_on_while_catalogs_come_and_go():
    api, _ = fleet()
    async with api:
        old = api.server.catalog
        waves = served_from([Wave])
        answers: list[int] = []
        stop = False

        async def write(n: int) -> None:
            i = 0
            while not stop:
                i += 1
                name = f"w{n}-{i}"
                answers.append((await api.post(BOATS, boat(name))).status)
                answers.append((await api.patch(f"{BOATS}/{name}", {"spec": {"crew": 2}})).status)
                answers.append((await api.get(f"{BOATS}/{name}")).status)
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(write(n)) for n in range(3)]
        async with api.watch(BOATS) as events:
            for generation in range(2, 30):
                entries = [*old.entries, *waves] if generation % 2 else old.entries
                await api.replace(Catalog.of(entries, generation))
                await asyncio.sleep(0)
            stop = True
            await asyncio.gather(*tasks)
            seen = events.pending()
            assert not events.closed
        assert set(answers) == {200, 201}
        assert len(seen) == 2 * len(answers) // 3
        revs = [int(tree["metadata"]["resourceVersion"]) for _, tree in seen]
        assert revs == sorted(set(revs))


@walk
async def test_a_catalog_that_cannot_be_loaded_changes_nothing():
    api, _ = fleet()
    async with api:
        old = api.server.catalog
        await made(api, BOATS, boat())
        async with api.watch(BOATS) as boats, api.watch(CRATES) as crates:
            kept = [s for s in old.entries if s.definition.names.plural != "crates"]
            with pytest.raises(StoreTooNew):
                await api.replace(Catalog.of([*kept, crate("v9")], 2))
            assert not boats.closed
            assert not crates.closed
            await made(api, CRATES, {"metadata": {"name": "c"}, "spec": {"size": 1}})
            assert len(crates.pending()) == 1
        assert (await api.get(path("crates", version="v9"))).status == 404


class Tides(VirtualCollection[Wave]):
    """Waves that nobody stores."""

    async def list(self, ctx: Any) -> list[Wave]:
        return [Wave(height=7)]

    async def watch(self, ctx: Any) -> Any:
        yield "ADDED", Wave(height=7)
        await asyncio.sleep(10_000)


@walk
async def test_stored_becomes_virtual_and_back():
    api, _ = fleet()
    async with api:
        old = api.server.catalog
        await api.replace(Catalog.of([*old.entries, *served_from([Wave])], 2))
        async with api.watch(WAVES) as stored:
            await api.replace(Catalog.of([*old.entries, *served_from([Tides])], 3))
            assert stored.closed
        async with api.watch(WAVES) as virtual:
            assert (await virtual.next())[1]["height"] == 7
            assert (await api.post(WAVES, {"metadata": {"name": "w"}})).status == 405
            await api.replace(Catalog.of([*old.entries, *served_from([Wave])], 4))
            assert virtual.closed
        assert (await api.get(WAVES)).json["items"] == []


@walk
async def test_a_server_that_could_read_nothing_refuses_to_start():
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    await backend.start()
    async with InMemory(APIServer(serve=[crate("v1")]), backend=Shared(backend), clock=clock) as api:
        await made(api, CRATES, {"metadata": {"name": "c"}, "spec": {"size": 1}})
    stranger = InMemory(APIServer(serve=[crate("v2")]), backend=Shared(backend), clock=clock)
    with pytest.raises(StoreTooNew) as refused:
        await stranger.__aenter__()
    assert "\n" not in str(refused.value)
    assert "crates.walk.example.com written as v1" in str(refused.value)
    both = crate("v2", versions=("v1", "v2"))
    async with InMemory(APIServer(serve=[both]), backend=Shared(backend), clock=clock) as api:
        tree = (await api.get(path("crates", "c", version="v2"))).json
        assert tree["apiVersion"] == f"{GROUP}/v2"
        written = await api.put(path("crates", "c", version="v2"), tree)
        assert written.json["metadata"]["resourceVersion"] != tree["metadata"]["resourceVersion"]
    await backend.close()


class Shared:
    """A store that outlives the servers on it."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def start(self) -> None:
        return None

    async def close(self) -> None:
        return None


class Told(VersionDefinition):
    """A version that says in which threads its schema was read."""

    readers: ClassVar[set[bool]] = set()

    def __getattribute__(self, name: str) -> Any:
        if name == "schema":
            Told.readers.add(threading.current_thread() is threading.main_thread())
        return super().__getattribute__(name)


@walk
async def test_schemas_are_read_beside_the_loop_and_what_is_no_longer_served_is_let_go():
    api, _ = fleet()
    async with api:
        old = api.server.catalog
        Told.readers.clear()
        versions = (Told("v1", {"type": "object", "properties": {"height": {"type": "integer"}}}),)
        swell = Served(
            ResourceDefinition(GROUP, Names("swells", "Swell"), "Cluster", versions, "v1", "v1", typed=False)
        )
        await api.replace(Catalog.of([*old.entries, swell]))
        assert Told.readers == {False}
        resource = weakref.ref(api.parts.resources.live.resources[GROUP, "swells"])
        await made(api, path("swells", version="v1", namespace=""), {"metadata": {"name": "a"}, "height": 1})
        await api.replace(old)
        for _ in range(100):
            await asyncio.to_thread(lambda: None)
            if resource() is None:
                break
        assert resource() is None
