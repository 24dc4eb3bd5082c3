"""Laws of sets, values and the engine, and input that means no good."""

from __future__ import annotations

import copy
from typing import Any

import fieldsv1_text
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.codec import json
from oarlock.patch.apply import elements, fieldsets, validate
from oarlock.patch.apply.fieldsets import FieldsV1, compare
from oarlock.patch.apply.merge import merge
from oarlock.patch.apply.owned import NamedFields, fields_of, with_named_fields
from oarlock.patch.apply.schema import DEDUCED, ListType, MapType, ValueType
from oarlock.patch.apply.tracking import FieldManager, FieldTracker
from oarlock.patch.apply.updater import Owned, Updater, remove
from oarlock.patch.errors import ApplyConflict, FieldsError, TypedError

TEXT = ValueType("string")
ITEM = ValueType(map=MapType({"name": TEXT, "value": ValueType("untyped")}))
TYPE = ValueType(
    map=MapType(
        {
            "a": ValueType("untyped"),
            "set": ValueType(list=ListType(ValueType("untyped"), atomic=False)),
            "items": ValueType(list=ListType(ITEM, atomic=False, keys=("name",))),
            "atomic": ValueType(map=MapType(element=TEXT, atomic=True)),
            "list": ValueType(list=ListType(TEXT)),
            "map": ValueType(map=MapType(element=TEXT)),
            "any": DEDUCED,
        }
    )
)

SCALARS = st.sampled_from(["x", "y", 1, 2, True, False, 1.5])
TEXTS = st.sampled_from(["x", "y", "z"])
ANYTHING = st.recursive(
    SCALARS | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "a": SCALARS,
        "set": st.lists(st.sampled_from(["x", "y", "z", 1, 2, True]), max_size=3, unique_by=json.encode),
        "items": st.lists(
            st.fixed_dictionaries({"name": TEXTS}, optional={"value": SCALARS}),
            max_size=3,
            unique_by=lambda i: i["name"],
        ),
        "atomic": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "list": st.lists(TEXTS, max_size=2),
        "map": st.dictionaries(TEXTS, TEXTS, max_size=3),
        "any": st.dictionaries(TEXTS, ANYTHING, max_size=2),
    },
)
PATHS = st.lists(
    st.sampled_from(["f:a", "f:b", 'k:{"n":1}', 'k:{"n":"x"}', "v:1", 'v:"1"', "v:true", "i:0", "i:10", "i:2"]),
    min_size=1,
    max_size=3,
).map(tuple)
PATH_SETS = st.sets(PATHS, max_size=6)


def paths(fields: FieldsV1) -> set[elements.Path]:
    return set(fieldsets.iterate(fields))


@given(PATH_SETS, PATH_SETS)
def test_sets_are_sets(a: set[elements.Path], b: set[elements.Path]) -> None:
    left, right = fieldsets.make(a), fieldsets.make(b)
    before = copy.deepcopy((left, right))
    assert paths(left) == a
    assert paths(fieldsets.union(left, right)) == a | b
    assert paths(fieldsets.intersection(left, right)) == a & b
    assert paths(fieldsets.difference(left, right)) == a - b
    below = {path for path in a if any(path[:n] in b for n in range(1, len(path) + 1))}
    assert paths(fieldsets.recursive_difference(left, right)) == a - below
    assert paths(fieldsets.leaves(left)) == {p for p in a if not any(q[: len(p)] == p and q != p for q in a)}
    assert all(fieldsets.has(left, path) == (path in a) for path in a | b)
    assert fieldsets.has(left, ()) is False
    assert (left, right) == before


@given(PATH_SETS)
def test_a_set_survives_its_text(given_paths: set[elements.Path]) -> None:
    fields = fieldsets.make(given_paths)
    text = fieldsv1_text.to_json(fields)
    assert fieldsv1_text.from_json(text) == fields
    assert fieldsv1_text.to_json(fieldsv1_text.from_json(text)) == text
    assert fieldsets.decode(fieldsets.written(fields)) == fields


@given(PATH_SETS)
def test_paths_come_in_order(given_paths: set[elements.Path]) -> None:
    found = list(fieldsets.iterate(fieldsets.make(given_paths)))
    of_one_level = [[path[-1] for path in found if path[:-1] == prefix] for prefix in {path[:-1] for path in found}]
    assert all(level == sorted(level, key=elements.order) for level in of_one_level)


@given(OBJECTS)
def test_nothing_differs_from_itself(value: Any) -> None:
    assert compare(TYPE, value, copy.deepcopy(value)).empty


@given(OBJECTS, OBJECTS)
def test_a_comparison_is_the_other_way_round_from_behind(old: Any, new: Any) -> None:
    there, back = compare(TYPE, old, new), compare(TYPE, new, old)
    assert (paths(there.added), paths(there.modified), paths(there.removed)) == (
        paths(back.removed),
        paths(back.modified),
        paths(back.added),
    )


@given(OBJECTS, OBJECTS)
def test_merging_keeps_what_is_said(live: Any, config: Any) -> None:
    before = copy.deepcopy((live, config))
    merged = merge(TYPE, live, config)
    validate.check(TYPE, merged)
    assert (live, config) == before
    assert merge(TYPE, merged, config) == merged
    said, changes = paths(fields_of(TYPE, config)), compare(TYPE, config, merged)
    assert not said & (paths(changes.modified) | paths(changes.removed))


@given(OBJECTS, OBJECTS)
def test_named_fields_collected_at_once_are_the_same(one: Any, two: Any) -> None:
    named = NamedFields()
    for value in (one, merge(TYPE, one, two), two):
        assert named.of(TYPE, value) == with_named_fields(TYPE, fields_of(TYPE, value))


