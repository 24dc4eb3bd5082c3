"""Objects go with the last of their owners, in memory and in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.apps.controllers.garbage.collector import DependencyGraph, ObjectRef
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.client.informers.partial_objects import OwnerLink
from oarlock.meta.kinds import GroupResource
from oarlock.storage.backend import Backend
from oarlock.storage.memory import MemoryBackend
from oarlock.testing import InMemory, VirtualClock

MERGE = {"content-type": "application/merge-patch+json"}
MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
NOBODY = "11111111-2222-3333-4444-555555555555"


class World:
    """A control plane, with words for what these tests do."""

    def __init__(self, backend: Backend | None = None) -> None:
        self.clock = VirtualClock()
        self.api = InMemory(ControlPlane(), clock=self.clock, backend=backend)

    async def __aenter__(self) -> World:
        await self.api.__aenter__()
        await self.clock.run(1)
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self.api.__aexit__(*details)

    async def make(self, name: str, *owners: dict[str, Any], where: str = MAPS, hold: bool = False) -> dict[str, Any]:
        """Create an object; returns a reference to it."""
        metadata = {"name": name, "ownerReferences": [*owners], "finalizers": ["example.com/hold"] if hold else []}
        answer = await self.api.post(where, {"metadata": metadata})
        assert answer.status == 201, answer.json
        kind = {"apiVersion": answer.json["apiVersion"], "kind": answer.json["kind"]}
        return {**kind, "name": name, "uid": answer.json["metadata"]["uid"]}

    async def delete(self, name: str, policy: str = "", where: str = MAPS) -> None:
        answer = await self.api.request("DELETE", f"{where}/{name}", {"propagationPolicy": policy} if policy else None)
        assert answer.status == 200, answer.json
        await self.clock.run(2)

    async def release(self, name: str) -> None:
        await self.api.request("PATCH", f"{MAPS}/{name}", {"metadata": {"finalizers": None}}, MERGE)
        await self.clock.run(2)

    async def metadata(self, name: str, where: str = MAPS) -> dict[str, Any] | None:
        """The object's metadata; None if it is gone."""
        answer = await self.api.get(f"{where}/{name}")
        found: dict[str, Any] | None = answer.json["metadata"] if answer.status == 200 else None
        return found


@pytest.mark.anyio
async def test_what_an_object_owned_goes_after_it() -> None:
    async with World() as world:
        owner = await world.make("owner")
        child = await world.make("child", owner)
        await world.make("grandchild", child)
        await world.make("stranger")
        await world.delete("owner")
        assert [await world.metadata(name) for name in ("child", "grandchild")] == [None, None]
        assert await world.metadata("stranger") is not None


@pytest.mark.anyio
async def test_in_the_foreground_the_owner_waits_for_what_blocks() -> None:
    async with World() as world:
        owner = await world.make("owner")
        await world.make("blocks", {**owner, "blockOwnerDeletion": True}, hold=True)
        await world.make("doesnt", owner, hold=True)
        await world.delete("owner", "Foreground")
        waiting = await world.metadata("owner")
        assert waiting is not None
        assert waiting["finalizers"] == ["foregroundDeletion"]
        for name in ("blocks", "doesnt"):
            dependent = await world.metadata(name)
            assert dependent is not None
            assert dependent["deletionTimestamp"]
        await world.release("blocks")
        assert await world.metadata("owner") is None
        assert await world.metadata("doesnt") is not None


@pytest.mark.anyio
async def test_in_the_foreground_the_deepest_goes_first() -> None:
    async with World() as world:
        owner = await world.make("owner")
        child = await world.make("child", {**owner, "blockOwnerDeletion": True})
        await world.make("grandchild", {**child, "blockOwnerDeletion": True}, hold=True)
        await world.delete("owner", "Foreground")
        between = await world.metadata("child")
        assert between is not None
        assert between["finalizers"] == ["foregroundDeletion"]
        await world.release("grandchild")
        assert [await world.metadata(name) for name in ("owner", "child", "grandchild")] == [None] * 3


@pytest.mark.anyio
async def test_a_reference_that_no_longer_blocks_lets_the_owner_go() -> None:
    async with World() as world:
        owner = await world.make("owner")
        await world.make("blocks", {**owner, "blockOwnerDeletion": True}, hold=True)
        await world.delete("owner", "Foreground")
        unblocked = {"metadata": {"ownerReferences": [{**owner, "blockOwnerDeletion": False}]}}
        await world.api.request("PATCH", f"{MAPS}/blocks", unblocked, MERGE)
        await world.clock.run(2)
        assert await world.metadata("owner") is None


@pytest.mark.anyio
async def test_two_that_own_each_other_dont_wait_for_ever() -> None:
    async with World() as world:
        first = await world.make("first")
        second = await world.make("second", {**first, "blockOwnerDeletion": True})
        circle = {"metadata": {"ownerReferences": [{**second, "blockOwnerDeletion": True}]}}
        await world.api.request("PATCH", f"{MAPS}/first", circle, MERGE)
        await world.delete("first", "Foreground")
        await world.clock.run(5)
        assert [await world.metadata(name) for name in ("first", "second")] == [None, None]


