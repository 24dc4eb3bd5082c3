"""Writes where two rules meet: what is no patch, owners in versions that say little, entries that own nothing."""

from __future__ import annotations

import json

import pytest
from apply_kit import (
    APPLY,
    JSON_PATCH,
    MERGE,
    OLD_ONE,
    ONE,
    STRATEGIC,
    V1,
    V1BETA1,
    apply,
    barge,
    canal,
    entries,
    owned,
    send,
)
from walk_kit import BOATS, CRATES, boat, catalog, causes, failure, fleet, made, walk

from oarlock.registry.served import Served
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition

UNKNOWN = "the body of the request was in an unknown format - accepted media types include: "
NO_OBJECT = "error decoding patch: expected an object, got {}"


@pytest.mark.parametrize("media", ["", "application/json", "text/plain", "nonsense"])
def test_what_is_no_patch_at_all_is_told_which_patches_a_custom_resource_takes(media: str) -> None:
    @walk
    async def run() -> None:
        api, _ = fleet()
        async with api:
            await made(api, CRATES, {"metadata": {"name": "c"}, "spec": {"size": 1}})
            code, reason, message = failure(await api.patch(f"{CRATES}/c", {}, media))
            assert (code, reason) == (415, "UnsupportedMediaType")
            assert message == UNKNOWN + f"{JSON_PATCH}, {MERGE}, {APPLY}, application/apply-patch+cbor"
            await made(api, BOATS, boat("a"))
            answer = await api.patch(f"{BOATS}/a", {}, media)
            assert failure(answer) == (415, "UnsupportedMediaType", "415: Unsupported Media Type")

    run()


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"null", "null"), (b"[]", "an array"), (b'"x"', "a string"), (b"1", "a number"), (b"true", "true")],
)
def test_a_merge_patch_that_is_no_object_says_what_it_is(body: bytes, kind: str) -> None:
    @walk
    async def run() -> None:
        api, _ = fleet()
        async with api:
            await made(api, BOATS, boat("a"))
            for where in (f"{BOATS}/a", f"{BOATS}/a/status"):
                for media in (MERGE, STRATEGIC):
                    answer = await api.patch(where, body, media)
                    assert failure(answer) == (400, "BadRequest", NO_OBJECT.format(kind))

    run()


@walk
async def test_what_an_applier_drops_along_with_a_version_that_says_little_goes():
    api, _, _ = canal()
    async with api:
        await apply(api, {"replicas": 1, "notes": {"a": "1"}}, "other")
        await send(api, barge({"load": "coal", "captain": "Anna"}, api_version=V1BETA1), "m", OLD_ONE)
        tree = await apply(api, {"captain": "Anna"}, "m")
        assert tree["spec"] == {"cargo": "", "captain": "Anna", "replicas": 1, "notes": {"a": "1"}}
        assert owned(tree, "m") == {"spec.captain"}
        assert owned(tree, "other") == {"spec.replicas", "spec.notes.a"}


@walk
async def test_what_somebody_else_applies_in_another_version_stays():
    api, _, _ = canal()
    async with api:
        await apply(api, {"replicas": 1, "cargo": "coal"}, "other")
        await send(api, barge({"load": "coal", "captain": "Anna"}, api_version=V1BETA1), "m", OLD_ONE)
        tree = await apply(api, {"notes": {"a": "1"}}, "m")
        assert tree["spec"] == {"cargo": "coal", "replicas": 1, "notes": {"a": "1"}}


@walk
async def test_an_entry_that_owns_nothing_is_gone_after_the_write_that_brought_it():
    api, _, _ = canal()
    async with api:
        await apply(api, {"cargo": "coal"}, "m")
        empty = {"manager": "idle", "operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV1", "fieldsV1": {}}
        sent = [*(await api.get(ONE)).json["metadata"]["managedFields"], empty]
        answer = await api.patch(f"{ONE}?fieldManager=p", {"metadata": {"managedFields": sent}}, MERGE)
        assert answer.status == 200
        assert entries(answer.json) == [("m", "Apply")]


@walk
async def test_an_integer_with_a_fraction_of_zero_is_read_back_without_it():
    api, _ = fleet()
    async with api:
        answer = await api.post(CRATES, b'{"metadata":{"name":"c"},"spec":{"size":5.0}}')
        assert answer.status == 201
        for where in (f"{CRATES}/c", CRATES):
            assert b'"size":5}' in (await api.get(where)).body
        answer = await api.patch(f"{CRATES}/c", b'{"spec":{"size":5e0}}', MERGE)
        assert answer.json["metadata"]["generation"] == 1
        answer = await api.patch(f"{CRATES}/c", [{"op": "replace", "path": "/spec/size", "value": 6.0}], JSON_PATCH)
        assert b'"size":6}' in answer.body
        numbers = b'{"spec":{"free":{"n":7.0,"m":[1e3,2.5],"text":"8.0]","less":"<"}}}'
        stored = b'"free":{"less":"\\u003c","m":[1000,2.5],"n":7,"text":"8.0]"}'
        for where in (f"{CRATES}/c?dryRun=All", f"{CRATES}/c"):
            assert stored in (await api.patch(where, numbers, MERGE)).body
        for where in (f"{CRATES}/c", CRATES):
            assert stored in (await api.get(where)).body


