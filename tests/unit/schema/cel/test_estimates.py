"""What a rule is thought to cost before it runs: the figures are those of cel-go's and Kubernetes' estimates."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.schema.cel.rules import compile_rules
from oarlock.schema.structural import parse

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
