"""The table of typed values and sets of fields: 503 cases of the reference library, group by group.

Nine cases can't apply (`NOT_JSON`): eight compare with a Go value of no JSON type (the table shows it as ``{}``), one
has a path element that is of no kind. Here every value is JSON, and an element is a text that says its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fieldsv1_text
import pytest
import yaml

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.patch.apply import elements, fieldsets, validate
from oarlock.patch.apply.fieldsets import FieldsV1, compare
from oarlock.patch.apply.merge import merge
from oarlock.patch.apply.owned import fields_of, with_named_fields
from oarlock.patch.apply.reconcile import reconcile
from oarlock.patch.apply.schema import DEDUCED, ListType, MapType, ValueType
from oarlock.patch.apply.updater import extract, remove
from oarlock.patch.errors import FieldsError, TypedError

NOT_JSON = {f"Invalid-{n}" for n in range(1, 9)} | {"FieldName-0"}
UNPARSEABLE = "unparseable"

Groups = dict[str, list[Any]]


@pytest.fixture(scope="module")
def groups(shared_vectors: Callable[[str], Any]) -> Groups:
    found: Groups = shared_vectors("smd_typed_fieldpath.json")["groups"]
    assert sum(map(len, found.values())) == 503
    return found


# What the table says in calls ------------------------------------------------------------------------------------


def load(text: str) -> Any:
    """The first document; what follows it (a brace too many, in one case) is not read."""
    return next(yaml.safe_load_all(text), None)


def plain(said: Any) -> Any:
    """The JSON value behind a call that makes a value."""
    return said["args"][0] if isinstance(said, dict) and "$call" in said else said


def element_of(said: dict[str, Any]) -> str:
    call, args = said.get("$call"), said.get("args", [])
    if call in ("KeyByFields", "_KBF", "KeyElementByFields"):
        return elements.key(dict(zip(args[::2], args[1::2], strict=True)))
    if call == "IndexElement":
        return elements.index(args[0])
    if call == "FieldNameElement":
        return elements.field(args[0])
    if call in ("ValueElement", "value.NewValueInterface"):
        return elements.value(plain(args[0]))
    if call == "MatchAnyPathElement":
        return fieldsets.ANY
    fields = args if call == "KeyElement" else said["$v"]
    return elements.key({one["Name"]: plain(one["Value"]) for one in fields})


def path_of(said: dict[str, Any], type_: ValueType | None = None, value: Any = None) -> elements.Path:
    """A path. The table doesn't tell a field from a member of a set; the type does, else the value."""
    path = []
    for one in said["args"]:
        if isinstance(one, dict):
            path.append(element_of(one))
        elif type_ is not None and type_.list is not None and (type_.map is None or type(value) is list):
            path.append(elements.value(one))
        else:
            path.append(elements.field(one) if isinstance(one, str) else elements.index(one))
        if type_ is not None:
            name = path[-1][2:]
            value = value.get(name) if type(value) is dict else None
            kind = type_.map if path[-1][:2] == "f:" else None
            type_ = kind.child(name) if kind is not None else type_.list.element if type_.list is not None else None
    return tuple(path)


def set_of(said: dict[str, Any], type_: ValueType | None = None, value: Any = None) -> FieldsV1:
    return fieldsets.make(path_of(one, type_, value) for one in said["args"])


def same(a: FieldsV1, b: FieldsV1) -> bool:
    return fieldsv1_text.to_json(a) == fieldsv1_text.to_json(b)


def cases(groups: Groups, group: str, inner: str, schema: Callable[[str], Any]) -> list[tuple[ValueType, Any]]:
    """The cases of a typed group with their type."""
    return [
        (schema(one["schema"]).named(one["rootTypeName"]), case)
        for one in groups[f"typed..{group}"]
        for case in one[inner]
    ]


# Typed values ----------------------------------------------------------------------------------------------------


def test_merging(groups: Groups, smd_schema: Callable[[str], Any]) -> None:
    found = cases(groups, "mergeCases", "triplets", smd_schema)
    found += [(DEDUCED, case) for case in groups["typed.TestMergeDeduced.triplets"]]
    for type_, case in found:
        live, config, out = (load(case[side]) for side in ("lhs", "rhs", "out"))
        validate.check(type_, config)
        before = json.encode(live), json.encode(config)
        assert merge(type_, live, config) == out, case
        assert before == (json.encode(live), json.encode(config))