@walk
async def test_owners_cannot_be_applied_to_a_scale_either():
    api, _, _ = canal()
    async with api:
        await apply(api, {"replicas": 1}, "m")
        scale = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "one", "managedFields": []},
            "spec": {"replicas": 1},
        }
        answer = await send(api, scale, "m", f"{ONE}/scale")
        assert failure(answer) == (400, "BadRequest", "metadata.managedFields must be nil")


OWNER = {"apiVersion": "v1", "kind": "Fleet", "name": "f", "uid": "1"}
TWICE = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


@pytest.mark.parametrize("where", [BOATS, CRATES])
def test_an_owner_that_is_named_twice_is_kept_once_and_the_client_is_told(where: str) -> None:
    spec = boat("a")["spec"] if where == BOATS else {"size": 1}
    other, controller = {**OWNER, "uid": "2"}, {**OWNER, "controller": False}

    @walk
    async def run() -> None:
        api, _ = fleet()
        async with api:
            owners = [OWNER, other, OWNER, controller, OWNER, other]
            body = {"metadata": {"name": "a", "ownerReferences": owners}, "spec": spec}
            answer = await api.post(where, body)
            assert answer.json["metadata"]["ownerReferences"] == [OWNER, other, controller]
            assert answer.warnings == [TWICE.format("", "1, 1, 2")]
            tree = answer.json
            tree["metadata"]["ownerReferences"] = [other, other]
            answer = await api.put(f"{where}/a", tree)
            assert answer.json["metadata"]["ownerReferences"] == [other]
            assert answer.warnings == [TWICE.format("", "2")]
            answer = await api.patch(f"{where}/a", {"metadata": {"ownerReferences": [OWNER, OWNER]}}, MERGE)
            assert answer.json["metadata"]["ownerReferences"] == [OWNER]
            assert answer.warnings == [TWICE.format(" after mutating admission happens", "1")]
            again = await api.patch(f"{where}/a", {"metadata": {"ownerReferences": [OWNER]}}, MERGE)
            assert again.warnings == []
            assert again.json == answer.json

    run()


@walk
async def test_what_is_wrong_with_a_patched_object_is_said_with_all_that_the_patch_put_in():
    api, _ = fleet()
    async with api:
        for where, known in ((BOATS, {"port": "x", "crew": 1}), (CRATES, {"size": 1})):
            await made(api, where, {"metadata": {"name": "a"}, "spec": known})
            strict = f"{where}/a?fieldValidation=Strict"
            added = [{"op": "test", "path": "/spec", "value": known}, {"op": "add", "path": "/spec/odd", "value": [1]}]
            for patch, media in (({"spec": {"odd": [1]}}, MERGE), (added, JSON_PATCH)):
                answer = await api.patch(strict, patch, media)
                assert answer.status == 422
                (cause,) = answer.json["details"]["causes"]
                assert cause["field"] == "patch"
                quoted, why = cause["message"].removeprefix("Invalid value: ").rsplit('": ', 1)
                assert why == 'strict decoding error: unknown field "spec.odd"'
                assert json.loads(json.loads(quoted + '"'))["spec"] == {**known, "odd": [1]}
        answer = await api.patch(f"{BOATS}/a?fieldValidation=Strict", {"spec": {"odd": [1]}}, STRATEGIC)
        assert failure(answer)[2].startswith(' "" is invalid: patch: Invalid value: "map[spec:map[odd:[1]]]": ')
        answer = await api.patch(f"{BOATS}/a", {"spec": {"odd": [1], "crew": "many"}}, MERGE)
        assert causes(answer) == ["spec.crew"]


@walk
async def test_a_patch_can_not_rely_on_what_is_not_declared_any_more():
    api, _ = fleet()
    async with api:
        await made(api, CRATES, {"metadata": {"name": "a"}, "spec": {"size": 1, "free": {"odd": 1}}})
        await api.replace(catalog(narrow_crate()))
        tested = [
            {"op": "test", "path": "/spec/free/odd", "value": 1},
            {"op": "add", "path": "/spec/size", "value": 2},
        ]
        for query in ("?fieldValidation=Strict", ""):
            assert (await api.patch(f"{CRATES}/a{query}", tested, JSON_PATCH)).status == 422
        answer = await api.patch(f"{CRATES}/a", tested[1:], JSON_PATCH)
        assert answer.json["spec"] == {"size": 2, "free": {}}


def narrow_crate() -> Served:
    """Crates whose free part has become an object with no fields but one."""
    free = {"type": "object", "properties": {"even": {"type": "integer"}}}
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "free": free}}
    version = VersionDefinition("v1", {"type": "object", "properties": {"spec": spec}})
    names = Names("crates", "Crate")
    group = "walk.example.com"
    return Served(ResourceDefinition(group, names, "Namespaced", (version,), hub="v1", stored_as="v1", typed=False))
