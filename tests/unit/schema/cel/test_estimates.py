"""What a rule is thought to cost before it runs: the figures are those of cel-go's and Kubernetes' estimates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oarlock.schema.cel.cost_estimate import estimate
from oarlock.schema.cel.declared import declare
from oarlock.schema.cel.expression import check_text, variables_at
from oarlock.schema.cel.rules import compile_rules
from oarlock.schema.structural.nodes import parse

TEXTS: dict[str, Any] = {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 5}}
LOOSE: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
ITEMS: dict[str, Any] = {"type": "array", "maxItems": 100, "items": {"type": "object", "properties": {"names": TEXTS}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"texts": TEXTS, "loose": LOOSE, "items": ITEMS, "s": {"type": "string"}, "n": {"type": "integer"}},
}


def complaints(rule: str) -> list[str]:
    schema = {**SCHEMA, "x-kubernetes-validations": [{"rule": rule}]}
    return [error.detail for error in compile_rules(schema, parse(schema))[1]]


@pytest.mark.parametrize(
    "rule",
    [
        "self.loose.all(x, x.startsWith('a') || x.endsWith('b'))",  # what is looked for decides, not where
        "self.texts.map(t, t + 'x').all(t, t.matches('^[a-z]+$'))",  # items made of bounded ones are bounded
        "self.texts.filter(t, t != '').all(t, t.matches('^[a-z]+$'))",
        "self.texts.transformList(i, t, t + t).all(t, t.matches('^[a-z]+$'))",
        "self.texts.map(t, t.replace('a', 'bcd')).all(t, t.matches('^[a-z]+$'))",
        "self.texts.join(',').matches('^[a-z,]+$')",
        "(self.texts.map(t, t) + ['x']).all(t, t.contains('abc'))",
        "(self.n > 0 ? self.texts.map(t, t) : ['x']).all(t, t.contains('abc'))",
        "self.items.all(i, i.names.sortBy(n, n).all(n, n != 'x'))",
        "lists.range(100).all(i, lists.range(100).all(j, i + j >= 0))",
        "self.s.split(',', 9).all(a, self.s.split(',', 9).all(b, a.size() + b.size() < 9))",
    ],
)
def test_what_is_bounded_is_accepted(rule: str) -> None:
    assert complaints(rule) == []


@pytest.mark.parametrize(
    ("rule", "unbounded"),
    [
        ("self.loose.all(x, x.contains(self.s))", "s (maxLength)"),
        ("self.loose.all(x, self.loose.exists(y, x == y))", "loose (maxItems)"),
        ("self.loose.sortBy(x, x).all(x, self.loose.exists(y, x == y))", "loose (maxItems)"),
        ("self.loose.map(x, x).all(x, self.loose.map(x, x).exists(y, x == y))", "loose (maxItems)"),
        (
            "optional.of(self.loose).optMap(l, l.map(x, x)).value().all(x, self.loose.all(y, x == y))",
            "loose (maxItems)",
        ),
    ],
)
def test_what_is_not_bounded_is_named(rule: str, unbounded: str) -> None:
    complaint = complaints(rule)[0]
    assert "estimated rule cost exceeds budget" in complaint
    assert unbounded in complaint


def bounded(length: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": length}


def listed(items: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "maxItems": most, "items": items}


ANY_TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
ENTRY: dict[str, Any] = {"k": bounded(6), "v": NUMBER, "ls": listed(bounded(2), 3)}
EVERYTHING: dict[str, Any] = {
    "s": bounded(10),
    "t": ANY_TEXT,
    "e": {**ANY_TEXT, "enum": ["abc", "de"]},
    "n": NUMBER,
    "f": {"type": "number"},
    "b": {"type": "boolean"},
    "l": listed(bounded(5), 7),
    "ll": {"type": "array", "items": ANY_TEXT},
    "u": {"type": "object", "properties": {"a": bounded(3), "namespace": bounded(63), "x-y": bounded(4)}},
    "li": listed(NUMBER, 9),
    "lo": {
        **listed({"type": "object", "required": ["k"], "properties": ENTRY}, 4),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    },
    "m": {"type": "object", "maxProperties": 16, "additionalProperties": bounded(8)},
    "mm": {"type": "object", "additionalProperties": NUMBER},
    "mo": {
        "type": "object",
        "maxProperties": 3,
        "additionalProperties": {"type": "object", "properties": {"z": bounded(9)}},
    },
    "ios": {"x-kubernetes-int-or-string": True},
    "iosm": {"x-kubernetes-int-or-string": True, "maxLength": 12},
    "d": {**ANY_TEXT, "format": "date-time"},
    "du": {**ANY_TEXT, "format": "duration"},
    "by": {**bounded(20), "format": "byte"},
}
RECORDED = (Path(__file__).parent / "estimates.txt").read_text().strip("\n").split("\n")
"""A cost, as Kubernetes 1.36 has it, and a rule."""


def cost(rule: str, schema: dict[str, Any]) -> int:
    decl = declare(parse(schema), root=True)
    assert decl is not None
    return estimate(check_text(rule, variables_at(decl, optional_old=False)).tree, decl)[0].high


@pytest.mark.parametrize("line", RECORDED)
def test_an_estimate_is_that_of_kubernetes(line: str) -> None:
    wanted, rule = line.split(" ", 1)
    found = cost(rule, {"type": "object", "required": ["n"], "properties": EVERYTHING})
    assert abs(found - int(wanted)) <= int(wanted) * 1e-9  # what nothing bounds is computed with floats there


@pytest.mark.parametrize(
    ("most", "rule", "accepted"),
    [
        (16, r"self.all(key, key.matches('^[a-zA-Z0-9]{1,63}$'))", True),  # Gateway API
        (16, "self.all(key, key.split('/')[0].size() < 253)", True),
        (256, "self.all(key, size(key) > 0)", True),  # Istio
        (64, "self.all(key, value, key.matches('^[a-z]+$') && value.size() < 63)", True),
        (64, "self.all(key, value, value.matches('^[a-z]+$'))", False),
    ],
)
def test_keys_of_maps_cost_nothing(most: int, rule: str, accepted: bool) -> None:
    rules = [{"rule": rule}]
    labels = {"type": "object", "maxProperties": most, "additionalProperties": {"type": "string"}}
    schema = {"type": "object", "properties": {"labels": {**labels, "x-kubernetes-validations": rules}}}
    assert (compile_rules(schema, parse(schema))[1] == []) is accepted
