"""What an update may leave wrong, and what it may not."""

from __future__ import annotations

from typing import Any

TEXT: dict[str, Any] = {"type": "string"}
ITEM: dict[str, Any] = {"type": "object", "required": ["a"], "properties": {"a": TEXT, "b": TEXT}}
BY_KEY = {"type": "array", "items": ITEM, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
SET = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}


def errors(compiled: Any, new: Any, old: Any, **properties: Any) -> list[str]:
    version = compiled({"type": "object", "properties": properties}, typed=False)
    found = version.validate({"metadata": {}, "spec": new}, {"metadata": {}, "spec": old})
    return [error.message for error in found]


def test_an_update_repeats_no_key_though_the_item_is_as_it_was(compiled: Any) -> None:
    first = {"a": "1", "b": "x"}
    assert errors(compiled, {"m": [first, {**first}]}, {"m": [first]}, m=BY_KEY) == [
        'spec.m[1]: Duplicate value: {"a":"1"}'
    ]


def test_an_object_that_repeats_a_key_may_repeat_others(compiled: Any) -> None:
    wrong = {"m": [{"a": "1"}, {"a": "1"}]}
    assert errors(compiled, {**wrong, "s": ["x", "x"]}, wrong, m=BY_KEY, s=SET) == []
    assert errors(compiled, {**wrong, "s": ["x", "x"]}, {"s": ["x"]}, m=BY_KEY, s=SET) == [
        'spec.m[1]: Duplicate value: {"a":"1"}',
        'spec.s[1]: Duplicate value: "x"',
    ]


def test_a_list_of_type_map_is_the_same_in_any_order(compiled: Any) -> None:
    few = {**BY_KEY, "maxItems": 1}
    one, two = {"a": "1", "b": "x"}, {"a": "2", "b": "y"}
    assert errors(compiled, {"m": [two, one]}, {"m": [one, two]}, m=few) == []
    assert errors(compiled, {"m": [two, {**one, "b": "z"}]}, {"m": [one, two]}, m=few) == [
        "spec.m: Too many: 2: must have at most 1 item"
    ]
    assert errors(compiled, {"m": ["2", "1"]}, {"m": ["1", "2"]}, m={"type": "array", "items": TEXT, "maxItems": 1})


def test_a_rule_that_holds_no_more_is_forgiven_in_any_order(compiled: Any) -> None:
    few = {**BY_KEY, "maxItems": 9, "x-kubernetes-validations": [{"rule": "self.size() < 2"}]}
    one, two = {"a": "1"}, {"a": "2"}
    assert errors(compiled, {"m": [two, one]}, {"m": [one, two]}, m=few) == []
    assert errors(compiled, {"m": [two, {"a": "3"}]}, {"m": [one, two]}, m=few) == [
        "spec.m: Invalid value: failed rule: self.size() < 2"
    ]


def test_the_version_of_an_object_stays_wrong_in_no_update(compiled: Any) -> None:
    whole = {"apiVersion": "g/v2", "kind": "K", "metadata": {}, "spec": {}}
    version = compiled({"type": "object"}, typed=False, apiVersion={**TEXT, "pattern": "^g/v1$"})
    assert [error.path for error in version.validate({**whole, "spec": {"x": 2}}, whole)] == ["apiVersion"]
