"""What of a newer schema objects of the older one may not fit: each keyword, wider, narrower and incomparable."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.schema.drift import canonical, narrowings

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
FREE: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def of(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with one field, `f`."""
    return {"type": "object", "properties": {"f": schema}}


def told(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [str(one) for one in narrowings(canonical(old), canonical(new))]


def list_of(items: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **rest}


def keyed(*keys: str, **rest: Any) -> dict[str, Any]:
    fields = dict.fromkeys(keys, TEXT)
    item = {"type": "object", "properties": fields, "required": [*keys]}
    return list_of(item, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*keys]}, **rest)


def rule(text: str, **rest: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": TEXT}, "x-kubernetes-validations": [{"rule": text, **rest}]}


NARROWER: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (TEXT, NUMBER, "f is integer (was string)"),
    (NUMBER, TEXT, "f is string (was integer)"),
    ({"type": "number"}, NUMBER, "f is integer (was number)"),
    ({"x-kubernetes-int-or-string": True}, TEXT, "f is string (was integer or string)"),
    (FREE, {"type": "object"}, "f keeps no other fields: they are lost when the object is next written"),
    ({"x-kubernetes-preserve-unknown-fields": True}, TEXT, "f is string (was of any type)"),
    ({**TEXT, "nullable": True}, TEXT, "f may no longer be null"),
    ({**TEXT, "enum": ["a", "b"]}, {**TEXT, "enum": ["a"]}, 'f no longer takes "b"'),
    ({**TEXT, "enum": ["a", None], "nullable": True}, {**TEXT, "enum": ["a"], "nullable": True}, "f no longer takes"),
    ({**TEXT, "enum": ["a", "bb"]}, {**TEXT, "maxLength": 1}, 'f no longer takes "bb"'),
    (TEXT, {**TEXT, "enum": ["a", "b"]}, 'f takes only "a", "b"'),
    (NUMBER, {**NUMBER, "minimum": 1}, "f minimum is 1 (was none)"),
    ({**NUMBER, "minimum": 0}, {**NUMBER, "minimum": 1}, "f minimum is 1 (was 0)"),
    ({**NUMBER, "minimum": 1}, {**NUMBER, "minimum": 1, "exclusiveMinimum": True}, "f minimum is 1, exclusive (was 1)"),
    ({**NUMBER, "maximum": 9}, {**NUMBER, "maximum": 8}, "f maximum is 8 (was 9)"),
    ({**NUMBER, "maximum": 8}, {**NUMBER, "maximum": 8, "exclusiveMaximum": True}, "f maximum is 8, exclusive (was 8)"),
    (NUMBER, {**NUMBER, "format": "int32"}, "f is integer (int32) (was integer), which takes fewer numbers"),
    (NUMBER, {"x-kubernetes-int-or-string": True}, "f is int-or-string (was integer), which takes fewer numbers"),
    ({"type": "number"}, {"type": "number", "format": "float"}, "f is number (float) (was number), which takes fewer"),
    ({**NUMBER, "multipleOf": 3}, {**NUMBER, "multipleOf": 2}, "f multipleOf is 2 (was 3)"),
    ({**TEXT, "maxLength": 9}, {**TEXT, "maxLength": 8}, "f maxLength is 8 (was 9)"),
    (TEXT, {**TEXT, "minLength": 1}, "f minLength is 1 (was none)"),
    (TEXT, {**TEXT, "pattern": "a"}, 'f pattern is "a" (was none)'),
    ({**TEXT, "pattern": "aa"}, {**TEXT, "pattern": "a"}, 'f pattern is "a" (was "aa")'),
    (TEXT, {**TEXT, "format": "date-time"}, 'f format is "date-time" (was none)'),
    (TEXT, {**TEXT, "format": "byte"}, 'f format is "byte" (was none)'),
    (list_of(TEXT), list_of(NUMBER), "f[*] is integer (was string)"),
    (list_of(TEXT), list_of(TEXT, maxItems=3), "f maxItems is 3 (was none)"),
    (list_of(TEXT, minItems=1), list_of(TEXT, minItems=2), "f minItems is 2 (was 1)"),
    (list_of(TEXT), list_of(TEXT, uniqueItems=True), "f takes no item twice"),
    (
        list_of(TEXT), list_of(TEXT, **{"x-kubernetes-list-type": "set"}),
        "f is a list of type set (was atomic): no item may be there twice",
    ),
    ({**keyed("a"), "x-kubernetes-list-type": "atomic"}, keyed("a"), "f is a list of type map (was atomic): no item"),
    (keyed("a", "b"), {**keyed("a", "b"), "x-kubernetes-list-map-keys": ["a"]}, "f is a list with other keys: a"),
    (of(TEXT), {**of(TEXT), "required": ["f"]}, "f.f is required, and has no default"),
    (
        {**of({**TEXT, "default": "a"}), "required": ["f"]}, {**of(TEXT), "required": ["f"]},
        "f.f is required, and has no default",
    ),
    (
        {**of(TEXT), "required": ["f"]}, {**of({**TEXT, "x-oarlock-omit-empty": True}), "required": ["f"]},
        "f.f is required, and counts as absent when it is empty",
    ),
    (of(TEXT), {"type": "object"}, "f.f is no longer a field: what is stored in it is lost when"),
    (FREE, {**FREE, "properties": {"a": TEXT}}, "f.a is string (was of any type)"),
    (FREE, {"type": "object", "additionalProperties": TEXT}, "f[*] is string (was of any type)"),
    (
        {"type": "object", "additionalProperties": TEXT}, {"type": "object", "additionalProperties": NUMBER},
        "f[*] is integer (was string)",
    ),
    (
        {"type": "object", "additionalProperties": TEXT}, {"type": "object", "properties": {"a": TEXT}},
        "f keeps no other fields",
    ),
    (list_of(of(TEXT)), {"type": "object", "additionalProperties": of(TEXT)}, "f is object (was array)"),
    ({**FREE, "maxProperties": 4}, {**FREE, "maxProperties": 3}, "f maxProperties is 3 (was 4)"),
    ({**of(TEXT), "minProperties": 1}, {**of({**TEXT, "default": "a"}), "minProperties": 1}, "f has bounds on"),
    (rule("true"), rule("has(self.a)"), 'f has a new rule: "has(self.a)"'),
    (rule("self.a == 'oldSelf'"), rule("self.a != 'oldSelf'"), "f has a new rule: \"self.a != 'oldSelf'\""),
    (rule("true"), rule("oldSelf.hasValue()", optionalOldSelf=True), 'f has a new rule: "oldSelf.hasValue()"'),
    (
        rule("has(self.a)"), {**rule("has(self.a)"), "properties": {"a": {**TEXT, "default": "x"}}},
        "f has other fields or defaults, and a rule about them",
    ),
    ({**TEXT, "anyOf": [{"minLength": 1}]}, {**TEXT, "anyOf": [{"minLength": 2}]}, "f has another anyOf"),
    (TEXT, {**TEXT, "not": {"enum": ["a"]}}, "f has another not"),
    (FREE, {**FREE, "x-kubernetes-embedded-resource": True}, "f is a whole object, with apiVersion and kind"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "text"), NARROWER)
