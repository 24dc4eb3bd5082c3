"""Defaults fill what is absent, and never overwrite what a user set."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oarlock.schema.passes.defaulting import compile_default, compile_drop_nulls
from oarlock.schema.structural.nodes import parse

# The group meta_fields tests how Go checks defaults that span metadata of embedded objects, with a schema and
# expectations that are code, not data: 8 cases are left out.


def test_the_table_of_cases(shared_vectors: Any, go_schema: Any) -> None:
    cases = shared_vectors("crd_defaulting.json")["groups"]["default"]
    assert len(cases) == 13
    for case in cases:
        schema = go_schema(case["schema"])
        tree = json.loads(case["json"])
        fill = compile_default(parse(schema)) if schema else None
        if fill is not None:
            fill(tree)
        assert tree == json.loads(case["expected"]), case["name"]


def test_null_is_dropped_where_it_is_neither_allowed_nor_defaulted() -> None:
    node = parse(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "a": {"type": "string", "default": "A"},
                    "b": {"type": "string", "nullable": True},
                    "c": {"type": "string", "default": "C", "nullable": True},
                    "d": {"type": "string"},
                },
            },
        }
    )
    drop, fill = compile_drop_nulls(node), compile_default(node)
    assert drop is not None
    assert fill is not None
    tree = [{"a": None}, {"b": None}, {"c": None}, {"d": None}, {"e": None}]
    drop(tree)
    assert tree == [{"a": None}, {"b": None}, {"c": None}, {}, {"e": None}]
    fill(tree)
    assert tree[0] == {"a": "A", "c": "C"}
    assert tree[2] == {"c": None, "a": "A"}


def test_values_of_maps_lose_their_nulls_too() -> None:
    drop = compile_drop_nulls(parse({"type": "object", "additionalProperties": {"type": "string"}}))
    tree: Any = {"a": None, "b": "x"}
    assert drop is not None
    drop(tree)
    assert tree == {"b": "x"}


def test_defaults_are_copies(compiled: Any) -> None:
    version = compiled({"type": "object", "default": {"list": [{"a": 1}]}, "properties": {"list": _LIST}})
    first: Any = {"metadata": {}}
    second: Any = {"metadata": {}}
    version.default(first)
    version.default(second)
    first["spec"]["list"][0]["a"] = 2
    assert second["spec"]["list"] == [{"a": 1, "b": "B"}], "nested defaults apply inside of defaults"


_LIST = {
    "type": "array",
    "items": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string", "default": "B"}}},
}

SCALARS = st.sampled_from(["x", 0, False, 1.5, ""])
SCHEMAS = st.recursive(
    st.builds(lambda d: {"default": d}, SCALARS | st.none()) | st.just({}),
    lambda inner: st.one_of(
        st.builds(lambda p: {"properties": p}, st.dictionaries(st.sampled_from("abc"), inner)),
        st.builds(lambda p: {"properties": p, "default": {}}, st.dictionaries(st.sampled_from("abc"), inner)),
        st.builds(lambda i, n: {"items": {**i, "nullable": n}}, inner, st.booleans()),
        st.builds(lambda v: {"additionalProperties": v}, inner),
    ),
    max_leaves=8,
)
TREES = st.recursive(
    SCALARS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=10,
)


@given(SCHEMAS, TREES)
def test_defaulting_twice_is_defaulting_once(schema: Any, tree: Any) -> None:
    fill = compile_default(parse(schema))
    if fill is None:
        return
    fill(tree)
    once = copy.deepcopy(tree)
    fill(tree)
    assert tree == once


@given(SCHEMAS, TREES)
def test_what_was_set_stays(schema: Any, tree: Any) -> None:
    before = copy.deepcopy(tree)
    fill = compile_default(parse(schema))
    if fill is not None:
        fill(tree)
    assert _contains(tree, before)


def _contains(after: Any, before: Any) -> bool:
    if isinstance(before, dict):
        return isinstance(after, dict) and all(_contains(after[key], item) for key, item in before.items())
    if isinstance(before, list):
        return isinstance(after, list) and all(map(_contains, after, before))
    return before is None or (type(after) is type(before) and after == before)
