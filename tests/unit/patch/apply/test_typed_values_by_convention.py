"""Typed values and sets of fields, by cases of our own: merged, compared, cut down, and written as FieldsV1."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import fieldsv1_text
import pytest

from oarlock.codec import json
from oarlock.patch.apply import elements, fieldsets, validate
from oarlock.patch.apply.fieldsets import compare
from oarlock.patch.apply.merge import merge
from oarlock.patch.apply.owned import fields_of
from oarlock.patch.apply.reconcile import reconcile
from oarlock.patch.apply.schema import DEDUCED, ListType, MapType, ValueType
from oarlock.patch.apply.updater import extract, remove
from oarlock.patch.errors import FieldsError, TypedError

TEXT, NUMBER = ValueType("string"), ValueType("numeric")
MAST = ValueType(map=MapType({"name": TEXT, "sails": NUMBER}))
BOAT = ValueType(
    map=MapType(
        {
            "name": TEXT,
            "masts": ValueType(list=ListType(MAST, atomic=False, keys=("name",))),
            "flags": ValueType(list=ListType(TEXT, atomic=False)),
            "log": ValueType(list=ListType(TEXT, atomic=True)),
            "tags": ValueType(map=MapType(element=TEXT)),
            "hull": ValueType(map=MapType({"wood": TEXT, "age": NUMBER}, atomic=True)),
        }
    )
)
LIVE: dict[str, Any] = {
    "name": "sloop",
    "masts": [{"name": "fore", "sails": 1}, {"name": "main", "sails": 2}],
    "flags": ["red", "blue"],
    "log": ["a", "b"],
    "tags": {"x": "1"},
    "hull": {"wood": "oak"},
}


@pytest.mark.parametrize(
    ("said", "changed"),
    [
        ({}, {}),
        ({"name": "ketch"}, {"name": "ketch"}),
        ({"tags": {"y": "2"}}, {"tags": {"x": "1", "y": "2"}}),
        ({"hull": {"age": 3}}, {"hull": {"age": 3}}),
        ({"log": ["c"]}, {"log": ["c"]}),
        ({"flags": ["green", "red"]}, {"flags": ["green", "red", "blue"]}),
        (
            {"masts": [{"name": "main", "sails": 5}, {"name": "mizzen"}]},
            {"masts": [{"name": "fore", "sails": 1}, {"name": "main", "sails": 5}, {"name": "mizzen"}]},
        ),
    ],
)
def test_what_is_said_is_merged_into_what_there_is(said: Any, changed: Any) -> None:
    assert merge(BOAT, LIVE, said) == {**LIVE, **changed}
    assert merge(BOAT, None, said) == said


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ["a"]},
        {"masts": {"name": "a"}},
        {"masts": [{"sails": 1}]},
        {"tags": {"x": {}}},
        {"depth": 1},
        {"hull": "oak"},
    ],
)
def test_values_that_do_not_fit_their_type(wrong: Any) -> None:
    validate.check(BOAT, LIVE)
    with pytest.raises(TypedError):
        validate.check(BOAT, wrong)


@pytest.mark.parametrize("twice", [{"masts": [{"name": "a"}, {"name": "a"}]}, {"flags": ["red", "red"]}])
def test_no_item_is_there_twice(twice: Any) -> None:
    with pytest.raises(TypedError, match="duplicate entries for key"):
        validate.check(BOAT, twice)


def test_the_fields_of_a_value() -> None:
    assert fields_of(BOAT, LIVE) == {
        "f:flags": {'v:"blue"': {}, 'v:"red"': {}},
        "f:hull": {},
        "f:log": {},
        "f:masts": {
            'k:{"name":"fore"}': {".": {}, "f:name": {}, "f:sails": {}},
            'k:{"name":"main"}': {".": {}, "f:name": {}, "f:sails": {}},
        },
        "f:name": {},
        "f:tags": {"f:x": {}},
    }
    assert fields_of(DEDUCED, {"a": {"b": 1}, "c": [1, 2]}) == {
        "f:a": {".": {}, "f:b": {}},
        "f:c": {},
    }


@pytest.mark.parametrize(
    ("change", "added", "modified", "removed"),
    [
        ({}, {}, {}, {}),
        ({"name": "ketch"}, {}, {"f:name": {}}, {}),
        ({"tags": {"y": "2"}}, {"f:tags": {"f:y": {}}}, {}, {"f:tags": {"f:x": {}}}),
        ({"hull": {"wood": "elm"}}, {}, {"f:hull": {}}, {}),
        ({"flags": ["red", "green"]}, {"f:flags": {'v:"green"': {}}}, {}, {"f:flags": {'v:"blue"': {}}}),
    ],
)
def test_comparing(change: Any, added: Any, modified: Any, removed: Any) -> None:
    changes = compare(BOAT, LIVE, {**LIVE, **change})
    assert (changes.added, changes.modified, changes.removed) == (added, modified, removed)


def test_removing_takes_what_extracting_leaves() -> None:
    some = fieldsets.decode({"f:name": {}, "f:masts": {'k:{"name":"fore"}': {}}, "f:flags": {'v:"red"': {}}})
    left = remove(BOAT, LIVE, some)
    assert left == {**{k: v for k, v in LIVE.items() if k != "name"}, "masts": LIVE["masts"][1:], "flags": ["blue"]}
    taken = extract(BOAT, LIVE, fields_of(BOAT, {"name": "x", "masts": [{"name": "fore", "sails": 0}]}))
    assert taken == {"name": "sloop", "masts": [{"name": "fore", "sails": 1}]}


def test_owners_of_parts_own_the_whole_once_it_is_atomic() -> None:
    granular = ValueType(map=MapType({"hull": ValueType(map=MapType({"wood": TEXT}))}))
    atomic = ValueType(map=MapType({"hull": ValueType(map=MapType({"wood": TEXT}, atomic=True))}))
    parts = fieldsets.decode({"f:hull": {"f:wood": {}}})
    assert reconcile(granular, parts) is parts
    assert reconcile(atomic, parts) == {"f:hull": {}}


@pytest.mark.parametrize(
    "text", ["f:name", "f:", "i:0", "i:12", 'v:"red"', "v:1", "v:1.5", "v:true", "v:null", 'k:{"a":1,"b":"x"}', "v:[1]"]
)
def test_path_elements_as_text(text: str) -> None:
    assert elements.canonical(text) == text


@pytest.mark.parametrize("text", ["", "f", "i:", "i:a", "v:", "v:{", "k:", "k:[]", "k:1"])
def test_texts_that_are_no_path_elements(text: str) -> None:
    with pytest.raises(FieldsError):
        elements.canonical(text)


def test_an_element_of_a_kind_to_come_is_passed_over() -> None:
    assert elements.canonical("x:1") is None


def test_keys_are_sorted_and_numbers_have_one_form() -> None:
    assert elements.canonical('k:{"b": "x", "a": 1}') == 'k:{"a":1,"b":"x"}'
    assert elements.key({"port": 80, "name": "web"}) == 'k:{"name":"web","port":80}'


def test_the_order_of_elements_and_values() -> None:
    rising = [elements.field(""), elements.field("a"), elements.field("b"), elements.key({"a": 1})]
    rising += [elements.key({"a": 2}), elements.value(1), elements.value("a"), elements.index(0), elements.index(10)]
    assert all(elements.order(a) < elements.order(b) for a, b in pairwise(rising))
    numbers = [-1, 0.5, 1, 2]
    assert all(elements.value_order(a) < elements.value_order(b) for a, b in pairwise(numbers))
    assert elements.equal(1, 1.0)
    assert not elements.equal(1, True)
    assert not elements.equal({"a": 1}, {"a": 2})


def test_paths_as_text() -> None:
    path = (elements.field("a"), elements.key({"name": "x"}), elements.field("b"), elements.index(2))
    assert elements.path_text(path) == '.a[name="x"].b[2]'
    assert elements.path_text((elements.field("flags"), elements.value("red"))) == '.flags[="red"]'


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"f:a":{}}',
        '{"f:a":{".":{},"f:b":{}}}',
        '{"f:l":{"k:{\\"name\\":\\"x\\"}":{".":{},"f:v":{}},"v:1":{},"i:0":{}}}',
    ],
)
def test_fields_v1_is_read_as_it_is(text: str) -> None:
    assert fieldsv1_text.from_json(text.encode()) == json.decode(text.encode())


@pytest.mark.parametrize("text", ["", "[]", "1", '"a"', '{"a":{}}', '{"f:a":1}', '{"f:a":[]}', '{"f:a":{}'])
def test_texts_that_are_no_fields(text: str) -> None:
    with pytest.raises(FieldsError):
        fieldsv1_text.from_json(text.encode())


def test_sets_of_paths() -> None:
    a, ab, c = (elements.field("a"),), (elements.field("a"), elements.field("b")), (elements.field("c"),)
    both = fieldsets.make([a, ab, c])
    assert fieldsets.has(both, a)
    assert not fieldsets.has(fieldsets.make([ab]), a)
    assert fieldsets.leaves(both) == fieldsets.make([ab, c])
    assert fieldsets.difference(both, fieldsets.make([a])) == fieldsets.make([ab, c])
    assert fieldsets.recursive_difference(both, fieldsets.make([a])) == fieldsets.make([c])
    assert fieldsets.union(fieldsets.make([a]), fieldsets.make([c])) == fieldsets.make([a, c])
    keep = fieldsets.including((elements.field("a"), fieldsets.ANY))
    assert fieldsets.has(keep(both), ab)
    assert not fieldsets.has(keep(both), c)
