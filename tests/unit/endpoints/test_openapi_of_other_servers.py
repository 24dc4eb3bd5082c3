"""OpenAPI v2 of other servers is merged: without harm, whatever they say, and without losing a definition."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from oarlock.endpoints.openapi.elsewhere import MOST_BYTES, MOST_MERGED_BYTES, merged, taken_from
from oarlock.endpoints.openapi.parts import merged_part

Tree = dict[str, Any]
encode = msgspec.json.encode


def referring(name: str) -> Tree:
    return {"get": {"responses": {"200": {"description": "OK", "schema": {"$ref": f"#/definitions/{name}"}}}}}


def taken(paths: Tree, definitions: Tree | None = None, **more: Any) -> Tree:
    document = {"swagger": "2.0", "paths": paths, "definitions": definitions or {}, **more}
    found: Tree = msgspec.json.decode(taken_from(encode(document), "g", "v1"))
    return found


def test_only_what_is_about_the_version_is_taken() -> None:
    found = taken(
        {"/apis/g/v1/as": referring("A"), "/apis/g/v10/as": referring("C"), "/api/v1/pods": referring("Pod")},
        {"A": {"properties": {"b": {"$ref": "#/definitions/B"}}}, "B": {"type": "object"}, "C": {}, "Pod": {}},
    )
    assert list(found["paths"]) == ["/apis/g/v1/as"]
    assert sorted(found["definitions"]) == ["A", "B"]


def test_parameters_are_put_where_they_are_referred_to() -> None:
    pretty = {"name": "pretty", "in": "query", "type": "string"}
    item = {"parameters": [{"$ref": "#/parameters/p"}, {"$ref": "#/parameters/unknown"}], "get": {"parameters": "?"}}
    found = taken({"/apis/g/v1/as": item}, parameters={"p": pretty})
    assert found["paths"]["/apis/g/v1/as"]["parameters"] == [pretty]


def test_references_dont_multiply_a_document() -> None:
    large = {"name": "x" * 100_000, "in": "query"}
    item = {"parameters": [{"$ref": "#/parameters/p"}] * 10_000}
    with pytest.raises(ValueError, match="take too much"):
        taken({"/apis/g/v1/as": item}, parameters={"p": large})


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b"[" * 100_000, b'{"paths":' * 50_000, b"{" + b" " * MOST_BYTES + b"}"]
)
def test_what_isnt_a_document_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        taken_from(data, "g", "v1")


@pytest.mark.parametrize("wrong", [None, 1, [], "x", [[]], {"/apis/g/v1/a": 1}, {"/apis/g/v1/a": {"get": []}}])
def test_what_is_of_another_type_is_left_out(wrong: Any) -> None:
    document = encode({"paths": wrong, "definitions": wrong, "parameters": wrong})
    paths, _ = merged(lambda name: None, [taken_from(document, "g", "v1")])
    for in_protobuf in (False, True):
        merged_part("", ("v2", in_protobuf), [], [encode({"paths": paths, "definitions": {"A": {"type": wrong}}})])


def test_equal_definitions_are_there_once_and_others_are_renamed() -> None:
    own = {"Meta": {"type": "object"}, "Spec": {"type": "string"}, "Spec_v2": {}}
    definitions = {
        "Meta": {"type": "object"},
        "Spec": {"type": "integer"},
        "A": {"properties": {"spec": {"$ref": "#/definitions/Spec"}, "meta": {"$ref": "#/definitions/Meta"}}},
    }
    document = encode({"paths": {"/apis/g/v1/as": referring("A")}, "definitions": definitions})
    paths, found = merged(own.get, [document, document])
    assert sorted(found) == ["A", "Spec_v3"]
    assert found["Spec_v3"] == {"type": "integer"}
    assert found["A"]["properties"]["spec"] == {"$ref": "#/definitions/Spec_v3"}
    assert found["A"]["properties"]["meta"] == {"$ref": "#/definitions/Meta"}
    assert paths["/apis/g/v1/as"] == referring("A")


def test_a_definition_that_refers_to_a_renamed_one_is_renamed() -> None:
    own = {"List": {"items": {"$ref": "#/definitions/Item"}}, "Item": {"type": "string"}}
    definitions = {"List": {"items": {"$ref": "#/definitions/Item"}}, "Item": {"type": "integer"}}
    document = encode({"paths": {"/apis/g/v1/as": referring("List")}, "definitions": definitions})
    paths, found = merged(own.get, [document])
    assert found["List_v2"] == {"items": {"$ref": "#/definitions/Item_v2"}}
    assert paths["/apis/g/v1/as"] == referring("List_v2")


def test_documents_beyond_the_bound_are_left_out() -> None:
    large = encode({"paths": {"/apis/g/v1/a": {"x": "y" * MOST_BYTES}}, "definitions": {}})
    paths, _ = merged(
        lambda name: None,
        [large] * (MOST_MERGED_BYTES // MOST_BYTES) + [encode({"paths": {"/z": {}}, "definitions": {}})],
    )
    assert "/apis/g/v1/a" in paths
    assert "/z" not in paths
