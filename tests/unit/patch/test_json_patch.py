"""JSON patch: RFC 6902 with the API server's additions and limits."""

from __future__ import annotations

import copy
import json as stdlib_json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.patch import json_patch
from oarlock.patch.errors import PatchFailed, PatchFormatError, TooManyOperations

Vectors = Callable[[str], Any]
Op = dict[str, Any]


def _apply(tree: Any, *operations: Op) -> Any:
    return json_patch.apply(tree, json_patch.parse(stdlib_json.dumps(operations).encode()))


def op(kind: str, path: str, **more: Any) -> Op:
    return {"op": kind, "path": path, **{key.rstrip("_"): value for key, value in more.items()}}


@pytest.mark.parametrize(
    ("tree", "operations", "result"),
    [
        ({"foo": "bar"}, [op("add", "/baz", value="qux")], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["bar", "baz"]}, [op("add", "/foo/1", value="qux")], {"foo": ["bar", "qux", "baz"]}),
        ({"foo": ["bar"]}, [op("add", "/foo/-", value=["abc"])], {"foo": ["bar", ["abc"]]}),
        ({"foo": [1]}, [op("add", "/foo/1", value=2)], {"foo": [1, 2]}),
        ({"baz": "qux", "foo": "bar"}, [op("remove", "/baz")], {"foo": "bar"}),
        ({"foo": [1, 2, 3]}, [op("remove", "/foo/1")], {"foo": [1, 3]}),
        ({"baz": "qux"}, [op("replace", "/baz", value="boo")], {"baz": "boo"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {}},
            [op("move", "/qux/thud", from_="/foo/waldo")],
            {"foo": {"bar": "baz"}, "qux": {"thud": "fred"}},
        ),
        ({"foo": [1, 2, 3]}, [op("move", "/foo/2", from_="/foo/0")], {"foo": [2, 3, 1]}),
        ({"a": 1}, [op("move", "/a", from_="/a")], {"a": 1}),
        ({"a": {"b": 1}}, [op("copy", "/c", from_="/a")], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"/": 9, "~1": 10}, [op("test", "/~1", value=9), op("test", "/~01", value=10)], {"/": 9, "~1": 10}),
        ({"": 1}, [op("replace", "/", value=2)], {"": 2}),
        ({"a": [1]}, [op("add", "/a/-1", value=2)], {"a": [1, 2]}),
        ({"a": [1, 2]}, [op("add", "/a/-2", value=9)], {"a": [1, 9, 2]}),
        ({"a": [1, 2]}, [op("remove", "/a/-1")], {"a": [1]}),
        ({"a": [1, 2]}, [op("replace", "/a/-1", value=3), op("test", "/a/-1", value=3)], {"a": [1, 3]}),
        ({"a": {}}, [op("replace", "/a/new", value=1)], {"a": {"new": 1}}),
        ({"a": None}, [op("test", "/a", value=None), op("test", "/b", value=None)], {"a": None}),
        ({}, [op("add", "/a")], {"a": None}),
        ({"a": 1.0}, [op("test", "/a", value=1)], {"a": 1.0}),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_what_operations_do(tree: Any, operations: list[Op], result: Any) -> None:
    before = copy.deepcopy(tree)
    assert _apply(tree, *operations) == result
    assert tree == before


