"""Definitions in the shape of a CRD, served: nothing of them is a class."""

from __future__ import annotations

import asyncio
from typing import Any

from walk_kit import causes, failure, made, walk

from oarlock import APIServer, Context
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import Converter
from oarlock.registry.served import Hooks, Served
from oarlock.schema.crd import parse
from oarlock.testing.server import InMemory

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 3, "maximum": 9},
                "mode": {"type": "string", "enum": ["on", "off"]},
                "maybe": {"type": "string", "nullable": True},
                "port": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "n": {"type": "integer", "default": 1}},
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    },
}


def crd(*versions: str, **extra: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rigs.walk.example.com"},
        "spec": {
            "group": "walk.example.com",
            "scope": "Namespaced",
            "names": {"plural": "rigs", "kind": "Rig", "singular": "rig", "listKind": "RigList"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[0],
                    "schema": {"openAPIV3Schema": SCHEMA},
                    "subresources": {"status": {}},
                    "selectableFields": [{"jsonPath": ".spec.mode"}],
                    "additionalPrinterColumns": [{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}],
                }
                for version in versions
            ],
            **extra,
        },
    }


RIGS = "/apis/walk.example.com/v1/namespaces/default/rigs"


def rig(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


@walk
async def test_a_custom_resource():
    async with InMemory(APIServer(serve=[Served(parse(crd("v1")))])) as api:
        spec = {"maybe": None, "mode": None, "port": "http", "free": {"x": [None]}, "items": [{"name": "i"}], "junk": 1}
        tree = await made(api, RIGS, {**rig(**spec), "status": {"ready": True}})
        items = [{"name": "i", "n": 1}]
        assert tree["spec"] == {"size": 3, "maybe": None, "port": "http", "free": {"x": [None]}, "items": items}
        assert "junk" not in tree["spec"]
        assert "status" not in tree
        assert tree["metadata"]["generation"] == 1
        status = await api.patch(RIGS + "/a/status", {"metadata": {"labels": {"a": "b"}}, "status": {"ready": True}})
        assert status.json["status"] == {"ready": True}
        assert "labels" not in status.json["metadata"]
        assert status.json["metadata"]["generation"] == 1
        changed = await api.patch(RIGS + "/a", {"spec": {"mode": "on"}})
        assert changed.json["metadata"]["generation"] == 2
        assert len((await api.get(RIGS + "?fieldSelector=spec.mode=on")).json["items"]) == 1
        table = (await api.get(RIGS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).json
        assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Mode"]
        assert table["rows"][0]["cells"] == ["a", "on"]


@walk
async def test_every_mistake_in_a_custom_resource_is_reported():
    async with InMemory(APIServer(serve=[Served(parse(crd("v1")))])) as api:
        items = [{"name": "x"}, {"name": "x"}, {}]
        answer = await api.post(RIGS, rig(size="big", mode="maybe", port=1.5, items=items))
        assert failure(answer)[0:2] == (422, "Invalid")
        assert set(causes(answer)) >= {"spec.size", "spec.mode", "spec.items[2].name"}
        assert (await api.post(RIGS + "?fieldValidation=Strict", rig(junk=1))).status == 400
        no_spec = await api.post(RIGS, {"metadata": {"name": "n"}, "spec": []})
        assert causes(no_spec) == ["spec"]
        assert (await api.post(RIGS, {"metadata": []})).status in (400, 422)


class Webhook(Converter):
    """A conversion that has to wait."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        self.batches.append(len(trees))
        await asyncio.sleep(0.01)
        for tree in trees:
            tree["spec"]["mode"] = {"v1": "on", "v2": "off"}[to_version]
        return trees


@walk
async def test_a_conversion_that_has_to_wait():
    webhook = Webhook()
    async with InMemory(APIServer(serve=[Served(parse(crd("v1", "v2")), webhook)])) as api:
        second = RIGS.replace("/v1/", "/v2/")
        await made(api, second, rig("a"))
        assert (await api.get(RIGS + "/a")).json["spec"]["mode"] == "on"
        assert (await api.get(second + "/a")).json["spec"]["mode"] == "off"
        assert (await api.get(second)).json["items"][0]["spec"]["mode"] == "off"
        patched = await api.patch(second + "/a", {"spec": {"size": 4}})
        assert patched.json["spec"] == {"size": 4, "mode": "off"}
        async with api.watch(RIGS) as events:
            assert (await events.next())[1]["spec"]["size"] == 4
        assert (await api.delete(second + "/a")).status == 200


@walk
async def test_hooks_on_trees():
    def prepare(new: Tree, old: Tree | None, ctx: Any) -> Tree:
        new["spec"]["size"] = min(new["spec"]["size"], 5)
        return new

    def default(tree: Tree, ctx: Context) -> Tree:
        tree["spec"].setdefault("mode", "off")
        return tree

    served = Served(parse(crd("v1")), hooks=Hooks(default={"v1": default}, prepare=prepare))
    async with InMemory(APIServer(serve=[served])) as api:
        tree = await made(api, RIGS, rig(size=8))
        assert tree["spec"] == {"size": 5, "mode": "off"}
        again = await api.patch(RIGS + "/a", {"spec": {"size": 7}})
        assert again.json == tree
