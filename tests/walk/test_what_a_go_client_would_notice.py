"""Small things in which answers once differed from a Kubernetes API server's, each as a client would see it."""

from __future__ import annotations

import json
from typing import Any

from walk_kit import BOATS, BOATS_V1, PORTS, boat, causes, failure, fleet, made, path, walk

MERGE = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
AS_JSON = {"content-type": "application/json"}


@walk
async def test_delete_options_of_a_wrong_type_delete_nothing():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        for options in (
            {"kind": "DeleteOptions", "apiVersion": True},
            {"kind": "DeleteOptions", "apiVersion": {"v": 1}},
            {"kind": 5, "apiVersion": "v1"},
            {"kind": ["DeleteOptions"]},
        ):
            for where in (BOATS + "/a", BOATS):
                answer = await api.request("DELETE", where, options, headers=AS_JSON)
                assert failure(answer)[:2] == (400, "BadRequest"), options
        assert (await api.get(BOATS + "/a")).status == 200


@walk
async def test_delete_options_that_say_nothing_are_none():
    api, _ = fleet()
    async with api:
        for body in (b'{"kind":"","apiVersion":"v1"}', b'{"kind":null}', b"null", b" null\n"):
            await made(api, BOATS, boat())
            assert (await api.request("DELETE", BOATS + "/a", body, headers=AS_JSON)).status == 200, body


@walk
async def test_a_body_whose_kind_or_version_is_no_text_is_refused():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat())
        for wrong in (False, 0, [], {}, 1.5, ["Boat"]):
            for field in ("kind", "apiVersion"):
                assert failure(await api.post(BOATS, {**boat("b"), field: wrong}))[:2] == (400, "BadRequest")
                assert failure(await api.put(BOATS + "/a", {**tree, field: wrong}))[:2] == (400, "BadRequest")
        assert (await api.post(BOATS, {**boat("b"), "kind": None, "apiVersion": ""})).status == 201


@walk
async def test_a_client_cannot_set_the_deletion_timestamp():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat())
        mark = {"deletionTimestamp": "2020-01-01T00:00:00Z"}
        put = await api.put(BOATS + "/a", {**tree, "metadata": {**tree["metadata"], **mark}})
        merged = await api.patch(BOATS + "/a", {"metadata": mark})
        config = {"apiVersion": "walk.example.com/v2", "kind": "Boat", "metadata": {"name": "a", **mark}}
        applied = await api.request("PATCH", BOATS + "/a?fieldManager=m", config, headers=APPLY)
        for answer in (put, merged, applied):
            assert answer.status == 422
            assert causes(answer) == ["metadata.deletionTimestamp"]
            assert "field is immutable" in answer.json["message"]
        assert (await api.get(BOATS + "/a")).json == tree
        # on create it is dropped, as every field that only the server sets
        assert (
            "deletionTimestamp"
            not in (await made(api, BOATS, {**boat("b"), "metadata": {"name": "b", **mark}}))["metadata"]
        )


