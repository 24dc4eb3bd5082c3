"""Schemas, by cases of our own: what is pruned and filled in, what lists may hold, what may be declared."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from oarlock.meta.times import parse_rfc3339
from oarlock.schema.cells import cell
from oarlock.schema.crd import crd_errors
from oarlock.schema.passes.defaulting import compile_default
from oarlock.schema.passes.pruning import prune
from oarlock.schema.structural.nodes import SchemaError, parse
from oarlock.schema.structural.patterns import structural_errors
from oarlock.schema.validation.findings import ValidationFindings
from oarlock.schema.validation.objectmeta import compile_embedded
from oarlock.schema.validation.ratcheting import compile_lists

TEXT: dict[str, Any] = {"type": "string"}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {**ANYTHING, "x-kubernetes-embedded-resource": True}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def a_list(of: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": of, **more}


@pytest.mark.parametrize(
    ("schema", "tree", "left", "gone"),
    [
        (an_object(a=TEXT), {"a": "x", "b": 1}, {"a": "x"}, ["b"]),
        (an_object(a=an_object(b=TEXT)), {"a": {"b": "x", "c": {}}}, {"a": {"b": "x"}}, ["a.c"]),
        (an_object(a=a_list(an_object(b=TEXT))), {"a": [{"c": 1}, {"b": "x"}]}, {"a": [{}, {"b": "x"}]}, ["a[0].c"]),
        ({"type": "object", "additionalProperties": TEXT}, {"any": "x"}, {"any": "x"}, []),
        ({"type": "object", "additionalProperties": an_object()}, {"k": {"c": 1}}, {"k": {}}, ["k.c"]),
        (ANYTHING, {"a": {"b": 1}}, {"a": {"b": 1}}, []),
        ({**ANYTHING, "properties": {"a": an_object()}}, {"a": {"b": 1}, "c": 2}, {"a": {}, "c": 2}, ["a.b"]),
        (an_object(a=TEXT), {"a": {"not": "a text"}}, {"a": {}}, ["a.not"]),
    ],
)
def test_pruning_takes_what_is_not_declared(schema: Any, tree: Any, left: Any, gone: list[str]) -> None:
    assert prune(tree, parse(schema)) == gone
    assert tree == left


@pytest.mark.parametrize(
    ("schema", "tree", "filled"),
    [
        (an_object(a={**TEXT, "default": "d"}), {}, {"a": "d"}),
        (an_object(a={**TEXT, "default": "d"}), {"a": ""}, {"a": ""}),
        (an_object(a=an_object(b={**TEXT, "default": "d"})), {}, {}),
        (an_object(a=an_object(b={**TEXT, "default": "d"})), {"a": {}}, {"a": {"b": "d"}}),
        (an_object(a={**an_object(b={**TEXT, "default": "d"}), "default": {}}), {}, {"a": {"b": "d"}}),
        (an_object(a=a_list(an_object(b={**TEXT, "default": "d"}))), {"a": [{}]}, {"a": [{"b": "d"}]}),
        (
            {"type": "object", "additionalProperties": an_object(b={**TEXT, "default": "d"})},
            {"k": {}},
            {"k": {"b": "d"}},
        ),
        (an_object(a={**TEXT, "nullable": True, "default": "d"}), {"a": None}, {"a": None}),
        (an_object(a={**TEXT, "default": "d"}), {"a": None}, {"a": "d"}),
    ],
)
def test_defaults_fill_what_is_absent_as_deep_as_there_are_objects(schema: Any, tree: Any, filled: Any) -> None:
    fill = compile_default(parse(schema))
    assert fill is not None
    fill(tree)
    assert tree == filled


def test_a_default_is_copied_for_each_object() -> None:
    fill = compile_default(parse(an_object(a={**a_list(TEXT), "default": []})))
    assert fill is not None
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}
    fill(one)
    fill(other)
    one["a"].append("x")
    assert other == {"a": []}


def repeated(schema: Any, tree: Any) -> list[tuple[str, str]]:
    found, check = ValidationFindings(), compile_lists(parse(schema))
    if check is not None:
        check(tree, (None, "spec"), found)
    return [(error.reason, error.path) for error in found.errors]


SET = {"x-kubernetes-list-type": "set"}
BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]}


@pytest.mark.parametrize(
    ("items", "kind", "value", "at"),
    [
        (TEXT, SET, ["a", "b"], []),
        (TEXT, SET, ["a", "b", "a", "b"], [2, 3]),
        (ANYTHING, SET, [{"a": 1, "b": [2]}, {"b": [2], "a": 1}], [1]),
        (TEXT, {"x-kubernetes-list-type": "atomic"}, ["a", "a"], []),
        (an_object(name=TEXT, port=TEXT), BY_NAME, [{"name": "a", "port": "1"}, {"name": "a", "port": "2"}], []),
        (an_object(name=TEXT, port=TEXT), BY_NAME, [{"name": "a", "port": "1"}, {"port": "1", "name": "a"}], [1]),
        (an_object(name=TEXT, port=TEXT), BY_NAME, [{"name": "a"}, {"name": "a"}], [1]),
    ],
)
def test_items_of_sets_and_maps_are_there_once(items: Any, kind: Any, value: Any, at: list[int]) -> None:
    found = repeated(an_object(l=a_list(items, **kind)), {"l": value})
    assert found == [("FieldValueDuplicate", f"spec.l[{index}]") for index in at]


@pytest.mark.parametrize(
    ("inner", "wrong"),
    [
        ({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}, []),
        ({"kind": "A", "metadata": {"name": "a"}}, ["e.apiVersion"]),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, ["e.kind"]),
        ({"apiVersion": "a/b/c", "kind": "A", "metadata": {}}, ["e.apiVersion"]),
        ({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a/b"}}, ["e.metadata.name"]),
        ({"apiVersion": "v1", "kind": "A", "metadata": {"labels": {"a": "not a value"}}}, ["e.metadata.labels"]),
    ],
)
def test_embedded_objects_are_objects(inner: Any, wrong: list[str]) -> None:
    found, embedded = ValidationFindings(), compile_embedded(parse(an_object(e=EMBEDDED)))
    assert embedded is not None
    embedded.validate({"e": inner}, found)
    assert [error.path for error in found.errors] == wrong


@pytest.mark.parametrize(
    ("schema", "at"),
    [
        (an_object(a=TEXT), ""),
        (an_object(a={}), "properties[a].type"),
        (an_object(a={"type": "array"}), "properties[a].items"),
        (an_object(a={"x-kubernetes-int-or-string": True}), ""),
        ({**an_object(a=TEXT), "additionalProperties": TEXT}, "additionalProperties"),
        (an_object(a={**TEXT, "allOf": [{"type": "string"}]}), "properties[a].allOf[0].type"),
        (an_object(a={**TEXT, "anyOf": [{"minLength": 1}]}), ""),
        ({**an_object(a=TEXT), "anyOf": [{"properties": {"b": {"minLength": 1}}}]}, "properties[b]"),
        ({**an_object(a=TEXT), "not": {"properties": {"a": {"default": "x"}}}}, "not.properties[a].default"),
        (an_object(metadata=an_object(labels=TEXT)), "properties[metadata]"),
        (an_object(metadata=an_object(name={**TEXT, "maxLength": 9})), ""),
        (an_object(a={**EMBEDDED, "type": "string"}), "properties[a].type"),
    ],
)
def test_schemas_are_structural(schema: Any, at: str) -> None:
    try:
        found = [error.path for error in structural_errors(parse(schema))]
    except SchemaError as error:
        found = [error.path]
    assert bool(found) is bool(at), found
    assert not at or any(at in path for path in found), found


def crd(**changes: Any) -> dict[str, Any]:
    """A definition that is fine, but for `changes` of its spec (``version__`` for those of its version)."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": an_object(spec=ANYTHING)}}
    version |= {key.removeprefix("version__"): value for key, value in changes.items() if key.startswith("version__")}
    spec = {
        "group": "sea.io",
        "scope": "Namespaced",
        "names": {"plural": "boats", "kind": "Boat"},
        "versions": [version],
        **{key: value for key, value in changes.items() if not key.startswith("version__")},
    }
    return {"metadata": {"name": "boats.sea.io"}, "spec": copy.deepcopy(spec)}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({}, None),
        ({"scope": "World"}, "spec.scope"),
        ({"group": "Sea"}, "spec.group"),
        ({"names": {"plural": "boats", "kind": "A Boat"}}, "spec.names.kind"),
        ({"names": {"plural": "ships", "kind": "Boat"}}, "metadata.name"),
        ({"versions": []}, "spec.versions"),
        ({"version__storage": False}, "spec.versions"),
        ({"version__name": "V1"}, "spec.versions[0].name"),
        ({"version__schema": {"openAPIV3Schema": {"type": "array", "items": TEXT}}}, "spec.versions[0].schema"),
        ({"version__additionalPrinterColumns": [{"name": "A", "type": "colour", "jsonPath": ".a"}]}, "Columns[0].type"),
        ({"version__additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "a["}]}, "Columns[0].JSON"),
        ({"version__selectableFields": [{"jsonPath": ".spec.nothing"}]}, "selectableFields[0].jsonPath"),
        ({"version__subresources": {"scale": {"specReplicasPath": ".replicas"}}}, "scale"),
    ],
)
def test_definitions_that_may_be_made(changes: dict[str, Any], path: str | None) -> None:
    found = [error.path for error in crd_errors(crd(**changes))]
    if path is None:
        assert found == []
    else:
        assert any(path in one for one in found), found


NOW = parse_rfc3339("2026-03-01T12:00:00Z")


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (5, "integer", 5),
        (5.0, "integer", 5),
        ("5", "integer", None),
        (1.5, "number", 1.5),
        (True, "boolean", True),
        ("x", "string", "x"),
        ("2026-03-01T11:00:00Z", "date", "60m"),
        ("2026-02-27T12:00:00Z", "date", "2d"),
        ("once", "date", "<invalid>"),
    ],
)
def test_cells_of_tables(value: Any, kind: str, shown: Any) -> None:
    assert cell([value], kind, NOW) == shown
    assert cell([], kind, NOW) is None
