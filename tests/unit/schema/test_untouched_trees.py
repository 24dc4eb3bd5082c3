"""What is told to be untouched, typing, pruning and normalizing really leave alone."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "left-out": {"type": "string", "x-oarlock-omit-empty": True},
                "count": {"type": "integer", "format": "int32", "x-oarlock-omit-empty": True},
                "share": {"type": "number"},
                "flag": {"type": "boolean", "x-oarlock-omit-empty": True},
                "when": {"type": "string", "format": "date-time"},
                "nothing": {"type": "string", "nullable": True},
                "port": {"x-kubernetes-int-or-string": True},
                "words": {"type": "array", "items": {"type": "string"}, "x-oarlock-omit-empty": True},
                "named": {"type": "object", "additionalProperties": {"type": "integer"}},
                "free": {"x-kubernetes-preserve-unknown-fields": True},
                "parts": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"a": {"type": "string", "x-oarlock-omit-empty": True}}},
                },
            },
        }
    },
}
SCALARS = st.sampled_from([None, "", "a", "2026-01-01T00:00:00Z", 0, 1, 2**40, 1.5, True, False])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "text"]), inner, max_size=3),
    max_leaves=6,
)
SPECS = st.dictionaries(st.sampled_from([*SCHEMA["properties"]["spec"]["properties"], "unknown"]), VALUES, max_size=5)  # type: ignore[index]
METADATA = st.dictionaries(
    st.sampled_from(["name", "labels", "finalizers", "generation", "creationTimestamp", "managedFields", "other"]),
    VALUES,
    max_size=3,
)


def compiled(*, typed: bool) -> CompiledVersion:
    definition = ResourceDefinition(
        "untouched.example.com", Names("things", "Thing"), "Cluster", (VersionDefinition("v1", SCHEMA),), "v1", "v1"
    )
    if typed:
        definition = replace(definition, typed=True)
    return compile_version(definition, "v1")


@pytest.mark.parametrize("typed", [True, False])
def test_nothing_is_done_to_an_untouched_tree(typed: bool) -> None:
    version = compiled(typed=typed)
    seen = set()

    @given(SPECS, METADATA)
    def holds(spec: dict[str, Any], metadata: dict[str, Any]) -> None:
        tree = {"apiVersion": "untouched.example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec}
        before = copy.deepcopy(tree)
        untouched = version.untouched(tree)
        seen.add(untouched)
        if not untouched:
            return
        assert version.type_errors(tree) == []
        assert version.prune(tree) == []
        version.normalize(tree)
        assert tree == before

    holds()
    assert seen == {True, False}


@pytest.mark.parametrize(
    "spec",
    [
        {"text": "a", "left-out": "b", "count": 3, "share": 1, "flag": True, "when": "2026-01-01T00:00:00Z"},
        {"port": 80, "words": ["a"], "named": {"a": 1}, "free": {"a": [1, {"b": 2}]}, "parts": [{"a": "b"}, {}]},
        {"port": "http", "share": 1.5, "text": ""},
    ],
)
def test_an_ordinary_tree_is_known_to_be_untouched(spec: dict[str, Any]) -> None:
    metadata = {"name": "a", "labels": {"b": "c"}, "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}]}
    tree = {"apiVersion": "untouched.example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec}
    assert compiled(typed=True).untouched(tree)


@pytest.mark.parametrize("name", [*SCHEMA["properties"]["spec"]["properties"], "unknown"])  # type: ignore[index]
def test_null_is_untouched_only_where_it_may_stand(name: str) -> None:
    tree = {"apiVersion": "untouched.example.com/v1", "kind": "Thing", "metadata": {}, "spec": {name: None}}
    assert compiled(typed=True).untouched(tree) == (name == "nothing")
