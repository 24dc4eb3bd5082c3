"""Who owns a field that another version calls otherwise, where conversion is a webhook that has to be waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from apply_kit import APPLY, GROUP, V1, entries, owned
from walk_kit import failure, walk

from oarlock import APIServer, errors
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import Converter
from oarlock.registry.served import Served
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.testing.server import InMemory

V2 = f"{GROUP}/v2"
ONE_V1 = f"/apis/{V1}/namespaces/default/lamps/one"
ONE_V2 = f"/apis/{V2}/namespaces/default/lamps/one"


class Webhook(Converter):
    """v2 calls the colour the hue. It never answers at once, and refuses what is black."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, str]] = []

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        self.batches.append((len(trees), to_version))
        await asyncio.sleep(0.01)
        old, new = ("hue", "colour") if to_version == "v1" else ("colour", "hue")
        for tree in trees:
            assert tree["apiVersion"] == f"{GROUP}/{from_version}"
            assert tree["kind"] == "Lamp"
            spec = tree.get("spec") or {}
            if old in spec:
                spec[new] = spec.pop(old)
            if to_version == "v3" and spec.get("hue") == "black":
                raise errors.InternalError("conversion webhook failed: no light")
        return trees


def lamps() -> tuple[InMemory, Webhook]:
    def schema(colour: str) -> dict[str, Any]:
        fields = {colour: {"type": "string"}, "watts": {"type": "integer"}}
        return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}

    versions = (
        VersionDefinition("v1", schema("colour")),
        VersionDefinition("v2", schema("hue")),
        VersionDefinition("v3", schema("hue")),
    )
    names = Names("lamps", "Lamp")
    definition = ResourceDefinition(GROUP, names, "Namespaced", versions, hub="v1", stored_as="v1", typed=False)
    webhook = Webhook()
    return InMemory(APIServer(serve=[Served(definition, webhook)])), webhook


def lamp(version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Lamp", "metadata": {"name": "one"}, "spec": spec}


async def apply(api: InMemory, version: str, manager: str, query: str = "", **spec: Any) -> Any:
    where = f"/apis/{GROUP}/{version}/namespaces/default/lamps/one?fieldManager={manager}{query}"
    return await api.patch(where, lamp(version, **spec), APPLY)


@walk
async def test_an_update_in_another_version_takes_the_field_under_its_other_name():
    api, webhook = lamps()
    async with api:
        assert (await apply(api, "v2", "m", hue="red", watts=5)).status == 201
        webhook.batches.clear()
        tree = (await api.patch(f"{ONE_V1}?fieldManager=other", {"spec": {"colour": "blue"}})).json
        assert webhook.batches == [(2, "v2")]
        assert owned(tree, "m") == {"spec.watts"}
        assert owned(tree, "other", "Update") == {"spec.colour"}


@pytest.mark.parametrize("media", ["application/json-patch+json", "application/merge-patch+json"])
def test_what_does_not_change_keeps_its_owner(media: str) -> None:
    @walk
    async def check():
        api, _ = lamps()
        async with api:
            await apply(api, "v2", "m", hue="red")
            say: Any = {"spec": {"watts": 3}}
            if media.startswith("application/json-patch"):
                say = [{"op": "add", "path": "/spec/watts", "value": 3}]
            tree = (await api.patch(f"{ONE_V1}?fieldManager=other", say, media)).json
            assert owned(tree, "m") == {"spec.hue"}
            assert owned(tree, "other", "Update") == {"spec.watts"}

    check()


@walk
async def test_a_conflict_is_told_in_the_words_of_the_owners_version():
    api, webhook = lamps()
    async with api:
        await apply(api, "v2", "m", hue="red", watts=5)
        webhook.batches.clear()
        answer = await apply(api, "v1", "other", colour="blue")
        assert failure(answer)[::2] == (409, 'Apply failed with 1 conflict: conflict with "m": .spec.hue')
        assert webhook.batches == [(1, "v2"), (1, "v2")]
        assert (await apply(api, "v1", "other", colour="red")).status == 200
        tree = (await apply(api, "v1", "other", "&force=true", colour="blue")).json
        assert (owned(tree, "m"), owned(tree, "other")) == ({"spec.watts"}, {"spec.colour"})


@walk
async def test_a_manager_that_moves_to_another_version_loses_what_it_drops():
    api, _ = lamps()
    async with api:
        await apply(api, "v2", "m", hue="red", watts=5)
        tree = (await apply(api, "v1", "m", watts=5)).json
        assert tree["spec"] == {"watts": 5}
        assert entries(tree) == [("m", "Apply")]
        assert tree["metadata"]["managedFields"][0]["apiVersion"] == V1


@walk
async def test_what_another_version_still_owns_is_not_dropped():
    api, _ = lamps()
    async with api:
        await apply(api, "v2", "m", hue="red", watts=5)
        await apply(api, "v1", "n", colour="red")
        tree = (await apply(api, "v2", "m", watts=5)).json
        assert tree["spec"] == {"hue": "red", "watts": 5}
        assert owned(tree, "n") == {"spec.colour"}
        tree = (await apply(api, "v3", "n", watts=5)).json
        assert tree["spec"] == {"watts": 5}


@walk
async def test_applying_the_same_again_in_another_version_changes_nothing():
    api, _ = lamps()
    async with api:
        await apply(api, "v2", "m", hue="red")
        first = (await apply(api, "v1", "n", colour="red")).json
        again = (await apply(api, "v1", "n", colour="red")).json
        assert again == first


@walk
async def test_a_create_may_bring_owners_of_another_version():
    api, _ = lamps()
    async with api:
        entry = {
            "manager": "before",
            "operation": "Update",
            "apiVersion": V2,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:hue": {}, "f:watts": {}}},
        }
        body = lamp("v1", colour="red")
        body["metadata"]["managedFields"] = [entry]
        answer = await api.post(ONE_V1.removesuffix("/one") + "?fieldManager=m", body)
        assert answer.status == 201
        assert owned(answer.json, "m", "Update") == {"spec", "spec.colour"}
        assert owned(answer.json, "before", "Update") == {"spec.watts"}


@walk
async def test_a_conversion_that_fails_refuses_an_apply_and_leaves_the_owners_of_an_update():
    api, _ = lamps()
    async with api:
        assert (await apply(api, "v3", "m", hue="red")).status == 201
        refused = await apply(api, "v1", "n", "&force=true", colour="black")
        assert failure(refused)[0] == 500
        assert "no light" in failure(refused)[2]
        answer = await api.patch(f"{ONE_V1}?fieldManager=n", {"spec": {"colour": "black"}})
        assert answer.status == 200
        assert entries(answer.json) == [("m", "Apply")]
        assert (await api.get(ONE_V2)).json["spec"] == {"hue": "black"}
