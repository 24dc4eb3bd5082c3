"""A field with a default came after objects had been stored: every reader sees the default, as Kubernetes has it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from walk_kit import GROUP, key, walk

from oarlock import APIServer, Model, Resource, served_from
from oarlock.endpoints.catalog import Catalog
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

Tree = dict[str, Any]
RAFTS = f"/apis/{GROUP}/v1/namespaces/default/rafts"


class Sail(Model):
    area: int = 7


class RaftSpec(Model):
    wood: str
    color: str = "red"
    sail: Sail = Sail()
    masts: list[Sail] = []


class RaftStatus(Model):
    phase: str = "New"
    crew: int | None = None


class Raft(Resource, group=GROUP, version="v1", status_subresource=True, selectable=[".spec.color"]):
    spec: RaftSpec
    status: RaftStatus = RaftStatus()


def stored(name: str, spec: Tree, **rest: Any) -> tuple[str, bytes]:
    metadata = {"name": name, "namespace": "default", "uid": "u"}
    tree = {"apiVersion": f"{GROUP}/v1", "kind": "Raft", "metadata": metadata, "spec": spec, **rest}
    return key("rafts", "default", name), json.dumps(tree, separators=(",", ":")).encode()


async def with_rafts(*values: tuple[str, bytes]) -> MemoryBackend:
    backend = MemoryBackend(clock=VirtualClock())
    await backend.start()
    for where, value in values:
        await backend.put(where, value, expect=0)
    return backend


WHOLE = {"wood": "ash", "color": "red", "sail": {"area": 7}}


@walk
async def test_everybody_who_reads_sees_the_default():
    backend = await with_rafts(stored("a", {"wood": "ash"}), stored("b", {"wood": "ash", "masts": [{}]}))
    async with InMemory(APIServer(serve=[Raft]), backend=backend) as api:
        assert (await api.get(RAFTS + "/a")).json["spec"] == WHOLE
        assert [one["spec"]["color"] for one in (await api.get(RAFTS)).json["items"]] == ["red", "red"]
        assert (await api.get(RAFTS + "/b")).json["spec"]["masts"] == [{"area": 7}]
        assert len((await api.get(RAFTS + "?fieldSelector=spec.color%3Dred")).json["items"]) == 2
        initial = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        async with api.watch(RAFTS + initial) as events:
            assert (await events.next())[1]["spec"] == WHOLE
            await events.next()
            await events.next()
            await backend.put(*stored("c", {"wood": "oak"}), expect=0)  # by a server of before
            assert (await events.next())[1]["spec"] == {**WHOLE, "wood": "oak"}


@walk
async def test_a_status_that_nobody_wrote_stays_away():
    backend = await with_rafts(stored("a", {"wood": "ash"}), stored("b", WHOLE, status={"crew": 3}))
    async with InMemory(APIServer(serve=[Raft]), backend=backend) as api:
        assert "status" not in (await api.get(RAFTS + "/a")).json
        assert (await api.get(RAFTS + "/b")).json["status"] == {"crew": 3, "phase": "New"}


@walk
async def test_what_lacks_nothing_is_written_again_by_no_empty_update():
    backend = await with_rafts(stored("a", WHOLE), stored("b", {"wood": "ash"}))
    async with InMemory(APIServer(serve=[Raft]), backend=backend) as api:
        for name, rewritten in (("a", False), ("b", True)):
            before = (await api.get(f"{RAFTS}/{name}")).json
            after = (await api.put(f"{RAFTS}/{name}", before)).json
            assert (after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]) is rewritten


@walk
async def test_an_object_that_does_not_fit_stays_as_it_is():
    backend = await with_rafts(stored("a", {"wood": 3}))
    async with InMemory(APIServer(serve=[Raft]), backend=backend) as api:
        assert (await api.get(RAFTS + "/a")).json["spec"] == {"wood": 3}


@walk
async def test_another_schema_shows_its_defaults_at_once():
    (served,) = served_from([Raft])
    version = served.definition.versions[0]
    before = json.loads(json.dumps(version.schema))
    del before["properties"]["spec"]["properties"]["color"]["default"]
    old = replace(served, definition=replace(served.definition, versions=(replace(version, schema=before),)))
    backend = await with_rafts(stored("a", {"wood": "ash"}))
    async with InMemory(APIServer(serve=[old]), backend=backend) as api:
        assert "color" not in (await api.get(RAFTS + "/a")).json["spec"]
        await api.replace(Catalog.of([served]))
        assert (await api.get(RAFTS + "/a")).json["spec"] == WHOLE