def test_what_objects_may_not_survive_is_told_with_its_place(
    old: dict[str, Any], new: dict[str, Any], text: str
) -> None:
    found = told(of(old), of(new))
    assert len(found) == 1, found
    assert found[0].startswith(text)


WIDER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (NUMBER, {"type": "number"}),
    ({**NUMBER, "format": "int32"}, NUMBER),
    ({**NUMBER, "format": "int32"}, {"x-kubernetes-int-or-string": True}),
    ({**NUMBER, "minimum": 0, "maximum": 9}, {"x-kubernetes-int-or-string": True}),
    ({**NUMBER, "minimum": 0, "exclusiveMinimum": True}, {**NUMBER, "minimum": 0}),
    ({**NUMBER, "minimum": 3}, {**NUMBER, "minimum": 2, "exclusiveMinimum": True}),
    ({**NUMBER, "maximum": 8}, {**NUMBER, "maximum": 9, "exclusiveMaximum": True}),
    ({**NUMBER, "format": "int32"}, {**NUMBER, "minimum": -(2**31)}),
    ({**NUMBER, "multipleOf": 6}, {**NUMBER, "multipleOf": 2}),
    (TEXT, {"x-kubernetes-int-or-string": True}),
    (TEXT, {"x-kubernetes-preserve-unknown-fields": True}),
    (TEXT, {**TEXT, "nullable": True}),
    ({**TEXT, "enum": ["a"]}, {**TEXT, "enum": ["b", "a"]}),
    ({**TEXT, "enum": ["a", "b"]}, {**TEXT, "pattern": "^[ab]$"}),
    ({**TEXT, "enum": ["a"]}, TEXT),
    ({**TEXT, "pattern": "a", "maxLength": 3}, {**TEXT, "maxLength": 4}),
    ({**TEXT, "format": "date-time"}, TEXT),
    (TEXT, {**TEXT, "format": "made-up"}),
    (TEXT, {**TEXT, "minLength": 0, "description": "b", "title": "c", "example": "d"}),
    (TEXT, {**TEXT, "default": "a"}),
    (list_of(TEXT, **{"x-kubernetes-list-type": "set"}), list_of(TEXT)),
    (list_of(TEXT, maxItems=3), list_of(TEXT, maxItems=4)),
    (list_of(TEXT), list_of(TEXT, **{"x-kubernetes-list-type": "atomic"})),
    ({**of(TEXT), "required": ["f"]}, of(TEXT)),
    (of(TEXT), {**of({**TEXT, "default": "a"}), "required": ["f"]}),
    (of(TEXT), {"type": "object", "properties": {"f": TEXT, "g": NUMBER}}),
    (of(TEXT), {"type": "object", "additionalProperties": TEXT}),
    (of(TEXT), FREE),
    ({**TEXT, "anyOf": [{"minLength": 1}]}, TEXT),
    (rule("has(self.a)"), {**rule("has(self.a)", message="words"), "required": []}),
    (rule("has(self.a)"), rule("self.a == oldSelf.a")),
]


@pytest.mark.parametrize(("old", "new"), WIDER)
def test_of_what_every_object_survives_nothing_is_told(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert told(of(old), of(new)) == []


def test_the_metadata_of_every_kind_is_the_same_but_for_names() -> None:
    names = {"type": "object", "properties": {"name": {**TEXT, "maxLength": 5}}}
    plain = of(TEXT)
    bound = {"type": "object", "properties": {"f": TEXT, "metadata": names, "apiVersion": TEXT, "kind": TEXT}}
    assert told(plain, bound) == ["metadata.name maxLength is 5 (was none)"]
    assert told(bound, {**plain, "required": ["metadata", "kind"]}) == []


def test_a_default_between_two_changes_hides_nothing() -> None:
    """What is stored has no defaults that came later: to be told of each step is enough for all of them."""
    first, second, third = (
        of(TEXT),
        {**of({**TEXT, "default": "a"}), "required": ["f"]},
        {**of(TEXT), "required": ["f"]},
    )
    assert told(first, second) == []
    assert told(second, third) == ["f is required, and has no default"]