@pytest.mark.anyio
async def test_orphans_stay_without_an_owner() -> None:
    async with World() as world:
        owner, other = await world.make("owner"), await world.make("other")
        await world.make("one", owner)
        await world.make("two", owner, other)
        await world.delete("owner", "Orphan")
        assert await world.metadata("owner") is None
        one, two = await world.metadata("one"), await world.metadata("two")
        assert one is not None
        assert "ownerReferences" not in one
        assert two is not None
        assert two["ownerReferences"] == [other]


@pytest.mark.anyio
async def test_an_object_stays_with_the_owners_it_has_left() -> None:
    async with World() as world:
        first, second = await world.make("first"), await world.make("second")
        await world.make("child", {**first, "controller": True}, {**second, "blockOwnerDeletion": False})
        await world.delete("first")
        child = await world.metadata("child")
        assert child is not None
        assert child["ownerReferences"] == [{**second, "blockOwnerDeletion": False}]
        await world.delete("second")
        assert await world.metadata("child") is None


@pytest.mark.anyio
async def test_owners_that_never_were_are_absent() -> None:
    async with World() as world:
        owner = await world.make("owner")
        await world.make("of-nobody", {**owner, "name": "nobody", "uid": NOBODY})
        await world.make("of-another", {**owner, "uid": NOBODY})
        await world.clock.run(2)
        assert [await world.metadata(name) for name in ("of-nobody", "of-another")] == [None, None]


@pytest.mark.anyio
async def test_an_owner_in_another_namespace_is_none_and_an_event_says_so() -> None:
    async with World() as world:
        await world.api.post("/api/v1/namespaces", {"metadata": {"name": "far"}})
        owner = await world.make("owner")
        far = "/api/v1/namespaces/far/configmaps"
        await world.make("child", owner, where=far)
        await world.clock.run(2)
        assert await world.metadata("child", far) is None
        (event,) = (await world.api.get("/api/v1/namespaces/far/events")).json["items"]
        told = f"ownerRef [v1/ConfigMap, namespace: far, name: owner, uid: {owner['uid']}] does not exist in namespace"
        assert (event["reason"], event["message"]) == ("OwnerRefInvalidNamespace", f'{told} "far"')


@pytest.mark.anyio
async def test_owners_without_a_namespace() -> None:
    async with World() as world:
        owner = await world.make("role", where=ROLES)
        await world.make("child", owner)
        in_namespace = await world.make("owner")
        await world.make("role-of-one-in-a-namespace", in_namespace, where=ROLES)
        await world.delete("role", where=ROLES)
        await world.delete("owner")
        assert await world.metadata("child") is None
        assert await world.metadata("role-of-one-in-a-namespace", ROLES) is not None


@pytest.mark.anyio
async def test_owners_of_an_unknown_kind_may_exist() -> None:
    async with World() as world:
        unknown = {"apiVersion": "example.com/v1", "kind": "Gadget", "name": "g", "uid": NOBODY}
        absent = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": NOBODY.replace("1", "2")}
        await world.make("child", unknown)
        await world.make("of-both", unknown, absent)
        await world.clock.run(60)
        assert await world.metadata("child") is not None
        assert await world.metadata("of-both") is not None


@pytest.mark.anyio
async def test_a_collector_that_starts_knows_who_waits() -> None:
    async with World() as world:
        owner = await world.make("owner")
        await world.make("child", {**owner, "blockOwnerDeletion": True}, hold=True)
        await world.delete("owner", "Foreground")
        stored = (await world.api.parts.storage.backend.list("/registry/", "/registry0")).kvs
    backend = MemoryBackend(VirtualClock())
    for kv in stored:
        await backend.put(kv.key, kv.value, expect=0)
    async with World(backend) as world:
        assert await world.metadata("owner") is not None
        await world.release("child")
        assert await world.metadata("owner") is None


def test_the_graph_holds_nothing_of_what_it_forgets() -> None:
    graph, maps = DependencyGraph(), GroupResource("", "configmaps")
    owner = OwnerLink("v1", "ConfigMap", "owner", NOBODY, block_owner_deletion=True)
    places = [ObjectRef(maps, "default", f"child-{number}") for number in range(3)]
    for place in places:
        graph.put(place, (owner,))
    assert (graph.dependents(NOBODY), graph.blocks(NOBODY), len(graph)) == (tuple(places), True, 3)
    assert ObjectRef.of_key(places[0].key) == places[0]
    graph.put(places[0], ())
    for place in places[1:]:
        assert graph.remove(place) == (owner,)
    assert (graph.has_dependents(NOBODY), graph.blocks(NOBODY), len(graph)) == (False, False, 0)
