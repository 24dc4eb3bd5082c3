"""What a server's own code reads: the cache itself, typed, never behind."""

from __future__ import annotations

import pytest
from walk_kit import BOATS, PORTS, Boat, Boats, BoatV1, Port, boat, catalog, key, made, walk

from oarlock import APIServer, DeclarationError, Informer, errors
from oarlock.client.informers.informer import NotRunning
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory


@walk
async def test_an_informer_is_as_new_as_the_last_answer():
    boats, old = Informer(Boat), Informer(BoatV1)
    with pytest.raises(NotRunning):
        list(boats)
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    server = APIServer(serve=[Boats], informers=[boats, old])
    async with InMemory(server, backend=backend, clock=clock) as api:
        assert list(boats) == []
        await made(api, BOATS, boat("a", port="oslo"))
        (one,) = boats
        assert (one.metadata.name, one.spec.port) == ("a", "oslo")
        assert boats.get("a", "default") is one
        found = old.get("a", "default")
        assert found is not None
        assert found.spec.harbour == "oslo"
        await api.patch(BOATS + "/a", {"spec": {"port": "bergen"}})
        assert [b.spec.port for b in boats] == ["bergen"]
        kv, _ = await backend.get(key("boats", "default", "a"))
        assert kv is not None
        await backend.put(kv.key, b"{", expect=kv.mod_rev)
        await made(api, BOATS, boat("b"))
        assert [b.metadata.name for b in boats] == ["b"]
        assert boats.get("a", "default") is None
        await api.delete(BOATS + "/b")
        assert boats.get("b", "default") is None
        assert list(boats) == []


def test_an_informer_of_what_is_not_served_is_a_mistake_of_the_declaration():
    with pytest.raises(DeclarationError, match="add it to serve"):
        APIServer(serve=[], informers=[Informer(Boat)])


@walk
async def test_a_declared_informer_has_handlers_indices_and_selectors_over_several_runs():
    in_oslo = Informer(Boat, namespace="default", label_selector="port=oslo")
    told: list[tuple[str | None, str | None]] = []
    in_oslo.add_handler(lambda old, new: told.append((old and old.metadata.name, new and new.metadata.name)))
    in_oslo.add_index("port", lambda one: [one.spec.port])
    server = APIServer(serve=[Boats], informers=[in_oslo])
    async with InMemory(server) as api:
        for name, labels in (("a", {"port": "oslo"}), ("b", {}), ("c", {"port": "oslo"})):
            tree = boat(name, port=name)
            tree["metadata"]["labels"] = labels
            await made(api, BOATS, tree)
        await in_oslo.synced()
        assert told == [(None, "a"), (None, "c")]
        assert (len(in_oslo), [one.metadata.name for one in in_oslo]) == (2, ["a", "c"])
        assert [one.metadata.name for one in in_oslo.by_index("port", "c")] == ["c"]
        await api.patch(BOATS + "/a", {"metadata": {"labels": None}})
        await in_oslo.synced()
        assert told[2:] == [("a", None)]
    async with InMemory(server):  # another store, and as it were another server
        await in_oslo.synced()
        assert told[3:] == [("c", None)]
        assert in_oslo.by_index("port", "c") == []


@walk
async def test_a_wrong_selector_of_an_informer_ends_the_start():
    server = APIServer(serve=[Boats], informers=[Informer(Boat, field_selector="spec.colour=red")])
    with pytest.raises(errors.BadRequest, match=r"spec\.colour"):
        async with InMemory(server):
            pass


@walk
async def test_what_an_informer_reads_cannot_be_withdrawn():
    boats = Informer(Boat)
    async with InMemory(APIServer(serve=[Boats], informers=[boats])) as api:
        await made(api, BOATS, boat("a"))
        async with api.watch(BOATS) as events:
            with pytest.raises((LookupError, DeclarationError)):
                await api.replace(catalog(Port))
            assert not events.closed
        assert (await api.get(BOATS + "/a")).status == 200
        assert (await api.get(PORTS)).status == 404
        assert len(list(boats)) == 1
        await api.replace(catalog(Port, keep=api.server.catalog, generation=3))
        assert (await api.get(PORTS)).status == 200


@pytest.mark.slow
@walk
async def test_a_long_list_is_whole():
    clock = VirtualClock()
    async with InMemory(APIServer(serve=[Boats]), clock=clock) as api:
        for i in range(2100):
            await made(api, BOATS, boat(f"b{i:04}"))
        for version in ("v1", "v2"):
            items = (await api.get(BOATS.replace("v2", version))).json["items"]
            assert [item["metadata"]["name"] for item in items] == [f"b{i:04}" for i in range(2100)]
        async with api.watch(BOATS) as events:
            seen = [(await events.next())[1]["metadata"]["name"] for _ in range(2100)]
            assert seen == [f"b{i:04}" for i in range(2100)]
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        assert len((await api.get(BOATS, accept=table)).json["rows"]) == 2100
        assert len((await api.delete(BOATS)).json["items"]) == 2100
        assert (await api.get(BOATS)).json["items"] == []