def test_validating(groups: Groups, smd_schema: Callable[[str], Any]) -> None:
    for type_, text in cases(groups, "validationCases", "validObjects", smd_schema):
        validate.check(type_, load(text))
    for type_, text in cases(groups, "validationCases", "invalidObjects", smd_schema):
        with pytest.raises(TypedError):
            validate.check(type_, load(text))
    for one in groups["typed..validationCases"]:
        type_ = smd_schema(one["schema"]).named(one["rootTypeName"])
        for text in one.get("duplicatesObjects", ()):
            with pytest.raises(TypedError, match="duplicate entries for key"):
                validate.check(type_, load(text))
    for text in groups["typed.TestValidateDeducedType.tests"]:
        validate.check(DEDUCED, load(text))


def test_the_fields_of_a_value(groups: Groups, smd_schema: Callable[[str], Any]) -> None:
    found = cases(groups, "fieldsetCases", "pairs", smd_schema)
    found += [(DEDUCED, case) for case in groups["typed.TestToSetDeduced.tests"]]
    for type_, case in found:
        assert same(fields_of(type_, load(case["object"])), set_of(case["set"], type_)), case


def test_comparing(groups: Groups, smd_schema: Callable[[str], Any]) -> None:
    found = cases(groups, "symdiffCases", "quints", smd_schema)
    found += [(DEDUCED, case) for case in groups["typed.TestSymdiffDeduced.quints"]]
    for type_, case in found:
        old, new = load(case["lhs"]), load(case["rhs"])
        changes = compare(type_, old, new)
        for name, side in (("added", new), ("modified", new), ("removed", old)):
            assert same(getattr(changes, name), set_of(case[name], type_, side)), (name, changes, case)


def test_removing_and_extracting(groups: Groups, smd_schema: Callable[[str], Any]) -> None:
    for type_, case in cases(groups, "removeCases", "quadruplets", smd_schema):
        value, fields = load(case["object"]), set_of(case["set"], type_)
        for function, expected in ((remove, case["removeOutput"]), (extract, case["extractOutput"])):
            left = function(type_, value, fields)
            if expected == UNPARSEABLE:  # what is left has list items without a key
                assert left is not None
            else:
                assert left == load(expected), (function, case)


def topology(*, atomic: bool) -> dict[str, ValueType]:
    """The types of the reconciling cases, whose schemas are made by functions that the table only names."""
    text = ValueType("string")
    item = ValueType(map=MapType(dict.fromkeys(("keyA", "keyB", "value"), text)))
    keys = () if atomic else ("keyA", "keyB")
    list_ = ValueType(list=ListType(text, atomic))
    fields = {
        "struct": ValueType(map=MapType({"numeric": ValueType("numeric"), "string": text}, atomic=atomic)),
        "list": list_,
        "objectList": ValueType(list=ListType(item, atomic, keys)),
        "stringMap": ValueType(map=MapType(element=text, atomic=atomic)),
        "unchanged": ValueType(map=MapType({"numeric": ValueType("numeric")})),
    }
    unknown = ValueType(map=MapType(element=DEDUCED))
    populated = ValueType(map=MapType({"list": list_}, element=DEDUCED))
    return {
        "v1": ValueType(map=MapType(fields)),
        "empty": unknown,
        "emptyWithPreserveUnknown": ValueType(map=MapType({"preserveField": unknown})),
        "populatedWithPreserveUnknown": ValueType(map=MapType({"preserveField": populated})),
    }


def test_reconciling_with_another_schema(groups: Groups) -> None:
    schemas = {"granularSchema": topology(atomic=False), "atomicSchema": topology(atomic=True)}
    for case in groups["typed..reconcileCases"]:
        name = case["rootTypeName"]
        old, new = (schemas[case[which]["$call"]][name] for which in ("oldSchema", "newSchema"))
        fields = set_of(case["oldFields"], schemas["granularSchema"][name] if name != "empty" else old)
        reconciled = reconcile(new, fields)
        if case["fixedFields"] is None:
            assert reconciled is fields, case["name"]
        else:
            assert same(reconciled, set_of(case["fixedFields"])), case["name"]


# Path elements and sets ------------------------------------------------------------------------------------------


def test_path_elements_as_text(groups: Groups) -> None:
    for group in ("TestPathElementRoundTrip", "TestDeserializePathElementSuccess"):
        for case in groups[f"fieldpath.{group}.tests"]:
            element = element_of(case["pathElement"])
            assert elements.canonical(case["stringValue"]) == element, case
            assert elements.canonical(element) == element
            if group == "TestPathElementRoundTrip":
                assert element == case["stringValue"]


