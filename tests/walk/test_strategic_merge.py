"""Strategic merge patches against a whole server: who takes them, what they store, how mistakes are told."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from walk_kit import BOATS, CRATES, PORTS, boat, causes, failure, fleet, made, walk

from oarlock import APIServer, ListMap, Model, PatchReplace, Resource, Scale
from oarlock.codec import json as json_codec
from oarlock.testing.server import Answer, InMemory

STRATEGIC = "application/strategic-merge-patch+json"
GROUP = "merge.example.com"
SHIPS = f"/apis/{GROUP}/v1/namespaces/default/ships"
MERGE = {"x-kubernetes-patch-merge-key": "type", "x-kubernetes-patch-strategy": "merge"}


class Condition(Model):
    """What is the case with a ship."""

    type: str
    status: str = ""


class Mast(Model):
    """One mast."""

    name: str
    sails: int = 1


class ShipSpec(Model):
    """What a ship is to be."""

    masts: Annotated[list[Mast], ListMap("name")] = []
    crew: Annotated[list[Mast], ListMap("name"), PatchReplace] = []
    replicas: int = 1


class ShipStatus(Model):
    """What a ship is."""

    conditions: Annotated[list[Condition], ListMap("type")] = []
    replicas: int = 0


class Ship(
    Resource,
    group=GROUP,
    version="v1",
    status_subresource=True,
    scale=Scale(".spec.replicas", ".status.replicas"),
):
    """A ship with masts."""

    spec: ShipSpec
    status: ShipStatus | None = None


def harbour() -> InMemory:
    return InMemory(APIServer(serve=[Ship]))


async def merged(api: InMemory, where: str, patch: Any) -> Any:
    answer: Answer = await api.patch(where, patch, STRATEGIC)
    assert answer.status == 200, answer
    return answer.json


def masts(ship: Any) -> list[tuple[str, int]]:
    return [(mast["name"], mast["sails"]) for mast in ship["spec"]["masts"]]


@walk
async def test_items_with_a_key_are_merged_one_by_one_and_defaults_fill_new_ones():
    async with harbour() as api:
        spec = {"masts": [{"name": "fore", "sails": 3}, {"name": "main", "sails": 5}], "crew": [{"name": "a"}]}
        await made(api, SHIPS, {"metadata": {"name": "s"}, "spec": spec})
        ship = await merged(api, f"{SHIPS}/s", {"spec": {"masts": [{"name": "main", "sails": 4}, {"name": "mizzen"}]}})
        assert masts(ship) == [("fore", 3), ("main", 4), ("mizzen", 1)]
        assert ship["metadata"]["generation"] == 2
        order = [{"name": name} for name in ("mizzen", "main", "fore")]
        patch = {"$setElementOrder/masts": order, "masts": [{"name": "main", "$patch": "delete"}]}
        assert masts(await merged(api, f"{SHIPS}/s", {"spec": patch})) == [("mizzen", 1), ("fore", 3)]
        ship = await merged(api, f"{SHIPS}/s", {"spec": {"crew": [{"name": "b"}], "masts": [{"$patch": "replace"}]}})
        assert (ship["spec"]["crew"], ship["spec"].get("masts", [])) == ([{"name": "b", "sails": 1}], [])
        assert (await api.get(f"{SHIPS}/s")).json == ship


@walk
async def test_nothing_changes_when_the_patch_says_what_is():
    async with harbour() as api:
        ship = await made(api, SHIPS, {"metadata": {"name": "s"}, "spec": {"masts": [{"name": "fore"}]}})
        assert await merged(api, f"{SHIPS}/s", {"spec": {"masts": [{"name": "fore", "sails": 1}]}}) == ship
        assert await merged(api, f"{SHIPS}/s", {}) == ship


@walk
async def test_conditions_are_merged_in_status():
    async with harbour() as api:
        await made(api, SHIPS, {"metadata": {"name": "s"}, "spec": {}})
        await merged(api, f"{SHIPS}/s/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
        patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"replicas": 9}}
        ship = await merged(api, f"{SHIPS}/s/status", patch)
        assert ship["status"]["conditions"] == [{"type": "Ready", "status": "True"}]
        assert ship["spec"]["replicas"] == 1
        scale = await merged(api, f"{SHIPS}/s/scale", {"spec": {"replicas": 3}})
        assert scale["kind"] == "Scale"
        assert scale["spec"] == {"replicas": 3}


@walk
async def test_metadata_merges_owners_and_finalizers():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat(labels={"a": "1"}, finalizers=["x.example.com/a"]))
        owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name * 4} for name in ("p", "q")]
        for owner in owners:
            await merged(api, f"{BOATS}/a", {"metadata": {"ownerReferences": [owner], "labels": {owner["name"]: "1"}}})
        added = await merged(api, f"{BOATS}/a", {"metadata": {"finalizers": ["x.example.com/b"]}})
        metadata = added["metadata"]
        assert {owner["uid"] for owner in metadata["ownerReferences"]} == {"pppp", "qqqq"}
        assert metadata["labels"] == {"a": "1", "p": "1", "q": "1"}
        assert sorted(metadata["finalizers"]) == ["x.example.com/a", "x.example.com/b"]
        patch = {
            "labels": {"$patch": "replace", "only": "1"},
            "$deleteFromPrimitiveList/finalizers": ["x.example.com/a"],
            "ownerReferences": [{"uid": "pppp", "$patch": "delete"}],
        }
        metadata = (await merged(api, f"{BOATS}/a", {"metadata": patch}))["metadata"]
        assert metadata["labels"] == {"only": "1"}
        assert metadata["finalizers"] == ["x.example.com/b"]
        assert metadata["ownerReferences"] == [owners[1]]


@walk
async def test_the_patch_is_of_the_version_it_is_sent_to():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat(port="x", tags=["a"]))
        older = await merged(api, BOATS.replace("/v2/", "/v1/") + "/a", {"spec": {"harbour": "y", "tags": ["b"]}})
        assert older["spec"]["harbour"] == "y"
        newer = (await api.get(f"{BOATS}/a")).json
        assert (newer["spec"]["port"], newer["spec"]["tags"]) == ("y", ["b"])
        deep = await merged(api, f"{BOATS}/a", {"metadata": {"annotations": {"k": "v"}}, "spec": {"captain": None}})
        assert deep["metadata"]["annotations"] == {"k": "v"}


@walk
async def test_custom_resources_do_not_take_it():
    api, _ = fleet()
    async with api:
        await made(api, CRATES, {"metadata": {"name": "c"}, "spec": {"size": 1}})
        code, reason, why = failure(await api.patch(f"{CRATES}/c", {"spec": {"size": 2}}, STRATEGIC))
        assert (code, reason) == (415, "UnsupportedMediaType")
        assert "application/json-patch+json, application/merge-patch+json" in why
        assert STRATEGIC not in why


@walk
async def test_a_patch_pins_a_version():
    async with harbour() as api:
        ship = await made(api, SHIPS, {"metadata": {"name": "s"}, "spec": {}})
        version = ship["metadata"]["resourceVersion"]
        pinned = {"metadata": {"resourceVersion": version}, "spec": {"replicas": 2}}
        await merged(api, f"{SHIPS}/s", pinned)
        assert failure(await api.patch(f"{SHIPS}/s", {**pinned, "spec": {"replicas": 3}}, STRATEGIC))[0] == 409
        assert failure(await api.patch(f"{SHIPS}/absent", pinned, STRATEGIC))[0] == 404


@pytest.mark.parametrize(
    ("patch", "code", "text"),
    [
        (b"{", 400, "error decoding patch"),
        (b"[]", 400, "error decoding patch"),
        (b"", 400, "error decoding patch"),
        ({"metadata": {"$patch": "bogus"}}, 400, "unknown patch type: bogus in map: map[$patch:bogus]"),
        ({"spec": {"masts": [{"sails": 2}]}}, 400, "map: map[sails:2] does not contain declared merge key: name"),
        ({"spec": {"$setElementOrder/masts": {}}}, 400, "invalid patch format of setElementOrder list"),
        (
            {"spec": {"$setElementOrder/masts": [], "masts": [{"name": "a"}]}},
            400,
            "doesn't match $setElementOrder list",
        ),
        ({"spec": {"$setElementOrder/replicas": [1]}}, 400, "setElementOrder list: replicas is no list"),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": 1}}, 400, "invalid patch format of primitive list"),
        ({"spec": {"$retainKeys": 1}}, 400, "invalid patch format of retainKeys"),
        ({"spec": {"$retainKeys": ["crew"], "replicas": 1}}, 422, "the server rejected our request"),
        ({"spec": {"masts": [[]]}}, 422, "the server rejected our request"),
        ({"kind": "Boat"}, 400, "a patch can't change apiVersion and kind"),
        ({"$patch": "delete"}, 400, "name must be provided"),
        ({"metadata": {"name": "other"}}, 400, "the name of the object (other) does not match"),
        ({"metadata": {"finalizers": "x"}}, 422, "cannot restore slice from string"),
        (
            {"metadata": {"labels": "invalid"}},
            422,
            ' "" is invalid: patch: Invalid value: "map[metadata:map[labels:invalid]]": cannot restore map from string',
        ),
        ({"spec": 1}, 422, 'patch: Invalid value: "map[spec:1]": cannot restore struct from: int64'),
        ({"spec": {"replicas": "many"}}, 422, "cannot convert string to int"),
        ({"spec": {"replicas": 2.0}}, 200, ""),
        ({"spec": {"replicas": 2.5}}, 422, "cannot convert float64 to int"),
        ({"spec": {"$patch": "delete", "masts": 5}}, 200, ""),
        ({"spec": None}, 422, "spec: Required value"),
    ],
)
def test_what_is_wrong_is_told(patch: Any, code: int, text: str) -> None:
    @walk
    async def run() -> None:
        async with harbour() as api:
            await made(api, SHIPS, {"metadata": {"name": "s"}, "spec": {"masts": [{"name": "a"}]}})
            answer = await api.patch(f"{SHIPS}/s", patch, STRATEGIC)
            assert answer.status == code, answer
            assert text in json.dumps(answer.json, ensure_ascii=False) or text in answer.json["message"]

    run()


@walk
async def test_unknown_and_duplicate_fields_are_told_as_the_client_wishes():
    async with harbour() as api:
        await made(api, SHIPS, {"metadata": {"name": "s"}, "spec": {}})
        twice = b'{"spec":{"a":1,"replicas":1,"replicas":2}}'
        strict = await api.patch(f"{SHIPS}/s?fieldValidation=Strict", twice, STRATEGIC)
        code, _, why = failure(strict)
        assert code == 422
        assert causes(strict) == ["patch"]
        assert 'duplicate field \\"spec.replicas\\"' in why or 'duplicate field "spec.replicas"' in why
        warned = await api.patch(f"{SHIPS}/s", {"spec": {"a": 1, "$patch": "merge", "$odd": 1}}, STRATEGIC)
        assert warned.status == 200
        assert "spec.a" in warned.headers["warning"]
        assert "$odd" in str(warned.warnings)
        assert not any(key.startswith("$") for key in warned.json["spec"])


@walk
async def test_a_patch_as_deep_as_a_body_may_be_is_answered():
    async with harbour() as api:
        await made(api, SHIPS, {"metadata": {"name": "s"}, "spec": {}})
        for start, end, levels in ((b'{"a":', b"}", 199), (b"[", b"]", 198), (b'[{"a":', b"}]", 99)):
            deep = b'{"spec":' + start * levels + b"1" + end * levels + b"}"
            answer = await api.patch(f"{SHIPS}/s", deep, STRATEGIC)
            assert answer.status in (200, 400, 422), answer
            again = b'{"metadata":{"annotations":' + start * (levels - 1) + b"1" + end * (levels - 1) + b"}}"
            assert (await api.patch(f"{SHIPS}/s", again, STRATEGIC)).status in (200, 400, 422)
        too_deep = b'{"a":' * (json_codec.MAX_DEPTH + 1) + b"1" + b"}" * (json_codec.MAX_DEPTH + 1)
        assert failure(await api.patch(f"{SHIPS}/s", too_deep, STRATEGIC))[0] == 400


@walk
async def test_what_is_published_is_what_is_served():
    api, _ = fleet()
    async with api, harbour() as ships:
        v3 = (await ships.get(f"/openapi/v3/apis/{GROUP}/v1")).json
        v2 = (await ships.get("/openapi/v2")).json
        for schemas in (v3["components"]["schemas"], v2["definitions"]):
            conditions = schemas["com.example.merge.v1.ShipStatus"]["properties"]["conditions"]
            assert MERGE.items() <= conditions.items()
            assert conditions["x-kubernetes-list-type"] == "map"
            assert conditions["x-kubernetes-list-map-keys"] == ["type"]
            crew = schemas["com.example.merge.v1.ShipSpec"]["properties"]["crew"]
            assert crew["x-kubernetes-patch-strategy"] == "replace"
            assert "x-kubernetes-patch-merge-key" not in crew
        item = "/apis/merge.example.com/v1/namespaces/{namespace}/ships/{name}"
        for path in (item, f"{item}/status", f"{item}/scale"):
            assert STRATEGIC in v3["paths"][path]["patch"]["requestBody"]["content"]
            assert STRATEGIC in v2["paths"][path]["patch"]["consumes"]
        crates = (await api.get("/openapi/v3/apis/walk.example.com/v1")).json["paths"]
        taken = {path: set(of["patch"]["requestBody"]["content"]) for path, of in crates.items() if "patch" in of}
        assert STRATEGIC not in taken[CRATES.replace("default", "{namespace}") + "/{name}"]
        assert STRATEGIC in taken[PORTS + "/{name}"]
