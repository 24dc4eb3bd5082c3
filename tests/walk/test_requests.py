"""What a request is before it is about an object: paths, methods, media types, sizes, a server that isn't ready."""

from __future__ import annotations

import json

import pytest
from walk_kit import ALL_BOATS, BOATS, GROUP, PORTS, boat, failure, fleet, made, path, walk

from oarlock.endpoints.http import Request
from oarlock.meta.context import Peer
from oarlock.testing.server import Answer

NO_RESOURCE = (404, "NotFound", "the server could not find the requested resource")
NO_METHOD = (405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


@walk
async def test_three_kinds_of_404():
    api, _ = fleet()
    async with api:
        for where in (path("nothings"), path("boats", "a") + "/nothing", path("ports", "x", version="v1")):
            answer = await api.get(where)
            assert failure(answer) == NO_RESOURCE, where
            assert answer.json["details"] == {}
        assert failure(await api.get(BOATS + "/x"))[2] == 'boats.walk.example.com "x" not found'
        for where in (f"/apis/{GROUP}/v9/boats", "/apis/other.io/v1/x", "/nothing", "/api/v1/pods"):
            answer = await api.get(where)
            assert answer.status == 404
            assert "paths" in answer.json


@pytest.mark.parametrize(
    ("method", "where"),
    [
        ("POST", BOATS + "/a"), ("PUT", BOATS), ("PATCH", BOATS), ("HEAD", BOATS), ("HEAD", BOATS + "/a"),
        ("OPTIONS", BOATS), ("TRACE", BOATS + "/a"), ("BREW", BOATS), ("POST", ALL_BOATS), ("DELETE", ALL_BOATS),
        ("DELETE", BOATS + "/a/status"), ("POST", BOATS + "/a/status"), ("PUT", PORTS), ("", BOATS),
    ],
)  # fmt: skip
def test_methods_that_are_not_there(method: str, where: str):
    @walk
    async def attempt() -> None:
        api, _ = fleet()
        async with api:
            assert failure(await api.request(method, where, {})) == NO_METHOD

    attempt()


@walk
async def test_ways_to_write_a_path():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        await made(api, PORTS, {"metadata": {"name": "p"}})
        for where in (
            BOATS + "/a/",
            BOATS.replace("boats", "%62oats") + "/%61",
            path("boats", "a") + "?",
            PORTS + "/p/",
        ):
            assert (await api.get(where)).status == 200, where
        for where in (
            BOATS + "//a", BOATS + "/a/status/x", BOATS + "/a%2Fstatus%2Fx", PORTS + "/p/x", "//", BOATS + "/a%00",
            f"/apis/{GROUP}/v2/boats/a", f"/apis/{GROUP}/v1/namespaces/default/ports", "/apis//v1/boats",
            f"/apis/{GROUP}/v2/namespaces//boats", BOATS + "/../boats", "/apis/" + GROUP + "/v1/namespaces/x/ports/p",
        ):  # fmt: skip
            assert (await api.get(where)).status in (404, 405), where
        for where in (BOATS + "/%zz", BOATS + "/%", BOATS + "/%ff", BOATS + "?a=%zz", BOATS + "?a;b"):
            assert failure(await api.get(where))[0:2] == (400, "BadRequest"), where


@walk
async def test_a_namespace_in_the_path_must_be_one():
    api, _ = fleet()
    async with api:
        for namespace in ("UPPER", "a_b", "a" * 64, "%2E%2E", "a.b", "-a"):
            where = path("boats", namespace=namespace)
            assert (await api.post(where, boat("a"))).status in (400, 404, 422), namespace
            assert (await api.get(where)).status in (200, 400, 404), namespace
        assert (await made(api, path("boats", namespace="any-name-1"), boat("a")))["metadata"]["namespace"]


@walk
async def test_sizes():
    api, _ = fleet()
    async with api:
        too_large = b'{"metadata":{"name":"a"},"spec":{"port":"' + b"x" * 3 * 1024 * 1024 + b'"}}'
        for answer in (
            await api.post(BOATS, too_large), await api.put(BOATS + "/a", too_large),
            await api.patch(BOATS + "/a", too_large), await api.delete(BOATS + "/a", too_large),
        ):  # fmt: skip
            assert failure(answer)[0:2] == (413, "RequestEntityTooLarge")
        annotated = boat("a", annotations={"a/b": "x" * 270_000})
        assert failure(await api.post(BOATS, annotated))[0] == 422


@walk
async def test_errors_in_the_form_that_was_asked_for():
    api, _ = fleet()
    async with api:
        yaml = await api.get(BOATS + "/x", accept="application/yaml")
        assert yaml.headers["content-type"] == "application/yaml"
        assert b"reason: NotFound" in yaml.body
        refused = await api.get(BOATS, accept="image/png")
        code, reason, why = failure(refused)
        assert (code, reason) == (406, "NotAcceptable")
        assert "application/json, application/yaml, application/vnd.kubernetes.protobuf" in why
        later = await api.get(BOATS, accept="image/png, application/json;as=Nothing;v=v1;g=x, application/*;q=0.1")
        assert later.json["kind"] == "BoatList"
        media = await api.post(BOATS, boat(), content_type="application/xml")
        assert failure(media) == (
            415, "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json, "
            "application/yaml, application/vnd.kubernetes.protobuf",
        )  # fmt: skip
        charset = await api.post(BOATS, boat("b"), content_type="application/json; charset=utf-8")
        assert charset.status == 201


@walk
async def test_every_answer_has_an_audit_id_and_its_own_if_one_came():
    api, _ = fleet()
    async with api:
        one, two = await api.get(BOATS), await api.get("/nothing")
        assert one.headers["audit-id"] != two.headers["audit-id"]
        mine = await api.get(BOATS, audit_id="3f2504e0-4f89-11d3-9a0c-0305e82c3301")
        assert mine.headers["audit-id"] == "3f2504e0-4f89-11d3-9a0c-0305e82c3301"


@walk
async def test_before_the_catalog_is_there_everything_is_told_to_come_back():
    api, _ = fleet()

    async def read() -> bytes:
        return b""

    for where in (BOATS, BOATS + "/a", "/apis", "/openapi/v2", "/nothing"):
        request = Request("GET", where, "", {}, [], Peer("127.0.0.1", 1), read, 0.0)
        response = await api._handle(request)
        assert isinstance(response.body, bytes)
        answer = Answer(response.status, dict(response.headers), response.body)
        assert failure(answer)[0] == 503, where
        assert "before all known HTTP paths have been installed" in failure(answer)[2]
        assert answer.headers["retry-after"]
    async with api:
        assert (await api.get(BOATS)).status == 200


@walk
async def test_options_that_cannot_be():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        for query in ("dryRun=Some", "fieldValidation=Never", "fieldManager=" + "x" * 200, "fieldManager=%0A"):
            for answer in (
                await api.post(f"{BOATS}?{query}", boat("b")),
                await api.put(f"{BOATS}/a?{query}", boat("a")),
                await api.patch(f"{BOATS}/a?{query}", {}),
            ):
                code, reason, why = failure(answer)
                assert (code, reason) == (422, "Invalid"), query
                assert 'Options.meta.k8s.io "" is invalid: ' in why
        assert failure(await api.patch(BOATS + "/a?force=true", {}))[0] == 422
        assert failure(await api.get(BOATS + "/a?export=true"))[0] == 400
        assert (await api.get(BOATS + "/a?unknown=1&timeout=5s&pretty=0")).status == 200
        assert failure(await api.get(BOATS + "?timeout=x"))[0] == 400


@walk
async def test_the_same_route_serves_many_requests_and_a_new_query_is_a_new_route():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        first = [(await api.get(BOATS + "/a")).body for _ in range(3)]
        assert len(set(first)) == 1
        assert json.loads((await api.get(BOATS + "/a?pretty=1")).body) == json.loads(first[0])
        for i in range(50):
            await api.get(f"{BOATS}/a?x={i}")
        route_table = api.parts.resources.router.route_table
        assert route_table is not None
        assert len(route_table.routes) < 100
