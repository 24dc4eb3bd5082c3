"""A JSON patch made of two trees makes one of the other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta.json_trees import same_json
from oarlock.patch import json_patch
from oarlock.patch.json_patch import MOST_OPERATIONS, difference

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text("ab/~", max_size=3)
values: Any = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
)
trees = st.dictionaries(st.text("ab/~", min_size=1, max_size=2), values, max_size=4)


@given(trees, trees)
def test_the_patch_makes_the_second_tree_of_the_first(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert same_json(json_patch.apply(before, json_patch.from_tree(difference(before, after))), after)


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [{"op": "replace", "path": "/a/b", "value": 2}]),
        ({"a": {}}, {"a": {"x/y~": 1}}, [{"op": "add", "path": "/a/x~1y~0", "value": 1}]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [{"op": "replace", "path": "/a/1", "value": 3}]),
        ({"a": [1, 2]}, {"a": [1]}, [{"op": "replace", "path": "/a", "value": [1]}]),
        ({"a": 1, "b": 2}, {"b": 2}, [{"op": "remove", "path": "/a"}]),
        ({"a": True}, {"a": 1}, [{"op": "replace", "path": "/a", "value": 1}]),
    ],
)
def test_only_what_differs_is_in_the_patch(before: Any, after: Any, operations: Any) -> None:
    assert difference(before, after) == operations


def test_a_patch_of_very_many_operations_replaces_whole_fields() -> None:
    before = {"kept": 1, "spec": {str(n): n for n in range(MOST_OPERATIONS + 1)}}
    after = {"kept": 1, "spec": {str(n): -n - 1 for n in range(MOST_OPERATIONS + 1)}}
    assert difference(before, after) == [{"op": "replace", "path": "/spec", "value": after["spec"]}]
