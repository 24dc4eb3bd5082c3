"""How lists and objects take part in strategic merge patches: what is said, what follows, what a CRD can't say."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import pytest

from oarlock import ListMap, ListSet, Model, PatchMerge, PatchReplace, Resource, RetainKeys
from oarlock.schema.crd import crd_errors, export_crd, parse, print_definition
from oarlock.schema.structural.merge_keys import MERGE_KEY, STRATEGY, merge_keys
from oarlock.schema.types.definitions import definition_of


def list_map(*keys: str, **more: Any) -> dict[str, Any]:
    return {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys), **more}


@pytest.mark.parametrize(
    ("schema", "keys"),
    [
        ({}, {}),
        ({"type": "array"}, {}),
        ({"type": "array", "x-kubernetes-list-type": "set"}, {}),
        ({"x-kubernetes-map-type": "atomic"}, {}),
        (list_map("name"), {MERGE_KEY: "name", STRATEGY: "merge"}),
        (list_map("name", "port"), {}),
        (list_map("name", "port", **{STRATEGY: "merge", MERGE_KEY: "port"}), {MERGE_KEY: "port", STRATEGY: "merge"}),
        (list_map("name", **{STRATEGY: "merge"}), {MERGE_KEY: "name", STRATEGY: "merge"}),
        (list_map("name", **{STRATEGY: "replace"}), {STRATEGY: "replace"}),
        (list_map("name", **{STRATEGY: "retainKeys"}), {MERGE_KEY: "name", STRATEGY: "merge,retainKeys"}),
        ({STRATEGY: "merge"}, {STRATEGY: "merge"}),
        ({STRATEGY: 1, MERGE_KEY: []}, {}),
    ],
)
def test_what_is_said_and_what_follows(schema: dict[str, Any], keys: dict[str, str]) -> None:
    assert merge_keys(schema) == keys


class Item(Model):
    """An item."""

    name: str


class Box(Resource, group="box.example.com", version="v1"):
    """A box."""

    named: Annotated[list[Item], ListMap("name")] = []
    merged: Annotated[list[Item], PatchMerge("name"), RetainKeys] = []
    values: Annotated[list[str], ListSet, PatchMerge()] = []
    whole: Annotated[Item | None, PatchReplace] = None


DEFINITION = definition_of(Box)


def test_types_say_it_and_dicts_keep_it() -> None:
    properties = DEFINITION.versions[0].schema["properties"]
    assert not {STRATEGY, MERGE_KEY} & properties["named"].keys()
    assert (properties["merged"][STRATEGY], properties["merged"][MERGE_KEY]) == ("merge,retainKeys", "name")
    assert properties["values"][STRATEGY] == "merge"
    assert properties["whole"][STRATEGY] == "replace"
    assert parse(print_definition(DEFINITION)) == DEFINITION


def test_a_cluster_is_not_told() -> None:
    assert "patch" not in str(export_crd(DEFINITION))


@pytest.mark.parametrize(("key", "value"), [(STRATEGY, "merge,reply"), (STRATEGY, 1), (STRATEGY, []), (MERGE_KEY, {})])
def test_mistakes_are_told(key: str, value: Any) -> None:
    (version,) = DEFINITION.versions
    schema = {**version.schema, "properties": {"x": {"type": "object", key: value}}}
    wrong = replace(DEFINITION, versions=(replace(version, schema=schema),))
    where = f"spec.versions[0].schema.openAPIV3Schema.properties[x].{key}"
    assert where in [error.path for error in crd_errors(print_definition(wrong))]
