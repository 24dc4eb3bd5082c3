"""An expression has a value or an error of the language, whatever it is given; what else happens is our mistake."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest

from oarlock.meta.quantities import parse
from oarlock.schema.cel.library.costs import CALL_COSTS
from oarlock.schema.cel.library.functions import FUNCTIONS
from oarlock.schema.cel.library.kinds import NamedFormat, Semver
from oarlock.schema.cel.library.nets import CIDR, IP, URL
from oarlock.schema.cel.library.signatures import overloads
from oarlock.schema.cel.problems import CelError
from oarlock.schema.cel.rules import RuleSet, compile_rules
from oarlock.schema.cel.values import (
    NONE,
    Duration,
    MapList,
    Obj,
    Optional,
    SetList,
    Timestamp,
    TypeValue,
    UInt,
    type_name,
)
from oarlock.schema.structural.nodes import parse as parse_schema

HUGE = 10**1000
MANY: tuple[Any, ...] = (
    *(None, True, 0, -7, 3, 2**63, HUGE, -HUGE, UInt(5), 0.0, -1.5, math.inf, math.nan, "", "a", "ab,c", "%s %d %x"),
    *("10.0.0.1", "10.0.0.0/8", "1h", "2020-01-01T00:00:00Z", "1.2.3", "2Gi", "[", "https://a/b?c=d", "é" * 20),
    *(b"", b"\xff", Timestamp(0), Timestamp(253402300799 * 10**9), Duration(5), TypeValue("int"), NONE),
    *(Optional(True, 3), Optional(True, [1]), [], [1, "a", None], ["a", "b"], [[1], {}], [2.5, math.nan], [True, HUGE]),
    *([Optional(True, 1), NONE], SetList(["a", "b"]), SetList([{"a": 1}]), MapList([{"k": 1}, {"k": [2]}, 7], ("k",))),
    *({}, {"a": 1, "b": None}, {1: 2}, Obj({"x": 1}, {"x": "x"}, "T"), parse("1500m"), Semver((1, 2, 3), ("a", "1"))),
    *(CIDR(FUNCTIONS["ip"]("10.0.0.1").address, 8), FUNCTIONS["ip"]("::1"), FUNCTIONS["url"]("https://a/b")),
    *(FUNCTIONS["format.uuid"](), FUNCTIONS["format.dns1123Label"]()),
)
FEW: tuple[Any, ...] = (None, True, -1, 2, HUGE, UInt(1), 1.5, "", "a,b", b"a", Duration(5), NONE, [], ["a"], {"a": 1})

ITS_OWN = {"CIDR.ip": "ip", "sum.duration": "sum"}


def arities(name: str) -> set[int]:
    return {len(one.params) for one in overloads()[ITS_OWN.get(name, name)]}


KNOWN = (
    *(type(None), bool, int, UInt, float, str, bytes, list, SetList, MapList, dict, Obj, Timestamp, Duration),
    *(TypeValue, Optional, IP, CIDR, URL, Semver, NamedFormat, type(parse("1"))),
)


def tried(called: Callable[..., Any], price: Callable[..., int] | None, arguments: tuple[Any, ...]) -> None:
    try:
        if price is not None:
            assert price(*arguments) >= 0
        value = called(*arguments)
    except CelError:
        return
    assert type(value) in KNOWN
    type_name(value)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_takes_every_value_or_says_what_is_wrong(name: str) -> None:
    for count in arities(name):
        values = MANY if count < 3 else FEW
        for arguments in itertools.product(values, repeat=count):
            own = tuple(dict(one) if name == "cel.@mapInsert" and type(one) is dict else one for one in arguments)
            tried(FUNCTIONS[name], CALL_COSTS.get(name), own)


def typed(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


LEVEL: dict[str, Any] = {
    "s": typed("string"),
    "i": typed("integer"),
    "n": typed("number"),
    "b": typed("boolean"),
    "t": typed("string", format="date-time"),
    "d": typed("string", format="duration"),
    "y": typed("string", format="byte"),
    "x": {"x-kubernetes-int-or-string": True},
    "ls": typed("array", items=typed("string", nullable=True)),
    "li": typed("array", items=typed("integer")),
    "set": typed("array", items=typed("string"), **{"x-kubernetes-list-type": "set"}),
    "ms": typed("object", additionalProperties=typed("string", nullable=True)),
}
OBJECT = typed("object", properties=LEVEL, nullable=True)
KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["s"]}
SCHEMA = {
    **LEVEL,
    "o": OBJECT,
    "lo": typed("array", items=OBJECT),
    "ll": typed("array", items=typed("array", items=OBJECT)),
    "map": typed("array", items=typed("object", properties=LEVEL, required=["s"]), **KEYED),
    "mo": typed("object", additionalProperties=OBJECT),
}
GOOD: dict[str, Any] = {
    "s": "ab",
    "i": 3,
    "n": 1.5,
    "b": True,
    "t": "2020-01-01T00:00:00Z",
    "d": "1m",
    "y": "QUI=",
    "x": "5%",
    "ls": ["a", None],
    "li": [1, 2],
    "set": ["a", "b"],
    "ms": {"k": "v"},
}
TREE = {**GOOD, "o": GOOD, "lo": [GOOD], "ll": [[GOOD]], "map": [GOOD], "mo": {"k": GOOD}}
WRONG: tuple[Any, ...] = (None, True, 7, HUGE, 1.5, "text", [], [1], ["a"], [None], {}, {"k": 1}, {"k": None}, [[1]])

RULES = """
self.{0} == self.{0} && [self.{0}] == [dyn(self.{0})]
self.{0} in [self.{0}] && type(self.{0}) != bool
has(self.{0}) || dyn(self).{0} == 1
!has(self.{0}) || self.{0} == oldSelf.{0}
dyn(self.{0}) < 3 || dyn(self.{0}) > 'a'
size(dyn(self.{0})) > 1 || dyn(self.{0})[0] == 1 || dyn(self.{0})['k'] == 1
dyn(self.{0}).all(x, x > 1) || dyn(self.{0}).exists(x, x.s == 'a')
dyn(self.{0}).map(x, x + x) == [] ? true : dyn(self.{0}).filter(x, x) == []
"""
OWN = {
    "s": "self.s == 'ab' || self.s != 'b' || self.s.startsWith('a') || self.s.matches('^a') || self.s < 'b'",
    "i": "self.i > 2 || self.i + 1 == 2 || self.i % 2 == 0 || -self.i < 1 || self.i <= 2.5 || self.i in [1, 2]",
    "n": "self.n >= 1.5 || self.n * 2.0 == 3.0 || self.n < 3",
    "b": "self.b || !self.b || (self.b ? self.i > 1 : self.i < 1)",
    "t": "self.t < timestamp('2030-01-01T00:00:00Z') || self.t.getHours() == 1",
    "d": "self.d > duration('1s') || self.d.getSeconds() == 60",
    "y": "self.y == b'AB' || size(self.y) == 2",
    "x": "type(self.x) == int ? self.x > 1 : self.x.endsWith('%')",
    "ls": "self.ls.all(x, x == 'a') || self.ls[0].contains('a') || self.ls.exists(x, size(x) > 1) || 'a' in self.ls",
    "li": "self.li.all(x, x > 0) || self.li.sum() > 1 || self.li[0] < 2 || self.li.max() > 1 || self.li.isSorted()",
    "set": "self.set == oldSelf.set || self.set + ['c'] == ['c'] || self.set.all(x, x.size() < 9)",
    "ms": "self.ms.k == 'v' || self.ms['k'].size() > 1 || self.ms.all(k, v, k == v) || 'k' in self.ms",
    "o": "self.o.s == 'ab' || self.o.i > 1 || has(self.o.ls) || self.o.ms.k == 'v' || self.o == oldSelf.o",
    "lo": "self.lo.all(x, x.i > 0 && has(x.s) && x.s == 'ab') || self.lo[0].li[0] > 1 || self.lo.map(x, x.i).sum() > 1",
    "ll": "self.ll.all(x, x.all(y, y.i > 0)) || self.ll[0][0].s.size() > 1 || self.ll.flatten().size() == 1",
    "map": "self.map == oldSelf.map || self.map + self.map == self.map || self.map.exists(x, x.s == 'ab' && x.i > 1)",
    "mo": "self.mo.k.i > 9 || self.mo['k'].s == '' || self.mo.all(k, v, v.i > 0) || self.mo.all(k, has(self.mo[k].i))",
}


def rules_about(name: str) -> list[str]:
    return [*(line.format(name) for line in RULES.strip().splitlines()), *OWN[name].split(" || "), OWN[name]]


def compiled(rule: str) -> RuleSet:
    told = {"x-kubernetes-validations": [{"rule": rule, "message": "broken"}]}
    schema = typed("object", properties=SCHEMA, **told)
    rules, mistakes = compile_rules(schema, parse_schema(schema), bounded=False)
    assert rules is not None, (rule, mistakes)
    return rules


@pytest.mark.parametrize("name", sorted(OWN))
def test_every_tree_is_judged_whatever_is_in_it(name: str) -> None:
    for rule in rules_about(name):
        schema = typed(
            "object", properties=SCHEMA, **{"x-kubernetes-validations": [{"rule": rule, "message": "broken"}]}
        )
        rules, mistakes = compile_rules(schema, parse_schema(schema), bounded=False)
        assert rules is not None, (rule, mistakes)
        for value in WRONG:
            tree = {**TREE, name: value}
            for error in [*rules.validate(tree, TREE), *rules.validate(TREE, tree), *rules.validate(tree, tree)]:
                assert error.message


@pytest.mark.parametrize("name", ["o", "lo", "ll", "map", "mo"])
@pytest.mark.parametrize("inner", sorted(LEVEL))
def test_every_tree_is_judged_whatever_is_deep_in_it(name: str, inner: str) -> None:
    place: dict[str, Callable[[Any], Any]] = {
        "o": lambda one: one,
        "lo": lambda one: [one],
        "ll": lambda one: [[one]],
        "map": lambda one: [one, GOOD],
        "mo": lambda one: {"k": one},
    }
    for rule in rules_about(name):
        schema = typed(
            "object", properties=SCHEMA, **{"x-kubernetes-validations": [{"rule": rule, "message": "broken"}]}
        )
        rules, mistakes = compile_rules(schema, parse_schema(schema), bounded=False)
        assert rules is not None, (rule, mistakes)
        for value in WRONG:
            rules.validate({**TREE, name: place[name]({**GOOD, inner: value})}, TREE)


@pytest.mark.parametrize(
    "rule",
    [
        "self.s.trim() == 'a'",
        "self.s.trim() == 'a' || self.b",
        "self.b || self.s.trim() == 'a'",
        "self.ls.all(x, x.trim() == 'a')",
        "self.ls.exists(x, x.trim() == 'a')",
        "self.ls.map(x, x.trim()) == []",
    ],
)
@pytest.mark.parametrize("mistake", [TypeError, AttributeError, ValueError, OverflowError, KeyError])
def test_a_mistake_of_ours_is_not_an_error_of_the_rule(
    rule: str, mistake: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(text: str) -> str:
        raise mistake("a bug")

    monkeypatch.setitem(FUNCTIONS, "trim", wrong)
    rules = compiled(rule)
    with pytest.raises(mistake, match="a bug"):
        rules.validate({**TREE, "b": False})
