"""Each constraint, its words, and the order and limits of what is reported."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.schema.validation.findings import MAX_ERRORS


def check(compiled: Any, schema: Any, value: Any) -> list[str]:
    version = compiled({"type": "object", "properties": {"x": schema}}, typed=False)
    return [error.message for error in version.validate({"metadata": {}, "spec": {"x": value}})]


BODY = "spec.x in body"
CASES = [
    ({"type": "integer", "minimum": 0}, -1, f"Invalid value: -1: {BODY} should be greater than or equal to 0"),
    ({"type": "number", "minimum": 0.5}, 0.5, None),
    (
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
        0,
        f"Invalid value: 0: {BODY} should be greater than 0",
    ),
    ({"type": "integer", "maximum": 9}, 10, f"Invalid value: 10: {BODY} should be less than or equal to 9"),
    ({"type": "integer", "multipleOf": 5}, 7, f"Invalid value: 7: {BODY} should be a multiple of 5"),
    ({"type": "number", "multipleOf": 0.1}, 0.3, None),
    ({"type": "number", "multipleOf": 0.1}, 0.35, f"Invalid value: 0.35: {BODY} should be a multiple of 0.1"),
    ({"type": "string", "minLength": 2}, "a", f'Invalid value: "a": {BODY} should be at least 2 chars long'),
    ({"type": "string", "maxLength": 2}, "äöü", "Too long: may not be more than 2 bytes"),
    ({"type": "string", "maxLength": 3}, "äöü", None),
    ({"type": "string", "pattern": "^[a-z]+$"}, "A", f"Invalid value: \"A\": {BODY} should match '^[a-z]+$'"),
    ({"type": "string", "pattern": "b"}, "abc", None),
    ({"type": "string", "pattern": "^a$"}, "a\n", f"Invalid value: \"a\\n\": {BODY} should match '^a$'"),
    (
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        [],
        f"Invalid value: 0: {BODY} should have at least 1 items",
    ),
    (
        {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
        {},
        f"Invalid value: 0: {BODY} should have at least 1 properties",
    ),
    ({"type": "array", "items": {}, "uniqueItems": True}, [1, 1.0, True, "1"], None),
    (
        {"type": "array", "items": {}, "uniqueItems": True},
        [{"a": 1}, {"a": 1}],
        f'Invalid value: "": {BODY} shouldn\'t contain duplicates',
    ),
    ({"type": "integer"}, 1.0, None),
    ({"type": "number"}, 3, None),
    ({"type": "boolean"}, 1, f'Invalid value: "integer": {BODY} must be of type boolean: "integer"'),
    ({"type": "string", "format": "ipv4"}, "1.2.3", f'Invalid value: "1.2.3": {BODY} must be of type ipv4: "1.2.3"'),
    ({"type": "string", "format": "no-such-format"}, "x", None),
    ({"type": "string", "nullable": True}, None, None),
    ({"type": "string"}, None, f'Invalid value: "null": {BODY} must be of type string: "null"'),
    ({"type": "integer", "enum": [1, 2]}, 1.0, None),
    ({"enum": [True], "x-kubernetes-preserve-unknown-fields": True}, 1, "Unsupported value: 1: supported values: "),
]


@pytest.mark.parametrize(("schema", "value", "expected"), CASES)
def test_a_constraint(compiled: Any, schema: Any, value: Any, expected: str | None) -> None:
    if schema.get("items") == {}:
        schema = {**schema, "items": {"x-kubernetes-preserve-unknown-fields": True}}
    found = check(compiled, schema, value)
    if expected is None:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0].startswith(f"spec.x: {expected}")


def test_every_error_is_reported_in_the_order_of_the_document(compiled: Any) -> None:
    string = {"type": "string", "minLength": 3, "pattern": "^a"}
    version = compiled({"type": "object", "properties": {"a": string, "b": string}, "required": ["c"]})
    found = version.validate({"metadata": {}, "spec": {"b": "x", "a": 1}})
    assert [error.path for error in found] == ["spec.b", "spec.b", "spec.a", "spec.c"]
    assert [error.reason for error in found][-2:] == ["FieldValueTypeInvalid", "FieldValueRequired"]


def test_paths_of_lists_and_maps(compiled: Any) -> None:
    inner = {"type": "object", "additionalProperties": {"type": "integer"}}
    found = check(compiled, {"type": "array", "items": inner}, [{}, {"a": "b"}])
    assert found == ['spec.x[1].a: Invalid value: "string": spec.x[1].a in body must be of type integer: "string"']


def test_branches(compiled: Any) -> None:
    schema = {
        "type": "string",
        "oneOf": [{"pattern": "^a"}, {"pattern": "z$"}],
        "not": {"enum": ["az", "no"]},
    }
    assert check(compiled, schema, "abc") == []
    two = "must validate one and only one schema (oneOf). Found 2 valid alternatives"
    assert check(compiled, schema, "amz") == [f'<nil>: Invalid value: "": "spec.x" {two}']
    assert check(compiled, schema, "no")[-1] == '<nil>: Invalid value: "": "spec.x" must not validate the schema (not)'
    none = check(compiled, schema, "m")
    assert none[0].endswith("(oneOf). Found none valid")
    assert none[1].endswith("should match '^a'")


def test_fields_of_the_name_can_be_constrained(compiled: Any) -> None:
    from_root = compiled({"type": "object"})
    assert from_root.validate({"metadata": {"name": 1}}) == [], "metadata is somebody else's otherwise"


def test_only_so_many_errors_are_told(compiled: Any) -> None:
    found = check(compiled, {"type": "array", "items": {"type": "string"}}, [1] * 100_000)
    assert len(found) == MAX_ERRORS


def test_an_unchanged_value_is_forgiven(compiled: Any) -> None:
    item = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer", "maximum": 10}},
        "required": ["name"],
    }
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    version = compiled(
        {
            "type": "object",
            "properties": {
                "mode": {"type": "string", "enum": ["a", "b"]},
                "keyed": keyed,
                "plain": {"type": "array", "items": item},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
        }
    )
    old = {
        "metadata": {},
        "spec": {
            "mode": "c",
            "keyed": [{"name": "x", "size": 99}],
            "plain": [{"name": "x", "size": 99}],
            "map": {"k": "v"},
        },
    }
    assert len(version.validate(old)) == 4
    assert version.validate(old, old) == []
    spec = {
        "mode": "c",
        "keyed": [{"name": "new", "size": 1}, {"name": "x", "size": 99, "other": 1}],
        "plain": [{"name": "new", "size": 1}, {"name": "x", "size": 99}],
        "map": {"k": "v", "l": "w"},
    }
    found = version.validate({"metadata": {}, "spec": spec}, old)
    # items of a list without keys can't be told to be the same as before
    assert [error.path for error in found] == ["spec.plain[1].size", "spec.map.l"]
    found = version.validate({"metadata": {}, "spec": {**spec, "mode": "d"}}, old)
    assert found[0].path == "spec.mode"


def test_selectable_values_are_texts(compiled: Any) -> None:
    scalar = {"x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"a": scalar, "b": scalar}}
    version = compiled(schema, selectable=(".spec.a", ".spec.b"))
    assert version.selectable_values({"spec": {"a": "x", "b": True}}) == ("x", "true")
    assert version.selectable_values({"spec": {"a": 5, "b": False}}) == ("5", "false")
    assert version.selectable_values({"spec": {"b": None}}) == ("", "")
    assert version.selectable_values({}) == ("", "")
    assert version.selectable_values({"spec": {"a": [], "b": {}}}) == ("", "")
