"""Bodies as Kubernetes reads them: an apply is always YAML; strict errors come in the order of the text."""

from __future__ import annotations

import pytest
from walk_kit import BOATS, BOATS_V1, CRATES, boat, failure, fleet, made, walk

from oarlock.testing import Answer

STRICT = "?fieldValidation=Strict"
APPLY = "application/apply-patch+yaml"
YAML = {"content-type": "application/yaml"}
BY = "?fieldManager=test"

FLOW = {
    "a flow mapping": b"{apiVersion: walk.example.com/v2, kind: Boat, metadata: {name: a}, spec: {port: x, crew: 3}}",
    "a comma too many": b'{"apiVersion": "walk.example.com/v2", "kind": "Boat", "metadata": {"name": "a",},\n'
    b' "spec": {"port": "x", "crew": 3,},}',
    "a comment": b'{"apiVersion": "walk.example.com/v2", # the hub\n'
    b' "kind": "Boat", "metadata": {"name": "a"}, "spec": {"port": "x", "crew": 3}}',
    "single quotes": b"{'apiVersion': 'walk.example.com/v2', 'kind': 'Boat', 'metadata': {'name': 'a'}, "
    b"'spec': {'port': 'x', 'crew': 3.0}}",
    "something behind": b'{"apiVersion": "walk.example.com/v2", "kind": "Boat", "metadata": {"name": "a"}, '
    b'"spec": {"port": "x", "crew": 3}}\n---\n{"kind": "Other"}',
}


@pytest.mark.parametrize("body", FLOW.values(), ids=FLOW)
def test_an_apply_takes_yaml_that_looks_like_json(body: bytes) -> None:
    @walk
    async def run() -> None:
        api, _ = fleet()
        async with api:
            answer = await api.patch(f"{BOATS}/a{BY}", body, APPLY)
            assert answer.status == 201, answer
            assert answer.json["spec"]["crew"] == 3

    run()


@walk
async def test_a_large_apply_that_is_nearly_json_is_read_too():
    api, _ = fleet()
    async with api:
        notes = ",".join(f'"note-{i}": "{"x" * 80}"' for i in range(1500))
        body = '{"apiVersion": "walk.example.com/v2", "kind": "Boat", "metadata": {"name": "a", "annotations": {%s,}}, '
        answer = await api.patch(f"{BOATS}/a{BY}", (body % notes + '"spec": {"port": "x"},}').encode(), APPLY)
        assert answer.status == 201, answer
        assert len(answer.json["metadata"]["annotations"]) == 1500


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{a: b", "error converting YAML to JSON: yaml: line 1: did not find expected ',' or '}'"),
        (b'{"a": [1}', "error converting YAML to JSON: yaml: did not find expected ',' or ']'"),
        (b"[]", "an apply configuration must be an object"),
        (b"{" * 300, "error converting YAML to JSON: yaml: "),
    ],
)
def test_what_is_no_yaml_either_is_told_as_yaml(body: bytes, why: str) -> None:
    @walk
    async def run() -> None:
        api, _ = fleet()
        async with api:
            code, reason, message = failure(await api.patch(f"{BOATS}/a{BY}", body, APPLY))
            assert (code, reason) == (400, "BadRequest")
            assert message.startswith(f"error decoding YAML: {why}"), message

    run()


def strict(answer: Answer) -> str:
    code, reason, message = failure(answer)
    assert (code, reason) == (400, "BadRequest")
    _, colon, errors = message.partition("strict decoding error: ")
    assert colon, message
    return errors


@walk
async def test_strict_errors_of_json_come_in_the_order_of_the_text():
    api, _ = fleet()
    async with api:
        body = (
            b'{"metadata": {"name": "a"}, "odd": {"x": 1, "x": 2}, "spec": {"port": "x", "sails": 1, '
            b'"crew": 1, "crew": 2, "crew": 3, "keel": {}, "keel": {}}, '
            b'"last": 1, "metadata": {"name": "a", "odder": 1}}'
        )
        assert strict(await api.post(f"{BOATS}{STRICT}", body)) == (
            'unknown field "odd", unknown field "spec.sails", duplicate field "spec.crew", unknown field "spec.keel", '
            'unknown field "last", duplicate field "metadata", unknown field "metadata.odder"'
        )
        answer = await api.post(BOATS, body)
        assert answer.status == 201
        assert answer.warnings[:3] == [
            'unknown field "odd"',
            'unknown field "spec.sails"',
            'duplicate field "spec.crew"',
        ]


@walk
async def test_strict_errors_of_yaml_are_those_of_its_reader_then_unknown_fields_by_name():
    api, _ = fleet()
    async with api:
        body = b"metadata: {name: a}\nspec:\n  port: x\n  sails: 1\n  crew: 1\n  crew: 2\n  crew: 3\nodd: 1\nalso: 2\n"
        assert strict(await api.request("POST", f"{BOATS}{STRICT}", body, YAML)) == (
            'yaml: unmarshal errors:\n  line 6: key "crew" already set in map\n'
            '  line 7: key "crew" already set in map, '
            'unknown field "also", unknown field "odd", unknown field "spec.sails"'
        )
        answer = await api.request("POST", BOATS, body, YAML)
        assert answer.warnings == [
            'line 6: key "crew" already set in map',
            'line 7: key "crew" already set in map',
            'unknown field "also"',
            'unknown field "odd"',
            'unknown field "spec.sails"',
        ]


@walk
async def test_a_custom_resource_has_its_duplicate_fields_told_first():
    api, _ = fleet()
    async with api:
        body = (
            b'{"apiVersion": "walk.example.com/v1", "kind": "Crate", "metadata": {"name": "a"}, "odd": 1, '
            b'"spec": {"size": 1, "size": 2}}'
        )
        assert strict(await api.post(f"{CRATES}{STRICT}", body)) == 'duplicate field "spec.size", unknown field "odd"'


@walk
async def test_an_update_tells_strict_errors_as_a_create_does():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        body = b'{"metadata": {"name": "a"}, "spec": {"odd": 1, "port": "x", "port": "y"}}'
        errors = 'unknown field "spec.odd", duplicate field "spec.port"'
        assert strict(await api.request("PUT", f"{BOATS}/a{STRICT}", body)) == errors
        assert strict(await api.post(f"{BOATS_V1}{STRICT}", body)).startswith('unknown field "spec.odd"')
