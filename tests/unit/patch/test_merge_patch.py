"""JSON merge patch: the cases of RFC 7386, what the API server does besides, and laws."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.patch import merge_patch
from oarlock.patch.errors import PatchFormatError


@pytest.mark.parametrize(
    ("tree", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        # What is new has no nulls, also not in the objects of a list; nulls of a list itself stay.
        ({}, {"a": [{"b": None, "c": 1}, None]}, {"a": [{"c": 1}, None]}),
        ({"a": 1}, {"a": {"b": None}}, {"a": {}}),
        ({"a": [{"b": 1}]}, {"a": [{"b": None}]}, {"a": [{}]}),
    ],
)
def test_cases(tree: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((tree, patch))
    assert merge_patch.apply(tree, patch) == result
    assert (tree, patch) == before


def test_what_is_not_touched_is_shared() -> None:
    tree = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"x": [1]}}
    result = merge_patch.apply(tree, {"metadata": {"labels": {"a": None}}})
    assert result["spec"] is tree["spec"]
    assert result["metadata"]["annotations"] is tree["metadata"]["annotations"]
    assert result["metadata"] is not tree["metadata"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "unexpected end of JSON input"),
        (b"[]", "expected an object, got an array"),
        (b'"a"', "expected an object, got a string"),
        (b"1", "expected an object, got a number"),
        (b"null", "expected an object, got null"),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)
def test_bytes_that_are_no_patch(data: bytes, message: str) -> None:
    with pytest.raises(PatchFormatError) as caught:
        merge_patch.parse(data)
    assert str(caught.value) == message


def test_reading() -> None:
    assert merge_patch.parse(b'{"a":{"b":null}}') == {"a": {"b": None}}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from("xyz"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def _by_the_rfc(target: Any, patch: Any) -> Any:
    """The pseudo-code of RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = _by_the_rfc(target.get(name), value)
    return target


def _no_nulls_in_lists(value: Any) -> Any:
    """Where the RFC keeps nulls in the objects of lists, the API server drops them."""
    if isinstance(value, list):
        return [_dropped(inner) for inner in value]
    return {k: _no_nulls_in_lists(v) for k, v in value.items()} if isinstance(value, dict) else value


def _dropped(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _dropped(v) for k, v in value.items() if v is not None}
    return [_dropped(inner) for inner in value] if isinstance(value, list) else value


@given(OBJECTS, OBJECTS)
def test_the_algorithm_of_the_rfc(tree: Any, patch: Any) -> None:
    assert merge_patch.apply(tree, patch) == _by_the_rfc(tree, _no_nulls_in_lists(patch))


@given(OBJECTS, OBJECTS)
def test_a_patch_twice_is_a_patch_once(tree: Any, patch: Any) -> None:
    once = merge_patch.apply(tree, patch)
    assert merge_patch.apply(once, patch) == once


@given(OBJECTS)
def test_the_empty_patch_changes_nothing(tree: Any) -> None:
    assert merge_patch.apply(tree, {}) == tree


@given(OBJECTS, OBJECTS)
def test_neither_is_changed(tree: Any, patch: Any) -> None:
    before = copy.deepcopy((tree, patch))
    merge_patch.apply(tree, patch)
    assert (tree, patch) == before