@walk
async def test_an_object_that_is_being_deleted_keeps_its_mark_whatever_an_update_says():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat(finalizers=["x.io/f"]))
        marked = (await api.delete(BOATS + "/a")).json
        for given in (None, "2020-01-01T00:00:00Z"):
            answer = await api.patch(BOATS + "/a", {"metadata": {"deletionTimestamp": given, "labels": {"a": "b"}}})
            assert answer.status == 200
            assert answer.json["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]


@walk
async def test_gzip_that_is_refused_is_not_used():
    api, _ = fleet()
    async with api:
        for i in range(3):
            await made(api, PORTS, {"metadata": {"name": f"p{i}"}, "note": "x" * 100_000})
        for accepted, coded in (
            ("gzip", True),
            ("br, gzip;q=0.5", True),
            ("identity, GZIP ; Q=1", True),
            ("gzip;q=0", False),
            ("gzip; q=0.000, identity", False),
            ("x-gzip", False),
            ("gzip;q=nonsense", True),
        ):
            answer = await api.request("GET", PORTS, headers={"accept-encoding": accepted})
            assert ("content-encoding" in dict(answer.headers)) is coded, accepted


@walk
async def test_warnings_name_strange_fields_in_headers_that_can_be_read():
    api, _ = fleet()
    async with api:
        body = {**boat(), "\u00e9": 1}
        body["spec"] |= {'c"d': 1, "a\nb": 2, "back\\slash": 3}
        answer = await api.post(BOATS, body)
        assert answer.status == 201
        assert sorted(answer.warnings) == [
            r'unknown field "spec.a\nb"',
            r'unknown field "spec.back\\slash"',
            r'unknown field "spec.c\"d"',
            'unknown field "\u00e9"',
        ]
        twice = b'{"metadata":{"name":"b"},"spec":{"port":"x","a\\"b":1,"a\\"b":2}}'
        answer = await api.request("POST", BOATS, twice, headers=AS_JSON)
        assert answer.warnings == [r'unknown field "spec.a\"b"']


@walk
async def test_a_taken_name_beside_a_generate_name_may_be_tried_again():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        answer = await api.post(BOATS, boat(generateName="gen-"))
        assert failure(answer)[:2] == (409, "AlreadyExists")
        assert "the server was not able to generate a unique name for the object" in answer.json["message"]
        assert answer.json["details"]["retryAfterSeconds"] == 1
        assert dict(answer.headers)["retry-after"] == "1"
        plain = await api.post(BOATS, boat())
        assert "retry-after" not in dict(plain.headers)


@walk
async def test_an_apply_that_creates_names_its_object():
    api, _ = fleet()
    async with api:
        config: dict[str, Any] = {"apiVersion": "walk.example.com/v2", "kind": "Boat", "metadata": {}}
        config["spec"] = {"port": "x"}
        missing = await api.request("PATCH", BOATS + "/a?fieldManager=m", config, headers=APPLY)
        assert failure(missing)[:2] == (400, "BadRequest")
        assert "name must be provided" in missing.json["message"]
        config["metadata"] = {"name": "a"}
        assert (await api.request("PATCH", BOATS + "/a?fieldManager=m", config, headers=APPLY)).status == 201
        config["metadata"] = {}
        assert (await api.request("PATCH", BOATS + "/a?fieldManager=m", config, headers=APPLY)).status == 200


@walk
async def test_a_status_is_json_for_a_client_that_only_says_what_it_sends():
    api, _ = fleet()
    async with api:
        for media in ("application/vnd.kubernetes.protobuf", "application/cbor"):
            answer = await api.request("POST", BOATS, b"x", headers={"content-type": media})
            assert dict(answer.headers)["content-type"] == "application/json"
            assert json.loads(answer.body)["kind"] == "Status"


@walk
async def test_a_patch_may_remove_what_the_url_says_anyway():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        merged = await api.patch(BOATS + "/a", {"kind": None, "metadata": {"labels": {"a": "b"}}})
        assert (merged.status, merged.json["kind"], merged.json["metadata"]["labels"]) == (200, "Boat", {"a": "b"})
        for where in ("/kind", "/apiVersion"):
            removed = await api.request("PATCH", BOATS + "/a", [{"op": "remove", "path": where}], headers=JSON_PATCH)
            assert (removed.status, removed.json["apiVersion"]) == (200, "walk.example.com/v2")
        for change in ({"kind": "Port"}, {"kind": 5}, {"apiVersion": "walk.example.com/v1"}):
            assert failure(await api.patch(BOATS + "/a", change))[:2] == (400, "BadRequest")


@walk
async def test_a_watch_for_two_names_at_once_sees_nothing():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        both = BOATS_V1 + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name=a,metadata.name=b"
        async with api.watch(both) as events:
            assert events.pending() == []


@walk
async def test_a_path_below_a_served_version_that_names_nothing_is_answered_with_a_status():
    api, _ = fleet()
    async with api:
        for where in (BOATS + "/%00", "/apis/walk.example.com/v2//boats", BOATS + "//x"):
            assert failure(await api.get(where))[:2] == (404, "NotFound"), where
        assert "paths" in (await api.get("/apis/unknown.example.com/v1/x/%00")).json
        anywhere = path("boats", "a", namespace="")
        assert failure(await api.request("OPTIONS", anywhere))[:2] == (404, "NotFound")
        assert failure(await api.request("OPTIONS", BOATS))[:2] == (405, "MethodNotAllowed")


@walk
async def test_a_watch_from_a_zero_of_many_digits_gets_no_bookmark_it_did_not_ask_for():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        async with api.watch(BOATS + "?resourceVersion=00&allowWatchBookmarks=true") as events:
            assert [kind for kind, _ in events.pending()] == ["ADDED"]


@walk
async def test_an_object_of_another_namespace_is_refused_alike_by_create_and_update():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat())
        wrong = {**tree, "metadata": {**tree["metadata"], "namespace": "zz"}}
        text = "the namespace of the provided object does not match the namespace sent on the request"
        assert failure(await api.put(BOATS + "/a", wrong)) == (400, "BadRequest", text)
        del wrong["metadata"]["resourceVersion"]
        assert failure(await api.post(BOATS, wrong)) == (400, "BadRequest", text)
