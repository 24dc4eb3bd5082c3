"""POST: what the server sets and takes away, what it refuses, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from walk_kit import BOATS, BOATS_V1, CRATES, PORTS, boat, causes, failure, fleet, made, path, walk

from oarlock.meta.names import ALPHABET

STRICT = "?fieldValidation=Strict"


@walk
async def test_the_servers_part_of_metadata_is_the_servers():
    api, _ = fleet()
    async with api:
        body = boat()
        body["metadata"] |= {
            "uid": "mine",
            "creationTimestamp": "2001-01-01T00:00:00Z",
            "deletionTimestamp": "2001-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 7,
            "selfLink": "/x",
            "generation": 99,
            "resourceVersion": "0",
        }
        body["status"] = {"atSea": True}
        tree = await made(api, BOATS, body)
        metadata = tree["metadata"]
        assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
        assert len(metadata["uid"]) == 36
        assert metadata["generation"] == 1
        assert metadata["namespace"] == "default"
        kept = {"name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion", "managedFields"}
        assert set(metadata) == kept
        assert "status" not in tree
        assert (await api.get(BOATS + "/a")).json == tree


@walk
async def test_a_kind_without_generation_has_none():
    api, _ = fleet()
    async with api:
        tree = await made(api, PORTS, {"metadata": {"name": "p"}})
        assert "generation" not in tree["metadata"]
        assert tree["depth"] == 5


@walk
async def test_defaults_are_those_of_the_schema_then_those_of_the_type():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat(port="home"))
        assert tree["spec"] == {"port": "rotterdam", "crew": 1}
        prepared = await made(api, BOATS, boat("b", crew=7))
        assert prepared["spec"]["ballast"] == 100


@walk
async def test_a_resource_version_is_refused_when_the_object_would_be_stored():
    api, _ = fleet()
    async with api:
        body = boat()
        body["metadata"]["resourceVersion"] = "5"
        answer = await api.post(BOATS, body)
        assert failure(answer) == (500, "", "resourceVersion should not be set on objects to be created")
        assert (await api.get(f"{BOATS}/a")).status == 404
        invalid = boat(crew=-1)
        invalid["metadata"]["resourceVersion"] = "5"
        assert (await api.post(BOATS, invalid)).status == 422
        dry = await api.post(f"{BOATS}?dryRun=All", body)
        assert (dry.status, dry.json["metadata"]["resourceVersion"]) == (201, "5")


@walk
@pytest.mark.parametrize("version", ["0", "", "v1", "-5", "5 ", "\u0665", "000", "9" * 5000])
async def test_a_resource_version_that_no_store_has_given_out_is_ignored(version: str):
    api, _ = fleet()
    async with api:
        body = boat()
        body["metadata"]["resourceVersion"] = version
        stored = await made(api, BOATS, body)
        assert stored["metadata"]["resourceVersion"].isdecimal()
        assert (await api.get(f"{BOATS}/a")).json == stored


@walk
async def test_the_namespace_of_the_url_decides():
    api, _ = fleet()
    async with api:
        body = boat()
        body["metadata"]["namespace"] = "other"
        why = "the namespace of the provided object does not match the namespace sent on the request"
        assert failure(await api.post(BOATS, body)) == (400, "BadRequest", why)
        port = {"metadata": {"name": "p", "namespace": "ignored"}}
        assert "namespace" not in (await made(api, PORTS, port))["metadata"]
        assert (await api.post(path("boats", namespace=""), boat())).status == 405
        answer = await api.post(path("boats", namespace="Not_Valid"), boat())
        assert causes(answer) == ["metadata.namespace"]


@walk
async def test_the_same_name_twice():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        answer = await api.post(BOATS, boat())
        assert failure(answer) == (409, "AlreadyExists", 'boats.walk.example.com "a" already exists')
        assert answer.json["details"] == {"name": "a", "group": "walk.example.com", "kind": "boats"}
        assert (await api.post(BOATS + "?dryRun=All", boat())).status == 409


@walk
async def test_a_name_that_is_still_being_deleted_is_taken_and_says_so():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat(finalizers=["x.io/f"]))
        await api.delete(BOATS + "/a")
        why = 'object is being deleted: boats.walk.example.com "a" already exists'
        assert failure(await api.post(BOATS, boat()))[2] == why
        assert failure(await api.post(BOATS + "?dryRun=All", boat()))[2] == why


@walk
async def test_a_generated_name_is_the_base_and_five_characters():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat("", generateName="x" * 70))
        name = tree["metadata"]["name"]
        assert name[:58] == "x" * 58
        assert len(name) == 63
        assert set(name[58:]) <= set(ALPHABET)


@walk
async def test_a_generated_name_that_is_taken_is_generated_again_eight_times():
    api, _ = fleet()
    async with api:
        live = api.parts.resources.live
        resource: Any = live.resources["walk.example.com", "boats"]
        rolls: list[int] = []

        def random(size: int) -> bytes:
            rolls.append(size)
            return bytes([0 if sum(s == 5 for s in rolls) < 3 else 1]) * size

        object.__setattr__(resource.settings, "random", random)
        first = await made(api, BOATS, boat("", generateName="n-"))
        second = await made(api, BOATS, boat("", generateName="n-"))
        assert first["metadata"]["name"] == "n-bbbbb"
        assert second["metadata"]["name"] == "n-ccccc"
        object.__setattr__(resource.settings, "random", lambda size: bytes(size))
        answer = await api.post(BOATS, boat("", generateName="n-"))
        code, reason, why = failure(answer)
        assert (code, reason) == (409, "AlreadyExists")
        assert why.endswith(", the server was not able to generate a unique name for the object")
        assert answer.headers["retry-after"] == "1"


@walk
async def test_neither_a_name_nor_a_base_for_one():
    api, _ = fleet()
    async with api:
        answer = await api.post(BOATS, boat(""))
        assert failure(answer)[0] == 422
        assert answer.json["details"]["causes"][0] == {
            "reason": "FieldValueRequired",
            "message": "Required value: name or generateName is required",
            "field": "metadata.name",
        }


@walk
async def test_a_dry_run_stores_nothing_and_has_no_resource_version():
    api, backend = fleet()
    async with api:
        before = await backend.current_rev()
        answer = await api.post(BOATS + "?dryRun=All", boat("", generateName="g-"))
        metadata = answer.json["metadata"]
        assert answer.status == 201
        assert metadata["name"].startswith("g-")
        assert metadata["uid"]
        assert "resourceVersion" not in metadata
        assert await backend.current_rev() == before
        assert (await api.get(BOATS)).json["items"] == []


@walk
async def test_every_mistake_is_reported_at_once_with_its_path():
    api, _ = fleet()
    async with api:
        body = boat("Bad_Name", port="lake", crew=11, labels={"-": "x y"})
        answer = await api.post(BOATS, body)
        assert failure(answer)[0:2] == (422, "Invalid")
        assert causes(answer) == [
            "metadata.name", "metadata.labels", "metadata.labels", "spec.crew", "spec.port",
        ]  # fmt: skip
        assert answer.json["details"]["kind"] == "Boat"


@walk
async def test_a_required_field_that_is_missing_hides_no_other_mistake():
    api, _ = fleet()
    async with api:
        for where in (BOATS, BOATS_V1, path("boats", version="v1alpha1")):
            answer = await api.post(where, {"metadata": {"name": "Bad_Name"}})
            assert causes(answer) == ["metadata.name", "spec"], where
            answer = await api.post(where, {"metadata": {"name": "Bad_Name"}, "spec": {}})
            field = "spec.port" if where == BOATS else "spec.harbour"
            assert causes(answer) == ["metadata.name", field], where


@walk
async def test_a_wrong_type_is_400_for_a_type_and_422_for_a_custom_resource():
    api, _ = fleet()
    async with api:
        code, reason, why = failure(await api.post(BOATS, boat(crew="many")))
        assert (code, reason) == (400, "BadRequest")
        assert why == 'Boat in version "v2" cannot be handled as a Boat: spec.crew: expected an integer, got a string'
        answer = await api.post(CRATES, {"metadata": {"name": "c"}, "spec": {"size": "big", "colour": "green"}})
        assert failure(answer)[0] == 422
        assert sorted(causes(answer)) == ["spec.colour", "spec.size"]
        answer = await api.post(CRATES, {"metadata": {"name": "c"}})
        assert answer.status == 201


@walk
async def test_values_of_wrong_types_hide_no_other_mistake():
    api, _ = fleet()
    async with api:
        body = {"metadata": {"name": "a", "labels": []}, "spec": {"crew": 99, "tags": [1, "b", True], "odd": 1}}
        answer = await api.post(BOATS, body)
        assert failure(answer) == (
            400,
            "BadRequest",
            'Boat in version "v2" cannot be handled as a Boat: metadata.labels: expected an object, got an array, '
            "spec.tags[0]: expected a string, got a number, spec.tags[2]: expected a string, got true, "
            "spec.crew: Invalid value: 99: spec.crew in body should be less than or equal to 10, "
            "spec.port: Required value",
        )
        fields = ["metadata.labels", "spec.tags[0]", "spec.tags[2]", "spec.crew", "spec.port"]
        assert causes(answer) == fields
        assert answer.json["details"]["causes"][1] == {
            "reason": "FieldValueTypeInvalid",
            "message": "expected a string, got a number",
            "field": "spec.tags[0]",
        }
        strict = await api.post(BOATS + STRICT, body)
        assert failure(strict)[2].endswith('spec.port: Required value, unknown field "spec.odd"')
        await made(api, BOATS, boat())
        patched = await api.patch(f"{BOATS}/a", {"metadata": {"labels": []}, "spec": {"crew": 99, "tags": [1]}})
        assert patched.status == 422
        assert causes(patched) == ["metadata.labels", "spec.tags[0]", "spec.crew"]
        assert failure(patched)[2].startswith('Boat.walk.example.com "a" is invalid: [metadata.labels: expected an ')


@walk
async def test_unknown_fields_are_ignored_warned_of_or_refused():
    api, _ = fleet()
    async with api:
        body = boat(flag="red") | {"extra": 1}
        answer = await api.post(BOATS, body)
        assert answer.status == 201
        assert "flag" not in answer.json["spec"]
        assert answer.headers["warning"].count("299 - ") == 2
        assert 'unknown field \\"spec.flag\\"' in answer.headers["warning"]
        quiet = await api.post(BOATS + "?fieldValidation=Ignore", body | {"metadata": {"name": "b"}})
        assert quiet.status == 201
        assert "warning" not in quiet.headers
        code, _, why = failure(await api.post(BOATS + STRICT, body))
        assert code == 400
        assert why == (
            'Boat in version "v2" cannot be handled as a Boat: strict decoding error: '
            'unknown field "spec.flag", unknown field "extra"'
        )


@walk
async def test_duplicate_fields_in_json_and_yaml():
    api, _ = fleet()
    async with api:
        twice = b'{"metadata":{"name":"a"},"spec":{"port":"x","port":"y"}}'
        code, _, why = failure(await api.post(BOATS + STRICT, twice))
        assert code == 400
        assert why.endswith('strict decoding error: duplicate field "spec.port"')
        yaml = b"metadata: {name: a}\nspec:\n  port: oslo\n  port: bergen\n"
        refused = await api.post(BOATS + STRICT, yaml, content_type="application/yaml")
        assert 'key "port" already set in map' in failure(refused)[2]
        warned = await api.post(BOATS + "?dryRun=All", yaml, content_type="application/yaml")
        assert "already set in map" in warned.headers["warning"]
        answer = await api.post(BOATS, twice)
        assert answer.json["spec"]["port"] == "y"
        assert 'duplicate field \\"spec.port\\"' in answer.headers["warning"]


@walk
async def test_objects_given_twice_are_merged_as_into_a_go_struct():
    api, _ = fleet()
    async with api:
        twice = (
            b'{"metadata":{"name":"%s","labels":{"a":"b"},"labels":{"c":"d"}},'
            b'"spec":{"port":"x"},"metadata":{"annotations":{"n":"\\ud800"}}}'
        )
        for name, validation in ((b"a", ""), (b"b", "?fieldValidation=Ignore")):
            answer = await api.post(BOATS + validation, twice % name)
            assert answer.status == 201
            assert answer.json["metadata"]["name"] == name.decode()
            assert answer.json["metadata"]["labels"] == {"a": "b", "c": "d"}
            assert answer.json["metadata"]["annotations"] == {"n": "\ufffd"}
            assert ("warning" in answer.headers) is not bool(validation)
        untyped = b'{"metadata":{"name":"c","labels":{"a":"b"},"labels":{"c":"d"}},"spec":{"size":3}}'
        crate = await api.post(CRATES, untyped)
        assert crate.json["metadata"]["labels"] == {"c": "d"}  # what a CRD declares is no struct


@walk
async def test_yaml_in_and_yaml_out():
    api, _ = fleet()
    async with api:
        yaml = b"apiVersion: walk.example.com/v2\nkind: Boat\nmetadata:\n  name: a\nspec:\n  port: 'yes'\n"
        answer = await api.post(BOATS, yaml, content_type="application/yaml", accept="application/yaml")
        assert answer.status == 201
        assert answer.headers["content-type"] == "application/yaml"
        assert b'port: "yes"' in answer.body or b"port: 'yes'" in answer.body


@walk
async def test_bodies_of_another_kind_or_version():
    api, _ = fleet()
    async with api:
        other = boat() | {"apiVersion": "walk.example.com/v1", "kind": "Boat"}
        why = (
            "the API version in the data (walk.example.com/v1) does not match the expected API version "
            "(walk.example.com/v2)"
        )
        assert failure(await api.post(BOATS, other)) == (400, "BadRequest", why)
        assert (await api.post(BOATS, boat() | {"kind": "Port"})).status == 400
        assert (await api.post(BOATS, b"[]")).status == 400
        assert (await api.post(BOATS, b"")).status == 400
        assert (await api.post(BOATS, b"{")).status == 400
        assert (await api.post(BOATS, b"\xff\xfe")).status == 400
        assert (await api.post(BOATS, boat(), content_type="text/plain")).status == 415
        assert (await api.post(BOATS, boat(), accept="text/html")).status == 406


@walk
async def test_created_in_one_version_and_read_in_another():
    api, _ = fleet()
    async with api:
        old = await made(api, BOATS_V1, {"metadata": {"name": "a"}, "spec": {"harbour": "oslo", "crew": 2}})
        assert old["apiVersion"] == "walk.example.com/v1"
        new = (await api.get(BOATS + "/a")).json
        assert new["apiVersion"] == "walk.example.com/v2"
        assert new["spec"] == {"port": "oslo", "crew": 2}
        assert new["metadata"] == old["metadata"]
        answer = await api.get(path("boats", "a", version="v1alpha1"))
        assert answer.json["spec"] == {"harbour": "oslo"}
        assert "walk.example.com/v1alpha1 Boat is deprecated" in answer.headers["warning"]