@pytest.mark.parametrize(
    "operation",
    [
        op("remove", "/none"),
        op("remove", "/list/2"),
        op("remove", "/list/-3"),
        op("remove", "/list/-"),
        op("remove", ""),
        op("replace", "", value={}),
        op("replace", "/list/2", value=1),
        op("replace", "/list/-", value=1),
        op("add", "", value={}),
        op("add", "/list/3", value=1),
        op("add", "/list/-4", value=1),
        op("add", "/list/01", value=1),
        op("add", "/list/1e0", value=1),
        op("add", "/list/x", value=1),
        op("add", "/none/x", value=1),
        op("add", "/text/x", value=1),
        op("add", "/list/0/x", value=1),
        op("add", "list", value=1),
        op("test", "/text", value="other"),
        op("test", "/flag", value=1),
        op("test", "/list", value=[1]),
        op("test", "/list/7", value=None),
        op("test", "/none/x", value=None),
        op("test", "", value={}),
        op("move", "/list", from_="/none"),
        op("move", "/map/a/b", from_="/map"),
        op("copy", "/x", from_="/none"),
        op("copy", "/x", from_=""),
        op("copy", "/x"),
        op("bogus", "/text"),
        {"path": "/text"},
        {"op": "add"},
        {},
    ],
)
def test_what_cannot_be_carried_out(operation: Op) -> None:
    tree = {"list": [1, 2], "text": "t", "flag": True, "map": {"a": {}}}
    before = copy.deepcopy(tree)
    with pytest.raises(PatchFailed):
        _apply(tree, op("add", "/list/0", value=0), op("remove", "/list/0"), operation)
    assert tree == before


def test_the_tables_of_the_api_server(shared_vectors: Vectors) -> None:
    pod = {"metadata": {"name": "podA", "finalizers": ["foo"]}}
    for case in shared_vectors("misc.json")["groups"]["fieldmgr_json_patch"]:
        data = case["patch"].encode()
        if case["name"] == "invalid-syntax":
            with pytest.raises(PatchFormatError) as caught:
                json_patch.parse(data)
            assert str(caught.value) == case["expectedError"]
        elif "expectedError" in case:
            with pytest.raises(PatchFailed):
                json_patch.apply(pod, json_patch.parse(data))
        else:
            json_patch.apply(pod, json_patch.parse(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"op": "add"}', "expected an array of operations, got an object"),
        (b'"x"', "expected an array of operations, got a string"),
        (b"[1]", "[0]: expected an object, got a number"),
        (b'[{"op": 1}]', "[0].op: expected a string, got a number"),
        (b'[{"path": []}]', "[0].path: expected a string, got an array"),
        (b"[", "unexpected end of JSON input"),
        (b"", "unexpected end of JSON input"),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)
def test_bytes_that_are_no_patch(data: bytes, message: str) -> None:
    with pytest.raises(PatchFormatError) as caught:
        json_patch.parse(data)
    assert str(caught.value) == message


def test_at_most_ten_thousand_operations() -> None:
    assert len(json_patch.parse(b"[" + b",".join([b"{}"] * 10_000) + b"]")) == 10_000
    with pytest.raises(TooManyOperations) as caught:
        json_patch.parse(b"[" + b",".join([b"{}"] * 10_002) + b"]")
    assert str(caught.value) == "The allowed maximum operations in a JSON patch is 10000, got 10002"


def test_copies_have_a_budget() -> None:
    tree = {"a": "x" * 1_000_000}
    copies = [op("copy", f"/b{i}", from_="/a") for i in range(4)]
    assert len(_apply(tree, *copies[:3])) == 4
    with pytest.raises(PatchFailed, match="exceeding the limit 3145728"):
        _apply(tree, *copies)
    doubling = [op("copy", f"/a/{i}", from_="/a") for i in range(40)]
    with pytest.raises(PatchFailed):
        _apply({"a": {"x": "y" * 100}}, *doubling)


def test_nothing_nests_too_deeply() -> None:
    deeper = [op("add", "/a" * i, value={}) for i in range(1, 300)]
    with pytest.raises(PatchFailed, match="exceeded max depth"):
        _apply({}, *deeper)
    moves = [op("add", "/b", value={}), op("move", "/b/a", from_="/a"), op("move", "/a", from_="/b")] * 1_000
    with pytest.raises(PatchFailed, match="exceeded max depth"):
        _apply({"a": {}}, *moves)


def test_a_copy_is_independent_of_its_source() -> None:
    result = _apply(
        {"a": {"x": [1]}},
        op("add", "/a/x/-", value=2),
        op("copy", "/b", from_="/a"),
        op("add", "/a/x/-", value=3),
        op("add", "/b/x/-", value=4),
    )
    assert result == {"a": {"x": [1, 2, 3]}, "b": {"x": [1, 2, 4]}}


