"""JSON and YAML, by cases of our own: which texts are values, what they are, and how they are written again."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.codec import json, yaml
from oarlock.codec.json import DecodeError


@pytest.mark.parametrize(
    ("text", "value", "written"),
    [
        ("null", None, "null"),
        (" true ", True, "true"),
        ("-0", 0, "0"),
        ("12", 12, "12"),
        ("9223372036854775807", 2**63 - 1, "9223372036854775807"),
        ("-9223372036854775808", -(2**63), "-9223372036854775808"),
        ("1.5", 1.5, "1.5"),
        ("2e-1", 0.2, "0.2"),
        ('"\\u00e9\\n"', "é\n", '"é\\n"'),
        ("[ 1 , [ ] ]", [1, []], "[1,[]]"),
        ('{"b":1,"a":{}}', {"b": 1, "a": {}}, '{"b":1,"a":{}}'),
    ],
)
def test_values_of_json(text: str, value: Any, written: str) -> None:
    tree = json.decode(text.encode())
    assert (type(tree), tree) == (type(value), value)
    assert json.encode(tree) == written.encode()


@pytest.mark.parametrize(
    "text",
    ["", " ", "nul", "01", "+1", "1.", ".5", "1e", "'a'", '"a', "[1,]", "{a:1}", '{"a"}', '{"a":1}x', "NaN", "1e999"],
)
def test_texts_that_are_no_json(text: str) -> None:
    with pytest.raises(DecodeError):
        json.decode(text.encode())


def test_keys_said_twice_are_found_with_their_paths() -> None:
    assert json.duplicates(b'{"kind":"K","spec":{"a":1}}') == []
    assert json.duplicates(b'{"spec":{"a":1,"b":2,"a":3}}') == ["spec.a"]
    assert json.duplicates(b'{"a":1,"a":2}') == ["a"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing", None),
        ("a: 1", {"a": 1}),
        ("a: {b: [c, 2.5, true, null]}", {"a": {"b": ["c", 2.5, True, None]}}),
        ("- a\n- b: c\n", ["a", {"b": "c"}]),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("---\na: 1\n", {"a": 1}),
        ('{"a": "1"}', {"a": "1"}),
        ("a: &x [1]\nb: *x\n", {"a": [1], "b": [1]}),
        ("1: a", {"1": "a"}),
    ],
)
def test_values_of_yaml(text: str, value: Any) -> None:
    tree, duplicates = yaml.decode(text.encode())
    assert (tree, duplicates) == (value, [])
    if isinstance(value, dict):
        assert yaml.decode(yaml.encode(tree))[0] == value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b": 1, "a": "x"}, "a: x\nb: 1\n"),
        ({"a": []}, "a: []\n"),
        ({"a": [{"b": "1"}]}, 'a:\n- b: "1"\n'),
        ({"a": "true"}, 'a: "true"\n'),
        ({"a": "x\ny\n"}, "a: |\n  x\n  y\n"),
        ({"a": None}, "a: null\n"),
    ],
)
def test_yaml_is_written_with_sorted_keys_and_only_the_quotes_it_needs(value: Any, written: str) -> None:
    assert yaml.encode(value).decode() == written
