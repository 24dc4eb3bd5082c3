"""Custom resources as they are read: by the schema of today, whatever they were stored by."""

from __future__ import annotations

import json
from typing import Any

from walk_kit import key, walk

from oarlock import APIServer
from oarlock.endpoints.catalog import Catalog
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.registry.served import Served
from oarlock.schema.crd import parse
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

GROUP = "walk.example.com"
RIGS = f"/apis/{GROUP}/v1/namespaces/default/rigs"
TEXT = {"type": "string"}


def rigs(**versions: dict[str, Any]) -> Served:
    """Rigs with these fields of spec in each version; the first version is stored."""

    def version(at: int, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
        return {"name": name, "served": True, "storage": not at, "schema": {"openAPIV3Schema": schema}}

    spec = {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "rigs", "kind": "Rig", "singular": "rig", "listKind": "RigList"},
        "versions": [version(at, *one) for at, one in enumerate(versions.items())],
    }
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return Served(parse({**head, "metadata": {"name": f"rigs.{GROUP}"}, "spec": spec}))


def replacement(served: Served) -> Catalog:
    return Catalog.of(served_from([served]))


def shown(answer: Any) -> Any:
    """The tree of an answer that is a success."""
    assert answer.status < 300, answer.json
    return answer.json


async def spec_of(api: InMemory, name: str = "a", path: str = RIGS) -> Any:
    return (await api.get(f"{path}/{name}")).json["spec"]


async def stored(backend: MemoryBackend, name: str, spec: dict[str, Any], version: str = "v1") -> None:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    tree = {"apiVersion": f"{GROUP}/{version}", "kind": "Rig", "metadata": metadata, "spec": spec}
    await backend.start()
    assert (await backend.put(key("rigs", "default", name), json.dumps(tree).encode(), expect=0)).ok


@walk
async def test_what_is_stored_is_pruned_and_defaulted_when_it_is_read():
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    await stored(backend, "a", {"a": "x", "gone": 1, "b": None})
    server = APIServer(serve=[rigs(v1={"a": TEXT, "b": TEXT, "c": {**TEXT, "default": "new"}})])
    async with InMemory(server, backend=backend, clock=clock) as api:
        assert await spec_of(api) == {"a": "x", "c": "new"}
        listed = shown(await api.get(RIGS))
        assert listed["items"][0]["spec"] == {"a": "x", "c": "new"}
        assert listed["metadata"]["continue"] == ""


@walk
async def test_defaults_are_those_of_the_version_it_is_stored_in():
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    await stored(backend, "old", {"a": "x"}, "v1")
    server = APIServer(serve=[rigs(v2={"a": TEXT, "c": {**TEXT, "default": "two"}}, v1={"a": TEXT, "b": TEXT})])
    async with InMemory(server, backend=backend, clock=clock) as api:
        assert await spec_of(api, "old", RIGS.replace("/v1/", "/v2/")) == {"a": "x"}
        body = {"metadata": {"name": "new"}, "spec": {"a": "y", "b": "is lost"}}
        assert shown(await api.post(RIGS, body))["spec"] == {"a": "y"}
        assert await spec_of(api, "new", RIGS.replace("/v1/", "/v2/")) == {"a": "y", "c": "two"}


@walk
async def test_a_default_that_is_added_is_seen_at_once():
    async with InMemory(APIServer(serve=[rigs(v1={"a": TEXT})])) as api:
        shown(await api.post(RIGS, {"metadata": {"name": "a"}, "spec": {"a": "x"}}))
        await api.replace(replacement(rigs(v1={"a": TEXT, "b": {**TEXT, "default": "later"}})))
        assert await spec_of(api) == {"a": "x", "b": "later"}
        await api.replace(replacement(rigs(v1={"b": TEXT})))
        assert await spec_of(api) == {}
        await api.replace(replacement(rigs(v1={"a": TEXT, "b": TEXT})))
        assert await spec_of(api) == {"a": "x"}, "nothing was written: what was pruned is there again"


@walk
async def test_an_old_violation_of_a_rule_is_told_as_a_warning():
    rule = {"x-kubernetes-validations": [{"rule": "self.startsWith('b')", "message": "starts with b"}]}
    async with InMemory(APIServer(serve=[rigs(v1={"a": TEXT, "b": TEXT})])) as api:
        shown(await api.post(RIGS, {"metadata": {"name": "a"}, "spec": {"a": "x"}}))
        await api.replace(replacement(rigs(v1={"a": {**TEXT, **rule}, "b": TEXT})))
        answer = await api.patch(f"{RIGS}/a", {"spec": {"b": "y"}})
        assert shown(answer)["spec"] == {"a": "x", "b": "y"}
        assert answer.warnings == ['spec.a: Invalid value: "x": starts with b']
        assert (await api.patch(f"{RIGS}/a", {"spec": {"a": "z"}})).status == 422


@walk
async def test_numbers_of_replicas_have_bounds():
    served = rigs(v1={"replicas": {"type": "integer"}})
    version = {"subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.n"}}}
    tree = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}},
    }
    spec = {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "rigs", "kind": "Rig", "singular": "rig", "listKind": "RigList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": tree}, **version}],
    }
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    served = Served(parse({**head, "metadata": {"name": f"rigs.{GROUP}"}, "spec": spec}))
    async with InMemory(APIServer(serve=[served])) as api:
        for number, why in ((-1, "should be a non-negative integer"), (2**31, "should be less than or equal to")):
            refused = (await api.post(RIGS, {"metadata": {"name": "a"}, "spec": {"replicas": number}})).json
            assert f".spec.replicas: Invalid value: {number}: {why}" in refused["message"]
        shown(await api.post(RIGS, {"metadata": {"name": "a"}, "spec": {"replicas": 1}}))
        scale = (await api.get(f"{RIGS}/a/scale")).json
        refused = (await api.put(f"{RIGS}/a/scale", {**scale, "spec": {"replicas": -1}})).json
        assert refused["message"].startswith(f'Rig.{GROUP} "a" is invalid: .spec.replicas')
