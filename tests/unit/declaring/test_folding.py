"""A hook's changes come back into the tree, and nothing else does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.schema.types.folding import Session, fold, same
from oarlock.schema.types.markers import JSON, ListMap
from oarlock.schema.types.reflect import schema_of
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model, ObjectMeta, replace
from oarlock.schema.types.views import builtins_of, view


class Port(Model):
    name: str
    number: int = 80


class Inner(Model):
    text: str = ""
    kids: list[Port] = []


class Spec(Model):
    keyed: Annotated[list[Port], ListMap("name")] = []
    loose: list[Port] = []
    more: list[Port] = []
    by_name: dict[str, Port] = {}
    main: Port | None = None
    inner: Inner = Inner()
    tags: list[str] = []
    free: JSON = None
    when: datetime | None = None
    ratio: float | None = None
    maybe: int | None = None


class Foo(Resource, group="foo.example.com", version="v1"):
    spec: Spec = Spec()


Tree = dict[str, Any]


def port(name: str, **more: Any) -> Tree:
    return {"name": name, "number": 80, **more}


def folded(spec: Tree, change: Callable[[Spec], Any], **more: Any) -> Tree:
    """The spec after `change`."""
    tree: Tree = {"metadata": {"name": "a"}, "spec": spec, **more}
    kept = copy.deepcopy(tree)
    session = Session(tree, Foo)
    change(session.object.spec)
    result = session.result()
    assert tree == kept
    found: Tree = result["spec"]
    return found


def test_without_a_change_the_very_tree_comes_back() -> None:
    tree = {
        "metadata": {"deletionTimestamp": None},
        "spec": {"when": "2026-01-01T00:00:00.5+01:00", "ratio": 1, "zz": 1},
    }
    assert Session(tree, Foo).result() is tree


def test_what_did_not_change_is_the_same_node_as_before() -> None:
    tree = {"metadata": {"name": "a", "odd": 1}, "spec": {"inner": {"kids": [port("x", u=1)]}, "tags": ["a"]}}
    session = Session(tree, Foo)
    session.object.spec.tags.append("b")
    result = session.result()
    assert result["metadata"] is tree["metadata"]
    assert result["spec"]["inner"] is tree["spec"]["inner"]  # type: ignore[index]
    assert result["spec"]["tags"] == ["a", "b"]


def test_defaults_of_the_class_stay_out_of_the_tree() -> None:
    assert folded({"tags": ["a"]}, lambda s: s.tags.append("b")) == {"tags": ["a", "b"]}


def test_odd_spellings_stay_until_the_field_changes() -> None:
    spec = {"when": "2026-01-01T00:00:00.500Z", "ratio": 2.0, "maybe": None, "tags": ["x"]}
    after = folded(spec, lambda s: s.tags.clear())
    assert after == {"when": "2026-01-01T00:00:00.500Z", "ratio": 2.0, "maybe": None}
    changed = folded(spec, lambda s: setattr(s, "when", datetime(2026, 2, 1, tzinfo=UTC)))
    assert changed["when"] == "2026-02-01T00:00:00Z"


def test_unknown_fields_follow_their_object_wherever_it_goes() -> None:
    spec = {"loose": [port("a", u="A"), port("b", u="B"), port("c", u="C")], "more": [port("m", u="M")]}

    def shuffle(s: Spec) -> None:
        a, b, c = s.loose
        a.number = 1
        s.loose = [c, Port(name="new"), a]
        s.more.append(b)

    after = folded(spec, shuffle)
    assert after["loose"] == [port("c", u="C"), port("new"), {**port("a", u="A"), "number": 1}]
    assert after["more"] == [port("m", u="M"), port("b", u="B")]


def test_a_new_object_inherits_only_where_a_key_says_it_is_the_same() -> None:
    spec = {
        "keyed": [port("a", u="A"), port("b", u="B")],
        "loose": [port("a", u="A")],
        "by_name": {"x": port("x", u="X")},
        "byName": {"x": port("x", u="X")},
        "main": port("m", u="M"),
    }

    def put(s: Spec) -> None:
        s.keyed = [Port(name="b", number=1), Port(name="c")]
        s.loose = [Port(name="a", number=1)]
        s.by_name["x"] = Port(name="x", number=1)
        s.main = Port(name="m", number=1)

    after = folded(spec, put)
    assert after["keyed"] == [{**port("b", u="B"), "number": 1}, port("c")]
    assert after["loose"] == [{"name": "a", "number": 1}]
    assert after["byName"] == {"x": {"name": "x", "number": 1}}
    assert after["main"] == {"name": "m", "number": 1}
    assert after["by_name"] == {"x": port("x", u="X")}


def test_an_equal_copy_counts_as_the_same_object() -> None:
    spec = {"loose": [port("a", u="A"), port("b", u="B")], "tags": []}

    def copies(s: Spec) -> None:
        s.loose = [replace(p) for p in reversed(s.loose)]

    assert folded(spec, copies)["loose"] == [port("b", u="B"), port("a", u="A")]


def test_a_copy_beside_its_original_is_a_new_object() -> None:
    spec = {"loose": [port("a", u="A")]}
    after = folded(spec, lambda s: s.loose.append(replace(s.loose[0])))
    assert after["loose"] == [port("a", u="A"), port("a")]


def test_metadata_is_always_the_object_s_own() -> None:
    tree = {"metadata": {"name": "a", "managedFields": [1], "labels": {"x": "y"}}, "spec": {}}
    session = Session(tree, Foo)
    session.object.metadata = ObjectMeta(name="a", annotations={"k": "v"})
    assert session.result()["metadata"] == {"name": "a", "managedFields": [1], "annotations": {"k": "v"}}


def test_free_json_keeps_its_types_apart() -> None:
    assert same(1, 1)
    assert not same(1, True)
    assert not same(1, 1.0)
    assert not same([1], [True])
    assert folded({"free": {"a": 1}}, lambda s: s.free.update(a=True)) == {"free": {"a": True}}
    assert type(folded({"free": {"a": 1}}, lambda s: s.free.update(a=True))["free"]["a"]) is bool


def test_removing_and_setting_optional_fields() -> None:
    assert folded({"main": port("m"), "zz": 1}, lambda s: setattr(s, "main", None)) == {"zz": 1}
    assert folded({}, lambda s: setattr(s, "main", Port(name="m"))) == {"main": {"name": "m", "number": 80}}
    assert folded({"maybe": None}, lambda s: setattr(s, "maybe", 3)) == {"maybe": 3}


def test_trees_alone_fold_by_key_then_equality_then_position() -> None:
    schema = schema_of(Spec)
    tree = {"keyed": [port("a", u=1), port("b", u=2)], "loose": [port("a", u=1), port("b", u=2)]}
    before = {"keyed": [port("a"), port("b")], "loose": [port("a"), port("b")]}
    after = {"keyed": [port("b"), {"name": "a", "number": 1}], "loose": [port("b"), {"name": "z", "number": 80}]}
    result = fold(tree, before, after, schema)
    assert result["keyed"] == [port("b", u=2), {"name": "a", "number": 1, "u": 1}]
    assert result["loose"] == [port("b", u=2), port("z")]
    assert fold(tree, before, copy.deepcopy(before), schema) is tree
    changed = copy.deepcopy(before)
    changed["loose"][1]["number"] = 5
    assert fold(tree, before, changed, schema)["loose"] == [port("a", u=1), {**port("b", u=2), "number": 5}]


def test_a_thousand_items_in_another_order_are_matched_without_comparing_all_pairs() -> None:
    spec = {"loose": [port(f"p{i}", u=i) for i in range(1000)]}
    after = folded(spec, lambda s: setattr(s, "loose", [replace(p) for p in reversed(s.loose)]))
    assert after["loose"] == spec["loose"][::-1]


# --- properties -------------------------------------------------------------------------------------------------

names = st.text("abc", min_size=1, max_size=2)
unknown = st.dictionaries(st.sampled_from(["u1", "u2"]), st.integers() | st.none() | st.booleans(), max_size=2)
ports = st.builds(lambda n, i, u: {"name": n, "number": i, **u}, names, st.integers(0, 3), unknown)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.5]) | names,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=5,
)
times = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.25+03:00", None])
specs = st.fixed_dictionaries(
    {},
    optional={
        "keyed": st.lists(ports, max_size=3, unique_by=lambda p: p["name"]),
        "loose": st.lists(ports, max_size=3),
        "more": st.lists(ports, max_size=3),
        "byName": st.dictionaries(names, ports, max_size=2),
        "main": ports | st.none(),
        "inner": st.fixed_dictionaries({}, optional={"text": names, "kids": st.lists(ports, max_size=2), "u3": json}),
        "tags": st.lists(names, max_size=3),
        "free": json,
        "when": times,
        "ratio": st.sampled_from([1, 1.0, 0.5, None]),
        "maybe": st.none() | st.integers(0, 2),
        "unknown": json,
    },
)


def _edit_ports(pick: Callable[[st.SearchStrategy[Any]], Any], items: list[Port]) -> None:
    for _ in range(pick(st.integers(0, 3))):
        at = pick(st.integers(0, max(len(items) - 1, 0)))
        match pick(st.sampled_from(["add", "drop", "edit", "reverse", "copy"])):
            case "add":
                items.insert(at, Port(name=pick(names)))
            case "drop" if items:
                del items[at]
            case "edit" if items:
                items[at].number = 1000
            case "reverse":
                items.reverse()
            case "copy" if items:
                items[at] = replace(items[at])
            case _:
                pass


def _mutate(pick: Callable[[st.SearchStrategy[Any]], Any], spec: Spec) -> None:
    for attribute in pick(st.lists(st.sampled_from(["loose", "more", "keyed", "kids"]), max_size=3)):
        _edit_ports(pick, spec.inner.kids if attribute == "kids" else getattr(spec, attribute))
    for action in pick(st.lists(st.integers(0, 7), max_size=3)):
        match action:
            case 0:
                spec.free = pick(json)
            case 1:
                spec.main = Port(name="new")
            case 2:
                spec.inner.text = "changed"
            case 3:
                spec.loose, spec.more = spec.more, spec.loose
            case 4:
                spec.when = datetime(2026, 3, 1, tzinfo=UTC)
            case 5:
                spec.by_name["x"] = Port(name="x")
            case 6:
                spec.by_name.clear()
            case _:
                spec.inner = replace(spec.inner, text="y")


@pytest.mark.slow
@examples(150)
@given(st.data(), specs)
def test_whatever_a_hook_does_is_what_the_tree_then_says(data: st.DataObject, spec: Tree) -> None:
    tree: Tree = {"metadata": {"name": "a", "managedFields": []}, "spec": spec, "extra": {"x": 1}}
    kept = copy.deepcopy(tree)
    session = Session(tree, Foo)
    before = builtins_of(session.object)
    _mutate(data.draw, session.object.spec)
    after = builtins_of(session.object)
    result = session.result()
    assert same(tree, kept), "the input was changed"
    assert same(builtins_of(view(result, Foo)), after), "the result doesn't say what the hook said"
    assert result["extra"] is tree["extra"]
    assert (result is tree) == same(before, after)
    for key, value in spec.items():
        if key in before["spec"] and same(before["spec"][key], after["spec"].get(key)) and "loose" not in after["spec"]:
            assert same(result["spec"][key], value)  # the very node, but where equal items changed places
    if "unknown" in spec and session.object.spec is not None:
        assert result["spec"]["unknown"] is spec["unknown"]


@pytest.mark.slow
@examples(100)
@given(specs, specs, json)
def test_folding_trees_gives_what_was_asked_for(before: Tree, after: Tree, rest: Any) -> None:
    tree = {**copy.deepcopy(before), "unknown2": rest}
    result = fold(tree, before, after, schema_of(Spec))
    assert same({k: v for k, v in result.items() if k != "unknown2"}, after) or "keyed" in after
    assert result["unknown2"] is tree["unknown2"]


@pytest.mark.parametrize("hostile", [{"spec": {"free": [[[[[]]]]] * 3}}, {"spec": {"byName": {"": port("")}}}])
def test_odd_trees(hostile: Tree) -> None:
    session = Session(hostile, Foo)
    session.object.spec.tags.append("t")
    assert session.result()["spec"] == {**hostile["spec"], "tags": ["t"]}