def test_texts_that_are_no_path_element(groups: Groups) -> None:
    for text in groups["fieldpath.TestDeserializePathElementError.tests"]:
        with pytest.raises(FieldsError):
            elements.canonical(text)


def test_fields_v1_of_others_is_read_as_it_is(groups: Groups) -> None:
    for text in groups["fieldpath.TestSerializeV1GoldenData.examples"]:
        assert fieldsv1_text.from_json(text.encode()) == json.decode(text.encode())


def test_fields_v1_that_cannot_be_read(groups: Groups) -> None:
    for case in groups["fieldpath.TestSetFromJSONTokenTypeErrors.cases"]:
        with pytest.raises(FieldsError):
            fieldsv1_text.from_json(case["input"].encode())
    for case in groups["fieldpath.TestSetFromJSON.cases"]:
        expected: FieldsV1 = {"f:a": {}} if "f:a" in case["input"] else {}
        assert fieldsv1_text.from_json(case["input"].encode()) == expected, case


def test_paths_as_text(groups: Groups) -> None:
    for case in groups["fieldpath.TestPathString.table"]:
        path: list[str] = []
        for one in case["fp"]["args"]:
            rest = case["expect"][len(elements.path_text(path)) :]
            if rest.startswith("[="):  # the table tells members of sets from names and indices no other way
                path.append(elements.value(one))
            else:
                path.extend(path_of({"args": [one]}))
        assert elements.path_text(path) == case["expect"]


def test_the_order_of_path_elements(groups: Groups) -> None:
    for case in groups["fieldpath.TestPathElementLess.table"]:
        if case["name"] in NOT_JSON:
            continue
        a, b = element_of(case["a"]), element_of(case["b"])
        if case.get("eq"):
            assert a == b
        else:
            assert elements.order(a) < elements.order(b), case


def test_membership_and_equality(groups: Groups) -> None:
    for case in groups["fieldpath.TestSetInsertHas.table"]:
        assert fieldsets.has(set_of(case["set"]), path_of(case["check"])) is case["expectMembership"]
    for case in groups["fieldpath.TestSetEquals.table"]:
        assert same(set_of(case["a"]), set_of(case["b"])) is case["equal"]
        assert (set_of(case["a"]) == set_of(case["b"])) is case["equal"]


def test_leaves_and_differences(groups: Groups) -> None:
    for case in groups["fieldpath.TestSetLeaves.table"]:
        assert same(fieldsets.leaves(set_of(case["input"])), set_of(case["expected"])), case
    for case in groups["fieldpath.TestSetDifference.table"]:
        a, b = set_of(case["a"]), set_of(case["b"])
        assert fieldsets.difference(a, b) == set_of(case["expectDifference"]), case
        assert fieldsets.recursive_difference(a, b) == set_of(case["expectRecursiveDifference"]), case


def test_named_fields_become_members(groups: Groups, smd_schema: Callable[[str], Any]) -> None:
    for case in groups["fieldpath.TestEnsureNamedFieldsAreMembers.table"]:
        type_ = smd_schema(case["schemaFn"]["$func"].split("`")[1]).named("type")
        before = fields_of(type_, load(case["value"]))
        assert same(before, set_of(case["expectedBefore"])), case
        assert same(with_named_fields(type_, before), set_of(case["expectedAfter"])), case


def test_filtering_by_patterns(groups: Groups) -> None:
    for case in groups["fieldpath.TestFilterByPattern.testCases"]:
        keep = fieldsets.including(*(path_of(one) for one in case["filter"]["args"]))
        assert same(keep(set_of(case["input"])), set_of(case["expect"])), case["name"]


# Values ----------------------------------------------------------------------------------------------------------


def test_the_order_of_values(groups: Groups) -> None:
    table = groups["value.TestValueLess.table"]
    for case in table:
        if case["name"] in NOT_JSON:
            continue
        a, b = elements.value_order(case["a"]), elements.value_order(case["b"])
        assert a == b if case.get("eq") else a < b, case
        assert elements.equal(case["a"], case["b"]) is case.get("eq", False), case
    everywhere = table + groups["fieldpath.TestPathElementLess.table"]
    assert sum(case["name"] in NOT_JSON for case in everywhere) == len(NOT_JSON)


def test_json_values(groups: Groups) -> None:
    for case in groups["value.TestFromJSONTokenTypeErrors.cases"]:
        with pytest.raises(DecodeError):
            json.decode(case["input"].encode())
    for case in groups["value.TestFromJSONValid.cases"]:
        assert json.decode(case["input"].encode()) == json.decode(case["canonical"].encode())