@given(OBJECTS, OBJECTS)
def test_what_was_removed_is_not_there(value: Any, other: Any) -> None:
    fields = fields_of(TYPE, other)
    left = remove(TYPE, value, fields) or {}
    assert (
        not paths(fields_of(TYPE, value))
        & paths(fields)
        & {path for path in paths(fields_of(TYPE, left)) if not fieldsets.has(fields_of(TYPE, value), path)}
    )


@pytest.mark.slow
@examples(200)
@given(st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), st.booleans(), OBJECTS), max_size=6))
def test_a_history_of_writes(writes: list[tuple[str, bool, Any]]) -> None:
    """After each write appliers own what they applied, updaters never more than is there, and all is repeatable."""
    updater: Updater[str] = Updater({"v1": TYPE})
    live: Any = {}
    managers: dict[str, Owned] = {}
    for manager, applies, value in writes:
        name = f"{manager} applies" if applies else manager
        if not applies:
            before = live
            live = value
            managers = updater.update(before, live, "v1", managers, name)
        else:
            try:
                live, managers = updater.apply(live, value, "v1", managers, name, force=False)
            except ApplyConflict:
                live, managers = updater.apply(live, value, "v1", managers, name, force=True)
            live = live or {}
            assert paths(managers[name].fields if name in managers else {}) == paths(fields_of(TYPE, value))
            # An empty list is owned by nobody: it goes with what was dropped from it, and comes with the next apply.
            again, managers = updater.apply(live, value, "v1", managers, name, force=False)
            live, same = updater.apply(again, value, "v1", managers, name, force=False)
            assert live == again
            assert same == managers
        validate.check(TYPE, live)
        assert all(owned.fields for owned in managers.values())


@given(OBJECTS, OBJECTS)
def test_a_whole_object_stays_itself(live: Any, new: Any) -> None:
    """Tracking changes managedFields and nothing else, and shares nothing that a caller might change by mistake."""
    tracker = FieldTracker({"v1": TYPE})
    first = tracker.update(None, {**live, "metadata": {"name": "x"}}, FieldManager("m", "v1", "2026-01-01T00:00:00Z"))
    kept = copy.deepcopy(first)
    second = tracker.update(first, {**new, "metadata": {"name": "x"}}, FieldManager("n", "v1", "2026-01-01T00:00:01Z"))
    for entry in second["metadata"].get("managedFields", ()):
        if entry["manager"] == "n":
            entry["fieldsV1"].clear()
    assert {**second, "metadata": 0} == {**new, "metadata": 0}
    repeated = tracker.update(kept, {**new, "metadata": {"name": "x"}}, FieldManager("n", "v1", "2026-01-01T00:00:01Z"))
    named = [entry["fieldsV1"] for entry in repeated["metadata"].get("managedFields", ()) if entry["manager"] == "n"]
    assert all(named)


# Input that means no good ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b'{"i:99999999999999999999":{}}',
        b'{"i:\xd9\xa1":{}}',
        b'{"k:[1]":{}}',
        b'{"k:1":{}}',
        b'{"v:1e999":{}}',
        b'{"v:\\ud800":{}}',
        b'{"f:a":' * 300 + b"{}" + b"}" * 300,
        b"\xff",
    ],
)
def test_fields_that_mean_no_good(text: bytes) -> None:
    with pytest.raises(FieldsError):
        fieldsv1_text.from_json(text)


def test_odd_fields_that_are_read() -> None:
    assert fieldsv1_text.from_json(b'{".":{},"x:later":{"f:a":{}},"f:":{},"f:.":{}}') == {"f:": {}, "f:.": {}}
    assert fieldsv1_text.from_json(b'{"f:a":{".":{}}}') == {"f:a": {}}
    assert fieldsv1_text.from_json(b'{"v:1":{},"v:1.0":{"f:a":{}}}') == {"v:1": {".": {}, "f:a": {}}}
    assert fieldsv1_text.from_json(b'{"k:{\\"b\\":1,\\"a\\":2}":{}}') == {'k:{"a":2,"b":1}': {}}
    long = "x" * 100_000
    assert elements.canonical(f'v: "{long}"') == f'v:"{long}"'


def nested(depth: int) -> Any:
    value: Any = 1
    for number in range(depth):
        value = {"x": value} if number % 2 else {"x": value, "y": [number]}
    return value


def test_what_is_as_deep_as_a_body_may_be() -> None:
    deep, deeper = nested(190), nested(190)
    inner = deeper
    while isinstance(inner["x"], dict):
        inner = inner["x"]
    inner["x"] = 2
    tracker = FieldTracker({"v1": ValueType(map=MapType(element=DEDUCED))})
    writer = FieldManager("m", "v1", "2026-01-01T00:00:00Z")
    live = tracker.update(None, {"metadata": {"name": "x"}, "any": deep}, writer)
    changed = tracker.update(live, {"metadata": {"name": "x"}, "any": deeper}, FieldManager("n", "v1", writer.now))
    assert len(changed["metadata"]["managedFields"]) == 2
    applied = tracker.apply(changed, {"metadata": {"name": "x"}, "any": deep}, writer, force=True)
    assert tracker.apply(applied, {"metadata": {"name": "x"}}, writer)["metadata"]["managedFields"]


def test_many_problems_are_cut_short() -> None:
    type_ = ValueType(map=MapType({"items": ValueType(list=ListType(TEXT))}))
    with pytest.raises(TypedError) as refused:
        validate.check(type_, {"items": [1] * 5000})
    assert len(refused.value.problems) == validate.MAX_PROBLEMS
