"""Undeclared fields go, preserved ones stay, and both ways of looking agree."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.schema.passes.pruning import MAX_REPORTED, compile_clean, prune
from oarlock.schema.structural.nodes import parse


def test_the_table_of_cases(shared_vectors: Any, go_schema: Any) -> None:
    cases = shared_vectors("crd_pruning.json")["groups"]["prune"]
    assert len(cases) == 11
    for case in cases:
        schema = go_schema(case.get("schema"))
        node = None if schema is None else parse(schema)
        tree = json.loads(case["json"])
        found = prune(tree, node, root=case.get("isResourceRoot", False))
        assert tree == json.loads(case["expectedObject"]), case["name"]
        assert sorted(found) == case.get("expectedPruned", []), case["name"]


def test_paths_are_those_of_strict_decoding_in_the_order_of_the_document(compiled: Any) -> None:
    inner = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}
    version = compiled({"type": "object", "properties": {"containers": inner}})
    tree = {"metadata": {"name": "x", "bar": 1}, "spec": {"containers": [{"foo": 1}], "zz": 2}, "a": 3}
    assert version.prune(tree) == ["metadata.bar", "spec.containers[0].foo", "spec.zz", "a"]
    assert tree == {"metadata": {"name": "x"}, "spec": {"containers": [{}]}}


def test_field_names_differ_in_case(compiled: Any) -> None:
    assert compiled({"type": "object"}).prune({"Spec": {}, "spec": {}}) == ["Spec"]


def test_owner_references_and_managed_fields_are_known(compiled: Any) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "cm", "uid": "u", "controller": True, "x": 1}
    managed = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:a": {".": {}}}, "y": 1}
    tree = {"metadata": {"ownerReferences": [owner], "managedFields": [managed]}}
    assert compiled({"type": "object"}).prune(tree) == ["metadata.ownerReferences[0].x", "metadata.managedFields[0].y"]
    assert managed["fieldsV1"] == {"f:a": {".": {}}}


def test_metadata_of_embedded_objects_is_pruned_too(compiled: Any) -> None:
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    version = compiled({"type": "object", "properties": {"template": embedded}}, typed=False)
    tree = {"metadata": {}, "spec": {"template": {"apiVersion": "v1", "metadata": {"name": "n", "bad": 1}, "any": 1}}}
    assert version.prune(tree) == ["spec.template.metadata.bad"]
    assert tree["spec"]["template"] == {"apiVersion": "v1", "metadata": {"name": "n"}, "any": 1}


def test_only_so_many_are_named_and_all_are_removed(compiled: Any) -> None:
    tree = {"metadata": {}, "spec": {f"k{i}": i for i in range(1000)}}
    assert len(compiled({"type": "object"}).prune(tree)) == MAX_REPORTED
    assert tree["spec"] == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=12,
)

SCHEMAS = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "object"}, {"x-kubernetes-preserve-unknown-fields": True}]),
    lambda inner: st.one_of(
        st.builds(lambda p: {"type": "object", "properties": p}, st.dictionaries(st.sampled_from("abc"), inner)),
        st.builds(lambda i: {"type": "array", "items": i}, inner),
        st.builds(lambda v: {"type": "object", "additionalProperties": v}, inner),
        st.builds(
            lambda p: {"type": "object", "properties": p, "x-kubernetes-preserve-unknown-fields": True},
            st.dictionaries(st.sampled_from("abc"), inner),
        ),
        st.builds(
            lambda p: {"type": "object", "properties": p, "x-kubernetes-embedded-resource": True},
            st.dictionaries(st.sampled_from("abc"), inner),
        ),
    ),
    max_leaves=8,
)


@given(SCHEMAS, JSON)
def test_pruning_twice_is_pruning_once(schema: Any, tree: Any) -> None:
    node = parse(schema)
    prune(tree, node)
    once = copy.deepcopy(tree)
    assert prune(tree, node) == []
    assert tree == once


def _fitting(schema: Any, tree: Any) -> Any:
    """`tree` with containers only where the schema has them; what the fast look takes for granted."""
    kind = schema.get("type")
    if kind is None:
        return tree
    if kind == "string":
        return "text" if isinstance(tree, dict | list) else tree
    if kind == "array":
        return [_fitting(schema["items"], item) for item in tree] if isinstance(tree, list) else None
    if not isinstance(tree, dict):
        return None
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties", {})
    return {key: _fitting(properties.get(key, additional), item) for key, item in tree.items()}


@given(SCHEMAS, JSON)
def test_the_fast_look_never_misses_anything(schema: Any, tree: Any) -> None:
    node = parse(schema)
    clean = compile_clean(node)
    tree = _fitting(schema, tree)
    before = copy.deepcopy(tree)
    says_clean = clean is None or clean(tree)
    prune(tree, node)
    assert not says_clean or tree == before


@pytest.mark.parametrize("value", [None, 1, "x", [], [[{}]], {"a": [1]}])
def test_trees_of_any_type_are_taken(value: Any) -> None:
    prune(value, parse({"type": "object", "properties": {"b": {"type": "string"}}}))