def test_a_patch_can_be_applied_again() -> None:
    patch = json_patch.parse(b'[{"op":"add","path":"/a","value":{"l":[]}},{"op":"add","path":"/a/l/-","value":1}]')
    assert json_patch.apply({}, patch) == {"a": {"l": [1]}}
    assert json_patch.apply({}, patch) == {"a": {"l": [1]}}


@pytest.mark.parametrize("kind", ["add", "replace"])
def test_what_a_patch_puts_in_may_be_changed(kind: str) -> None:
    patch = json_patch.parse(stdlib_json.dumps([op(kind, "/a", value={"l": [{}]})]).encode())
    for _ in range(2):
        result = json_patch.apply({"a": 1}, patch)
        assert result == {"a": {"l": [{}]}}
        result["a"]["l"][0]["x"] = 1
        result["a"]["y"] = 2


def test_what_is_not_touched_is_shared() -> None:
    tree = {"a": {"b": 1}, "c": {"d": [1]}}
    result = _apply(tree, op("add", "/a/x", value=1))
    assert result["c"] is tree["c"]
    assert result["a"] is not tree["a"]


def test_what_strict_validation_says() -> None:
    data = b'[{"op":"add","op":"add","foo":1,"path":"/x","value":{"any":1}},{"op":"remove","path":"/y","bar":2}]'
    assert json_patch.strict_errors(data) == [
        'json patch duplicate field "[0].op"',
        'json patch unknown field "[0].foo"',
        'json patch unknown field "[1].bar"',
    ]
    assert json_patch.strict_errors(b"[]") == []
    assert json_patch.strict_errors(b"[null]") == []
    many = stdlib_json.dumps([{"op": "test", f"u{i}": 1} for i in range(500)]).encode()
    assert len(json_patch.strict_errors(many)) == 100


def test_ten_thousand_operations_on_one_list_take_no_copies_each() -> None:
    operations = [op("add", "/l/-", value=i) for i in range(10_000)]
    assert len(_apply({"l": list(range(1_000))}, *operations)["l"]) == 11_000


KEYS = st.sampled_from(["a", "b", "0", "1", "-", "-1", "~0x", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "0", ""]), inner, max_size=3)
    ),
    max_leaves=6,
)
POINTERS = st.lists(KEYS, max_size=3).map(lambda steps: "".join("/" + step for step in steps))


@st.composite
def operations(draw: st.DrawFn) -> Op:
    kind = draw(st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]))
    return op(kind, draw(POINTERS), from_=draw(POINTERS), value=draw(VALUES))


@given(st.dictionaries(st.sampled_from("ab"), VALUES), st.lists(operations(), max_size=4))
def test_a_patch_changes_neither_tree_nor_patch(tree: Any, drawn: list[Op]) -> None:
    patch = json_patch.parse(stdlib_json.dumps(drawn).encode())
    before = copy.deepcopy((tree, patch))
    try:
        first = json_patch.apply(tree, patch)
    except PatchFailed:
        return
    assert copy.deepcopy((tree, patch)) == before
    assert json_patch.apply(tree, patch) == first


@given(st.dictionaries(st.sampled_from("ab"), VALUES), st.lists(operations(), max_size=4))
def test_another_library_agrees(tree: Any, drawn: list[Op]) -> None:
    """Where both carry a patch out and the additions of the API server play no part."""
    jsonpatch = pytest.importorskip("jsonpatch")
    try:
        expected = jsonpatch.apply_patch(copy.deepcopy(tree), drawn, in_place=True)
    except Exception:  # the library's own errors, and Python's for odd pointers: either way not carried out
        return
    special = any("-1" in one[place] or not one[place] for one in drawn for place in ("path", "from"))
    if special or any(one["op"] == "test" for one in drawn):
        return
    assert _apply(tree, *drawn) == expected
