"""Null and empty values: absent for declared types, kept as given for custom resources."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

SPEC = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "x-oarlock-omit-empty": True},
        "count": {"type": "integer", "x-oarlock-omit-empty": True},
        "on": {"type": "boolean", "x-oarlock-omit-empty": True},
        "list": {"type": "array", "items": {"type": "string"}, "x-oarlock-omit-empty": True},
        "map": {"type": "object", "additionalProperties": {"type": "string"}, "x-oarlock-omit-empty": True},
        "kept": {"type": "string"},
        "maybe": {"type": "string", "nullable": True},
        "with_default": {"type": "string", "default": "d"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
    },
}


def normalized(version: Any, tree: Any) -> Any:
    tree = copy.deepcopy(tree)
    version.normalize(tree)
    return tree


def test_zero_values_are_left_out_only_where_the_field_says_so(compiled: Any) -> None:
    spec = {"text": "", "count": 0, "on": False, "list": [], "map": {}, "kept": ""}
    assert normalized(compiled(SPEC), {"metadata": {}, "spec": spec})["spec"] == {"kept": ""}


def test_null_is_absent_unless_it_is_allowed(compiled: Any) -> None:
    spec = {"text": None, "kept": None, "maybe": None, "with_default": None, "items": None, "any": None}
    assert normalized(compiled(SPEC), {"metadata": {}, "spec": spec})["spec"] == {"maybe": None, "any": None}


def test_null_in_lists_and_maps_is_the_zero_value(compiled: Any) -> None:
    spec = {"list": ["a", None], "map": {"k": None}, "items": [None, {"a": None}]}
    expected = {"list": ["a", ""], "map": {"k": ""}, "items": [{}, {}]}
    assert normalized(compiled(SPEC), {"metadata": {}, "spec": spec})["spec"] == expected


def test_a_custom_resource_keeps_what_a_default_or_nullable_answers_for(compiled: Any) -> None:
    spec = {"text": "", "kept": None, "maybe": None, "with_default": None, "list": [None]}
    version = compiled(SPEC, typed=False)
    tree = normalized(version, {"metadata": {}, "spec": spec})
    assert tree["spec"] == {"text": "", "maybe": None, "with_default": None, "list": [None]}
    version.default(tree)
    assert tree["spec"]["with_default"] == "d"


def test_empty_metadata_goes_either_way(compiled: Any) -> None:
    metadata = {
        "name": "x",
        "generateName": "",
        "labels": {},
        "annotations": None,
        "finalizers": [],
        "ownerReferences": [],
        "managedFields": [],
        "creationTimestamp": None,
        "deletionGracePeriodSeconds": 0,
    }
    for typed in (True, False):
        tree = normalized(compiled(SPEC, typed=typed), {"metadata": metadata, "spec": {}})
        assert tree["metadata"] == {"name": "x", "deletionGracePeriodSeconds": 0}


def test_a_null_status_or_spec_is_absent(compiled: Any) -> None:
    assert normalized(compiled(SPEC), {"metadata": {}, "spec": None}) == {"metadata": {}}


VALUES = st.none() | st.sampled_from(["", "x", 0, 1, False, True]) | st.just([]) | st.just({})
SPECS = st.dictionaries(
    st.sampled_from(sorted(SPEC["properties"])),
    VALUES | st.lists(VALUES, max_size=3) | st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2),
)


@given(SPECS, st.booleans())
def test_settling_twice_is_settling_once(compiled: Any, spec: Any, typed: bool) -> None:
    version = compiled(SPEC, typed=typed)
    tree = {"metadata": {"name": "x"}, "spec": spec}
    if version.type_errors(tree):
        return

    def settle() -> None:
        version.prune(tree)
        version.normalize(tree)
        version.default(tree)

    settle()
    once = copy.deepcopy(tree)
    found = version.validate(tree)
    settle()
    assert tree == once
    assert version.validate(tree) == found
    if typed:
        assert found == []
