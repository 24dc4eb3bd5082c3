"""What the schema makes of a tree's values: numbers, times, sets and objects, however a rule comes by them."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.schema.cel.rules import compile_rules
from oarlock.schema.structural.nodes import parse

OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "t": {"type": "string", "format": "date-time"},
        "f": {"type": "number"},
        "x-y": {"type": "string"},
    },
}
PROPERTIES: dict[str, Any] = {
    "o": OBJECT,
    "l": {"type": "array", "items": OBJECT},
    "ll": {"type": "array", "items": {"type": "array", "items": OBJECT}},
    "m": {"type": "object", "additionalProperties": OBJECT},
    "ts": {"type": "array", "items": {"type": "string", "format": "date-time"}},
    "n": {"type": "array", "items": {"type": "number"}},
    "d": {"type": "string", "format": "duration"},
    "dd": {"type": "object", "additionalProperties": {"type": "string", "format": "duration"}},
    "b": {"type": "string", "format": "byte"},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "ios": {"x-kubernetes-int-or-string": True},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}
THEN, LATER = "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"
TREE: dict[str, Any] = {
    "o": {"a": 1, "t": THEN, "f": 2, "x-y": "q"},
    "l": [{"a": 2, "t": THEN, "f": 1}, {"a": 1, "t": LATER, "f": 2.5}],
    "ll": [[{"a": 1}], [{"a": 2}]],
    "m": {"k": {"a": 1}},
    "ts": [THEN, LATER],
    "n": [1, 1.5],
    "d": "1m30s",
    "dd": {"x": "2s"},
    "b": "QUI=",
    "set": ["a", "b"],
    "ios": "5%",
    "any": {"whatever": 1},
}


def said(rule: str, tree: Any = TREE, old: Any = None, **more: Any) -> list[str]:
    schema = {
        "type": "object",
        "properties": PROPERTIES,
        "x-kubernetes-validations": [{"rule": rule, "message": "broken", **more}],
    }
    rules, mistakes = compile_rules(schema, parse(schema), bounded=False)
    assert mistakes == [], mistakes
    assert rules is not None
    return [error.message for error in rules.validate(tree, old)]


@pytest.mark.parametrize(
    "rule",
    [
        "type(self.o.a) == int && type(self.o.f) == double && self.o.f == 2.0 && self.o.a < self.o.f",
        "dyn(self.o).x__dash__y == 'q' && dyn(self.o).f == 2.0 && type(dyn(self.o).f) == double",
        "[self.o, self.o][0].t.getFullYear() == 2020",
        "(self.o.a > 1 ? self.l[0] : self.l[1]).t.getFullYear() == 2021",
        "self.l.filter(x, x.a > 1).map(x, x.t.getFullYear()) == [2020]",
        "self.l.map(x, x.f).sum() == 3.5 && self.l.exists(x, x == self.l[0]) && self.l[0] in self.l",
        "self.l.sortBy(x, x.a)[0].a == 1 && self.l.sortBy(x, x.t)[0].a == 2",
        "self.l.exists(x, has(x.t) && x.t > self.l[0].t)",
        "self.ts.all(x, x < timestamp('2030-01-01T00:00:00Z')) && self.ts[0].getFullYear() == 2020",
        "self.ts.max() == timestamp('2021-01-01T00:00:00Z') && self.ts == [self.o.t, self.l[1].t]",
        "self.d == duration('90s') && self.b == b'AB' && self.dd.all(k, v, v > duration('1s'))",
        "self.m.k.a == 1 && has(self.m.k) && !has(self.m.z) && self.m['k'].a == 1",
        "self.m.exists(k, self.m[k].a == 1)",
        "self.m.all(k, v, v.a == 1) && self.m.map(k, k) == ['k']",
        "self.ios == '5%' && self.ios != 5 && self.ios.contains('%')",
        "self.ll.all(l, l.all(o, o.a > 0)) && self.ll[1][0].a == 2",
        "self.o.?t.optMap(t, t.getFullYear()).orValue(1) == 2020",
        "optional.of(self.o).optMap(o, o.t.getFullYear() == 2020 && o.f == 2.0).value()",
        "self.l[?0].?t.hasValue() && !self.l[?7].hasValue()",
        "self.l.transformList(i, v, v.f)[0] == 1.0 && self.l.all(i, v, v.a == 2 - i)",
        "{'a': self.o}.a.f == 2.0 && {'a': [self.o]}['a'][0].f == 2.0 && type({'a': self.o}.a.f) == double",
        "optional.of(self.o).f.orValue(1.0) == 2.0",
        "self.set == ['b', 'a'] && (self.set + ['a', 'c']).size() == 3",
        "self.n.all(x, type(x) == double)",
        "type(self.l[0]) == type(self.l[1]) && dyn(self.o) != dyn({'a': 1})",
        "self.o == self.o && self.l == self.l && self == self",
        "'%s'.format([self.o.t]) == '2020-01-01T00:00:00Z' && string(self.d) == '90s'",
        "self.l.exists_one(x, x.a == 1 && x.t.getMonth() == 0)",
        "self.l.all(x, self.l.exists(y, y.a + x.a == 3))",
    ],
)
def test_values_are_what_the_schema_says(rule: str) -> None:
    assert said(rule) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("self.o.a + 9223372036854775807 > 0", "integer overflow"),
        ("self.ios > 3", "'no such overload': call arguments did not match"),
        ("self.l[2].a == 1", "index out of bounds: 2"),
        ("self.m.nope.a == 1", "no such key: nope"),
        ("self.ll[0][0].t == self.o.t", "no such key: t"),
        ("dyn(self.o).nope == 1", "no such key: nope"),
        ("optional.none().value() == 1", "optional.none() dereference"),
    ],
)
def test_what_has_no_value_says_why(rule: str, text: str) -> None:
    (error,) = said(rule)
    assert text in error
    assert error.endswith("rule: broken")


def test_a_null_field_is_absent() -> None:
    assert said("!has(self.o.a)", {"o": {"a": None}}) == []
    assert "no such key: a" in said("self.o.a == 1", {"o": {"a": None}})[0]


def test_an_optional_old_value() -> None:
    rule = "oldSelf.?o.?t.hasValue() && oldSelf.o.t.value().getFullYear() == 2020"
    assert said(rule, {"o": {}}, TREE, optionalOldSelf=True) == []
    assert said(rule, TREE, None, optionalOldSelf=True) == ["<nil>: Invalid value: broken"]
    assert said("oldSelf.o.a == 7", TREE, None) == []


def test_errors_on_one_side_are_forgiven_when_the_other_decides() -> None:
    for rule in ("self.l[9].a == 1 || true", "true || self.l[9].a == 1", "!(self.l[9].a == 1 && false)"):
        assert said(rule) == []
    assert said("self.l.exists(x, x.a / (x.a - 2) == -1)") == []
    assert "division by zero" in said("self.l.all(x, x.a / (x.a - 2) == -1)")[0]


def test_reasons_and_paths_of_errors() -> None:
    assert said("false", reason="FieldValueForbidden", fieldPath=".o.a") == ["o.a: Forbidden: broken"]
    assert said("false", reason="FieldValueRequired", fieldPath=".o['x-y']") == ["o.x-y: Required value: broken"]
    assert said("false", reason="FieldValueDuplicate", fieldPath=".m.q") == ["m[q]: Duplicate value: broken"]
    assert said("false", messageExpression="'a is %d'.format([self.o.a])") == ["<nil>: Invalid value: a is 1"]
    assert said("false", messageExpression="string(self.l[9].a)") == ["<nil>: Invalid value: broken"]


@pytest.mark.parametrize(
    "rule",
    [
        "'%.2f'.format([1234567.891]) == '1,234,567.89' && '%e'.format([3.14]) == '3.140000×10⁰⁰'",
        "dyn(9223372036854775807) >= 9223372036854775808.0 && 9223372036854775807 <= 9223372036854775808.0",
        "dyn(9007199254740993) == 9007199254740992.0 && dyn(18446744073709551615u) == 18446744073709551616.0",
        "self.o.f < 3 && self.o.f >= 2 && 3 > self.o.f && self.o.f > 1u && 2 <= self.o.f",
        "[3, 1].first().value() == 3 && [3, 1].last() == optional.of(1) && ![].first().hasValue()",
        "self.l.first().a.orValue(0) == 2 && self.l.last().?t.hasValue()",
        "[1, 2, 3].existsOne(x, x > 2) && {'a': 1, 'b': 2}.exists_one(k, v, k == 'a' || v == 3)",
        "[1, 2].existsOne(i, v, i == 0 && v == 1)",
    ],
)
def test_what_cel_go_does_of_its_own(rule: str) -> None:
    assert said(rule) == []
