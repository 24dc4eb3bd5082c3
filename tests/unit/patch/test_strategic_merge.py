"""Strategic merge patches that people write: each directive, what they may not say, and patches that mean no good."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Annotated, Any

import pytest
import strategic_merge_patches
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock import DeclarationError, ListMap, ListSet, Model, PatchMerge, PatchReplace, Resource, RetainKeys
from oarlock.codec import json as json_codec
from oarlock.patch import merge_patch, strategic_merge
from oarlock.patch.errors import DirectiveError, PatchError, PatchFailed, PatchFormatError
from oarlock.schema.types.views import object_schema


class Condition(Model):
    """What is the case."""

    type: str
    status: str = ""


class Part(Model):
    """A part, or one of the parts of a part."""

    name: str
    port: int = 0
    notes: Annotated[list[str], PatchMerge()] = []
    conditions: Annotated[list[Condition], ListMap("type")] = []


class Union(Model):
    """One of two."""

    kind: str = ""
    a: int | None = None
    b: int | None = None


class Thing(Resource, group="merge.example.com", version="v1"):
    """Everything that a declaration can say of merging."""

    parts: Annotated[list[Part], ListMap("name")] = []
    pairs: Annotated[list[Part], ListMap("name", "port")] = []
    ports: Annotated[list[Part], PatchMerge("port")] = []
    whole: Annotated[list[Part], ListMap("name"), PatchReplace] = []
    plain: list[Part] = []
    tags: Annotated[list[str], ListSet] = []
    union: Annotated[Union | None, RetainKeys] = None
    unions: Annotated[list[Part], ListMap("name"), RetainKeys] = []
    single: Annotated[Union | None, PatchReplace] = None
    by_name: dict[str, Part] = {}


SCHEMA = strategic_merge.compile_schema(object_schema(Thing))


def applied(tree: Any, patch: Any) -> Any:
    before = copy.deepcopy((tree, patch))
    result = strategic_merge.apply(tree, patch, SCHEMA)
    assert (tree, patch) == before
    return result


def part(name: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, **rest}


A, B, C = part("a", port=1), part("b", port=2), part("c", port=3)


@pytest.mark.parametrize(
    ("tree", "patch", "result"),
    [
        # objects
        ({"x": 1, "y": 2}, {"y": None, "z": 3}, {"x": 1, "z": 3}),
        (
            {"byName": {"k": {"name": "k", "port": 1}}},
            {"byName": {"k": {"port": 2}}},
            {"byName": {"k": part("k", port=2)}},
        ),
        ({"union": {"a": 1}}, {"union": {"$patch": "replace", "b": 2}}, {"union": {"b": 2}}),
        ({"union": {"a": 1}}, {"union": {"$patch": "merge", "b": 2}}, {"union": {"a": 1, "b": 2}}),
        ({"union": {"a": 1}}, {"union": {"$patch": "delete"}}, {"union": {}}),
        ({}, {"union": {"$patch": "delete"}}, {}),
        ({}, {"union": {"$patch": "replace", "b": 2, "a": None}}, {"union": {"b": 2}}),
        ({"single": {"a": 1}}, {"single": {"b": 2}}, {"single": {"b": 2}}),
        (
            {"union": {"kind": "x", "a": 1}},
            {"union": {"$retainKeys": ["kind", "b"], "b": 2}},
            {"union": {"kind": "x", "b": 2}},
        ),
        # lists that are merged by key
        ({"parts": [A, B]}, {"parts": [part("b", port=9)]}, {"parts": [A, part("b", port=9)]}),
        ({"parts": [A, B]}, {"parts": [C]}, {"parts": [C, A, B]}),
        ({"parts": [A, B]}, {"parts": [part("a", **{"$patch": "delete"})]}, {"parts": [B]}),
        ({"parts": [A, B]}, {"parts": [{"$patch": "replace"}, C]}, {"parts": [C]}),
        ({"parts": [A, B]}, {"parts": []}, {"parts": [A, B]}),
        ({"parts": [A, B]}, {"parts": None}, {}),
        (
            {"parts": [A, B]},
            {"parts": [part("a", **{"$patch": "delete"}), part("a", port=7)]},
            {"parts": [part("a", port=7), B]},
        ),
        ({}, {"parts": [A, part("b", **{"$patch": "delete"}), part("a", port=9)]}, {"parts": [part("a", port=9)]}),
        ({"parts": [A, B, C]}, {"$setElementOrder/parts": [part("c"), part("a")]}, {"parts": [B, C, A]}),
        ({"parts": [A]}, {"$setElementOrder/parts": [part("b"), part("a")], "parts": [B]}, {"parts": [B, A]}),
        ({}, {"$setElementOrder/parts": [part("a")]}, {}),
        ({"ports": [A, B]}, {"ports": [{"port": 2, "name": "z"}]}, {"ports": [A, part("z", port=2)]}),
        ({"parts": [{"port": 5}, A]}, {"parts": [part("a", port=2)]}, {"parts": [{"port": 5}, part("a", port=2)]}),
        ({"parts": "text"}, {"parts": [A]}, {"parts": [A]}),
        ({"parts": [A]}, {"parts": "text"}, {"parts": "text"}),
        ({"parts": [A]}, {"parts": {"x": None, "y": 1}}, {"parts": {"y": 1}}),
        # lists that are replaced
        ({"pairs": [A, B]}, {"pairs": [C]}, {"pairs": [C]}),
        ({"whole": [A, B]}, {"whole": [C]}, {"whole": [C]}),
        ({"plain": [A, B]}, {"plain": [{"name": "c", "port": None}]}, {"plain": [part("c")]}),
        ({"plain": [A]}, {"plain": [{"$patch": "replace"}, {"$patch": "delete", "name": "a"}, B]}, {"plain": [B]}),
        ({"tags": ["a"]}, {"tags": ["b"]}, {"tags": ["b"]}),
        ({"tags": ["a", "b"]}, {"$deleteFromPrimitiveList/tags": ["a"]}, {"tags": ["b"]}),
        ({"tags": ["a", "b"]}, {"$setElementOrder/tags": ["b", "a"]}, {"tags": ["b", "a"]}),
        # lists of values that are merged
        (
            {"metadata": {"finalizers": ["x/a"]}},
            {"metadata": {"finalizers": ["x/b"]}},
            {"metadata": {"finalizers": ["x/b", "x/a"]}},
        ),
        (
            {"metadata": {"finalizers": ["x/a", "x/b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}},
            {"metadata": {"finalizers": ["x/b"]}},
        ),
        ({"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}, {"metadata": {}}),
        (
            {"metadata": {"managedFields": [{"manager": "a"}]}},
            {"metadata": {"managedFields": [{"manager": "b"}]}},
            {"metadata": {"managedFields": [{"manager": "b"}]}},
        ),
        # deeper
        (
            {"parts": [part("a", conditions=[{"type": "X", "status": "1"}], notes=["n"])]},
            {"parts": [part("a", conditions=[{"type": "Y"}], notes=["m"])]},
            {"parts": [part("a", conditions=[{"type": "Y"}, {"type": "X", "status": "1"}], notes=["m", "n"])]},
        ),
        (
            {"parts": [A]},
            {"parts": [part("b", notes=None, conditions=[{"type": "X", "$patch": "delete"}])]},
            {"parts": [part("b", conditions=[]), A]},
        ),
        # what nobody declared merges like anything
        (
            {"odd": {"a": [1], "b": {"c": 1}}},
            {"odd": {"a": [2], "b": {"d": 2}}},
            {"odd": {"a": [2], "b": {"c": 1, "d": 2}}},
        ),
        ({"labels": {"$other": 1}}, {"labels": {"$other": 2, "$mine": None}}, {"labels": {"$other": 2}}),
    ],
)
def test_what_is_said_is_done(tree: Any, patch: Any, result: Any) -> None:
    assert json.dumps(applied(tree, patch), sort_keys=True) == json.dumps(result, sort_keys=True)


def test_true_is_not_one() -> None:
    tree = {"metadata": {"finalizers": [1, True, "1"]}}
    assert applied(tree, {"metadata": {"$deleteFromPrimitiveList/finalizers": [True]}}) == {
        "metadata": {"finalizers": [1, "1"]}
    }


def test_owners_are_told_apart_by_uid() -> None:
    tree = {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}
    more = applied(tree, {"metadata": {"ownerReferences": [{"uid": "2", "name": "a"}]}})
    assert [owner["uid"] for owner in more["metadata"]["ownerReferences"]] == ["2", "1"]


def test_what_is_not_touched_is_shared_and_the_patch_is_not() -> None:
    tree = {"metadata": {"labels": {"a": "b"}}, "parts": [A, B], "plain": [C]}
    patch = {"parts": [part("b", notes=["x"])], "union": {"a": 1}}
    result = strategic_merge.apply(tree, patch, SCHEMA)
    assert result["metadata"] is tree["metadata"]
    assert result["plain"] is tree["plain"]
    assert result["parts"][0] is A
    result["union"]["a"] = 2
    result["parts"][1]["notes"].append("y")
    assert patch == {"parts": [part("b", notes=["x"])], "union": {"a": 1}}
    assert strategic_merge.apply(tree, {}, SCHEMA) is tree


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"metadata": {"$patch": "bogus"}}, "unknown patch type: bogus in map: map[$patch:bogus]"),
        ({"$patch": None}, "unknown patch type: <nil> in map: map[$patch:<nil>]"),
        ({"$patch": {"a": [1, True]}}, "unknown patch type: map[a:[1 true]] in map: map[$patch:map[a:[1 true]]]"),
        ({"$patch": ["merge"]}, "unknown patch type: [merge] in map: map[$patch:[merge]]"),
        ({"parts": [part("a", **{"$patch": "x"})]}, "unknown patch type: x in map: map[$patch:x name:a]"),
        ({"parts": [part("a", **{"$patch": []})]}, "unknown patch type: [] in map: map[$patch:[] name:a]"),
        ({"parts": [part("a", **{"$patch": "merge"})]}, "merging lists cannot yet be specified in the patch"),
        ({"parts": [{"port": 1}]}, "map: map[port:1] does not contain declared merge key: name"),
        ({"parts": [{"name": None}]}, "map: map[name:<nil>] does not contain declared merge key: name"),
        ({"parts": [{"$patch": "delete"}]}, "map: map[$patch:delete] does not contain declared merge key: name"),
        ({"parts": [{"name": {}}]}, "map: map[name:map[]] has a merge key that is no scalar: name"),
        ({"parts": ["a"]}, "list element types are not identical: a"),
        ({"parts": [None]}, "list element types are not identical: <nil>"),
        ({"metadata": {"finalizers": [{}]}}, "cannot merge lists without merge key: map[]"),
        ({"$setElementOrder/parts": {}}, "invalid patch format of setElementOrder list: $setElementOrder/parts"),
        ({"$setElementOrder/parts": None}, "invalid patch format of setElementOrder list: $setElementOrder/parts"),
        ({"$setElementOrder/parts": [1]}, "list element types are not identical: 1"),
        ({"$setElementOrder/parts": [{}]}, "map: map[] does not contain declared merge key: name"),
        ({"$setElementOrder/tags": [{}]}, "invalid patch format of setElementOrder list: [map[]]"),
        ({"$setElementOrder/parts": [], "parts": 1}, "invalid patch format of setElementOrder list: parts is no list"),
        (
            {"$setElementOrder/parts": [part("b"), part("a")], "parts": [part("a"), part("b")]},
            "The order in patch list:\n[map[name:a] map[name:b]]\n doesn't match $setElementOrder list:\n"
            "[map[name:b] map[name:a]]\n",
        ),
        (
            {"$deleteFromPrimitiveList/tags": "a"},
            "invalid patch format of primitive list: $deleteFromPrimitiveList/tags",
        ),
        (
            {"$deleteFromPrimitiveList/tags": [{}]},
            "invalid patch format of primitive list: $deleteFromPrimitiveList/tags",
        ),
        ({"union": {"$retainKeys": "a"}}, "invalid patch format of retainKeys"),
        ({"union": {"$retainKeys": [{}]}}, "invalid patch format of retainKeys"),
    ],
)
def test_what_a_patch_may_not_say(patch: Any, text: str) -> None:
    tree = {"parts": [A], "tags": ["a"], "metadata": {"finalizers": ["x/a"]}, "union": {"a": 1}}
    with pytest.raises(DirectiveError) as raised:
        applied(tree, patch)
    assert str(raised.value) == text


@pytest.mark.parametrize(
    "patch",
    [
        {"union": {"$retainKeys": ["a"], "b": 2}},
        {"parts": [[]]},
        {"metadata": {"finalizers": [["a"]]}},
    ],
)
def test_what_cannot_be_done(patch: Any) -> None:
    with pytest.raises(PatchFailed):
        applied({"parts": [A], "metadata": {"finalizers": ["x/a"]}, "union": {"a": 1}}, patch)


def test_a_message_shows_only_the_beginning_of_what_is_huge() -> None:
    with pytest.raises(DirectiveError) as raised:
        applied({"parts": [A]}, {"parts": [{f"k{i}": "x" * 100 for i in range(10_000)}]})
    assert len(str(raised.value)) < 1_200
    with pytest.raises(DirectiveError) as raised:
        applied({}, {"$patch": "x" * 1_000_000})
    assert len(str(raised.value)) < 2_200


def test_bytes_that_are_no_patch() -> None:
    for data in (b"", b"{", b"[]", b"1", b'"a"', b'{"a":1}x', b"\xff"):
        with pytest.raises(PatchFormatError):
            merge_patch.parse(data)
    assert merge_patch.parse(b'{"a":{"$patch":"delete"}}') == {"a": {"$patch": "delete"}}


def nested(depth: int, kind: str) -> dict[str, Any]:
    tree: Any = 1
    for _ in range(depth):
        tree = {"list": [tree], "object": {"x": tree, "$patch": "replace"}, "both": {"x": [tree]}}[kind]
    return {"spec": tree}


@pytest.mark.parametrize("kind", ["list", "object", "both"])
def test_a_patch_as_deep_as_may_be_is_applied(kind: str) -> None:
    deepest = json_codec.MAX_DEPTH - 2
    patch = nested(deepest // 2 if kind == "both" else deepest, kind)
    json_codec.decode(json.dumps(patch).encode())
    once = strategic_merge.apply({}, patch, SCHEMA)
    assert strategic_merge.apply(once, patch, SCHEMA) == once


def test_directives_at_every_level_cost_no_more_than_they_are() -> None:
    """Each level is read a fixed number of times: were it twice at each, this would never end."""
    patch: dict[str, Any] = {"a": 1}
    for _ in range(150):
        patch = {"x": patch, "$setElementOrder/y": [], "y": [], "$retainKeys": ["x", "y"]}
    tree = strategic_merge.apply({}, patch, SCHEMA)
    assert strategic_merge.apply(tree, patch, SCHEMA) == tree


def test_huge_lists_and_many_directives() -> None:
    many = 20_000
    live = {"parts": [part(str(i)) for i in range(many)], "tags": [str(i) for i in range(many)]}
    patch = {
        "$setElementOrder/parts": [part(str(i)) for i in reversed(range(many))],
        "parts": [part(str(i), port=1) for i in reversed(range(many))],
        "$deleteFromPrimitiveList/tags": [str(i) for i in range(many - 1)],
        **{f"${i}": i for i in range(many)},
        **{f"$setElementOrder/{i}": [] for i in range(many)},
    }
    result = applied(live, patch)
    assert [item["name"] for item in result["parts"]] == [str(i) for i in reversed(range(many))]
    assert result["tags"] == [str(many - 1)]


_names = st.sampled_from(["a", "b", "c", "d"])
_parts = st.lists(
    st.fixed_dictionaries({"name": _names}, optional={"port": st.integers(0, 2)}), unique_by=lambda item: item["name"]
)
_things = st.fixed_dictionaries(
    {},
    optional={
        "parts": _parts,
        "unions": _parts,
        "plain": _parts,
        "tags": st.lists(_names, unique=True),
        "union": st.fixed_dictionaries({}, optional={"a": st.integers(0, 2), "b": st.integers(0, 2)}),
        "byName": st.dictionaries(_names, st.fixed_dictionaries({"name": _names})),
        "metadata": st.fixed_dictionaries({}, optional={"finalizers": st.lists(_names, unique=True)}),
    },
)


@given(_things, _things)
def test_a_patch_made_from_two_objects_leads_from_one_to_the_other(original: Any, modified: Any) -> None:
    before = copy.deepcopy((original, modified))
    patch = strategic_merge_patches.create(original, modified, SCHEMA)
    assert applied(original, patch) == modified
    assert (original, modified) == before
    assert strategic_merge_patches.create(modified, modified, SCHEMA) == {}


_fields = ("parts", "plain", "tags", "union", "metadata", "finalizers", "name", "ports")
_directives = ("$patch", "$retainKeys", "$setElementOrder/parts", "$setElementOrder/finalizers")
_removals = ("$deleteFromPrimitiveList/tags", "$deleteFromPrimitiveList/parts")
_keys = st.sampled_from((*_fields, *_directives, *_removals))
_anything = st.recursive(
    st.sampled_from(["merge", "replace", "delete", "a", "name", None, True, 0, 1.5]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@examples(300)
@given(st.dictionaries(_keys, _anything, max_size=4), st.dictionaries(_keys, _anything, max_size=4))
def test_any_patch_is_applied_or_refused_in_words(tree: Any, patch: Any) -> None:
    before = copy.deepcopy((tree, patch))
    with contextlib.suppress(PatchError):
        strategic_merge.apply(tree, patch, SCHEMA)
    assert (tree, patch) == before


def test_what_a_declaration_may_not_say() -> None:
    def declare(hint: Any) -> None:
        type("Wrong", (Model,), {"__annotations__": {"field": hint}, "__doc__": "Wrong.", "__module__": __name__})

    for hint in (
        Annotated[str, PatchMerge()],
        Annotated[list[Part], PatchMerge()],
        Annotated[list[Part], PatchMerge("nom")],
        Annotated[list[Part], PatchMerge("conditions")],
        Annotated[list[str], PatchMerge("name")],
        Annotated[int, PatchReplace],
        Annotated[str, RetainKeys],
    ):
        with pytest.raises(DeclarationError):
            declare(hint)
