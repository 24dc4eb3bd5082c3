"""Rules and objects that mean no good: every one ends in an error, and soon."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.schema.cel.checker import check
from oarlock.schema.cel.compiling import compile_program
from oarlock.schema.cel.cost_estimate import estimate
from oarlock.schema.cel.problems import CompileError
from oarlock.schema.cel.rules import compile_rules
from oarlock.schema.cel.syntax.parsing import MAX_SOURCE, parse
from oarlock.schema.structural.nodes import parse as parse_schema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "ll": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    },
}
LARGE: dict[str, Any] = {
    "s": "a" * 1_000_000,
    "l": list(range(50_000)),
    "ll": [["x"] * 50_000],
    "m": {f"k{i}": "v" for i in range(5000)},
    "set": [str(i) for i in range(20_000)],
}
CANCELLED = "actual cost limit exceeded"
PIECES = [
    *("self", ".s", ".l", ".ll", ".m", ".set", "oldSelf", "true", "null", "1", "-1", "2u", "1.5", "'a'", "b'a'", "''"),
    *("9223372036854775807", "'('", "'%s'", "[", "]", "(", ")", "{", "}", ",", ":", "?", ".", " && ", " || ", " == "),
    *(" < ", " in ", " + ", " - ", " * ", " / ", " % ", "!", "-", ".all(x, ", ".exists(k, v, ", ".map(x, ", ".sort()"),
    *(
        ".filter(x, ",
        ".optMap(x, ",
        ".?a",
        "[?0]",
        "x",
        "k",
        "has(self.s)",
        "size(",
        ".size()",
        "type(",
        "dyn(",
        "int(",
    ),
    *(
        "string(",
        "duration(",
        "timestamp(",
        "quantity('1')",
        "ip('::1')",
        "cidr('::/0')",
        "semver('1.0.0')",
        ".matches(",
    ),
    *(
        "url('http://a')",
        ".find(",
        ".replace(",
        ".split(",
        ".join(",
        ".format([",
        "])",
        ".sortBy(x, ",
        "optional.none()",
    ),
    *("optional.of(", ".orValue(", ".value()", ".transformMap(k, v, ", "lists.range(", "sets.contains(", ".flatten()"),
    *("\x00", "\\", "\u2028", "é", "//", "\n", "@", "`", '"""', "r'", "0x", "format.named('uuid')", ".first()"),
]


def said(rule: str, tree: Any) -> list[str]:
    schema = {**SCHEMA, "x-kubernetes-validations": [{"rule": rule}]}
    rules, mistakes = compile_rules(schema, parse_schema(schema), bounded=False)
    assert mistakes == [], mistakes
    assert rules is not None
    return [error.message for error in rules.validate(tree)]


@pytest.mark.parametrize(
    "rule",
    [
        "self.l.all(x, self.l.all(y, x + y >= 0))",
        "self.l.map(x, self.l.map(y, x)).size() > 0",
        "self.s.replace('', self.s).size() > 0",
        "self.l.map(x, string(x)).join(self.s).size() > 0",
        "self.l.all(x, self.ll == self.ll)",
        "self.l.all(x, self.s == self.s)",
        "self.l.all(x, self.s.matches('(a+)+$'))",
        "[self.s].exists(a, self.l.all(b, a.find('b*$') == ''))",
        "lists.range(1000000000).size() > 0",
        "sets.contains(self.l, self.l)",
        "self.l.distinct().size() > 0",
        "[self.l + self.l].map(a, a + a).map(b, b + b).map(c, c + c).all(d, (d + d).size() > 0)"
        " && self.l.map(x, [x, x, x]).flatten().size() > 0",
        "[self.s + self.s].map(a, a + a).map(b, b + b).all(c, (c + c).size() > 0)",
    ],
)
def test_what_costs_too_much_is_stopped(rule: str) -> None:
    (error,) = said(rule, LARGE)
    assert CANCELLED in error


@pytest.mark.parametrize(
    "rule",
    [
        "self.set == self.set",
        "(self.set + self.set).size() == 20000",
        "self.s.matches('(a+)+$')",
        "self.s.split('').size() > 0",
        "self.l.map(x, self.s).size() > 0",
        "self.m.transformMap(k, v, v + k).size() > 0",
        "'%s'.format([self.l]).size() > 0",
        "self.l.sort().size() > 0",
    ],
)
def test_what_is_only_large_runs(rule: str) -> None:
    assert said(rule, LARGE) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("int(self.s) == 1", "invalid syntax"),
        ("double(self.s) == 1.0", "invalid syntax"),
        ("quantity(self.s).isInteger()", "quantities must match"),
        ("semver(self.s).major() == 1", "too long"),
        ("ip(self.s).family() == 4", "parse error"),
        ("cidr(self.s).prefixLength() == 4", "parse error"),
        ("url(self.s).getHost() == ''", "invalid URI"),
        ("duration(self.s) == duration('1s')", "invalid duration"),
        ("timestamp(self.s) == timestamp('2020-01-01T00:00:00Z')", "invalid timestamp"),
        ("'x'.matches(self.s + '(')", "missing closing )"),
        ("'%.999999f'.format([1.0]) == ''", "precision"),
        ("timestamp('2020-01-01T00:00:00Z').getHours('../../etc/passwd') == 1", "unknown time zone"),
        ("timestamp('2020-01-01T00:00:00Z').getHours('99:99') == 1", "unknown time zone"),
        ("timestamp('9999-12-31T23:59:59Z').getHours('23:00') == 1", "timestamp overflow"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1h') == timestamp('2020-01-01T00:00:00Z')", "overflow"),
        ("self.s.substring(2000000) == ''", "index out of range"),
        ("self.s.charAt(-1) == ''", "index out of range"),
        ("self.l[9223372036854775807] == 1", "index out of bounds"),
        ("self.l.slice(5, 1).size() == 1", "start index must be"),
        ("null.orValue(1) == 1", "no such overload"),
        ("null.value() == dyn(1)", "no such overload"),
    ],
)
def test_bad_values_are_errors(rule: str, text: str) -> None:
    (error,) = said(rule, LARGE)
    assert text in error


def test_values_of_another_form_than_the_schema_are_errors() -> None:
    for tree in ({"l": "x"}, {"l": {"a": 1}}, {"l": 3}, {"l": [None]}, {"l": ["x"]}, {"l": [[1]]}, {"m": []}, {"s": 1}):
        for rule in ("self.l.all(x, x + 1 > 0)", "self.m.all(k, self.m[k] == 'v')", "self.s.startsWith('a')"):
            assert len(said(rule, tree)) == 1, (tree, rule)


def test_an_object_nested_beyond_recursion_is_an_error() -> None:
    deep: Any = 1
    for _ in range(sys.getrecursionlimit() * 2):
        deep = [deep]
    schema = {
        "type": "object",
        "properties": {"x": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}},
        "x-kubernetes-validations": [{"rule": "self.x == [[1]]"}],
    }
    rules, _ = compile_rules(schema, parse_schema(schema))
    assert rules is not None
    assert len(rules.validate({"x": [deep]}, {"x": [deep]})) <= 1


@pytest.mark.parametrize(
    "source",
    [
        "(" * 500 + "1" + ")" * 500,
        "[" * 500 + "]" * 500,
        "1" + " + 1" * 5000,
        "self" + ".a" * 5000,
        "!" * 20_001 + "self",
        "a ? b : " * 3000 + "c",
        "x" * (MAX_SOURCE + 1),
        "[1].map(a, " * 300 + "1" + ")" * 300,
        "'" + "\\" * 999,
        "\x00",
        "\ud800",
        "self.`a`",
        "99999999999999999999999",
        "1e999999",
        "",
        "   ",
        "//",
    ],
)
def test_hostile_text_is_refused(source: str) -> None:
    with pytest.raises(CompileError):
        check(parse(source), source, {})


def test_a_long_expression_is_checked_in_time() -> None:
    source = " || ".join(["1 + 1 == 2"] * 1000)
    assert check(parse(source), source, {}).type.kind == "bool"


@pytest.mark.parametrize(
    "rules",
    [
        "text",
        [1],
        [None],
        [{"rule": 3}],
        [{"rule": ""}],
        [{}],
        [{"rule": "true", "message": "a\nb"}],
        [{"rule": "true", "message": "  "}],
        [{"rule": "true\n&& true"}],
        [{"rule": "true", "reason": "Because"}],
        [{"rule": "true", "fieldPath": ".nope"}],
        [{"rule": "true", "fieldPath": "s"}],
        [{"rule": "true", "messageExpression": "1"}],
        [{"rule": "true", "messageExpression": "self.nope"}],
        [{"rule": "true", "optionalOldSelf": True}],
    ],
)
def test_malformed_rules_are_told(rules: Any) -> None:
    schema = {**SCHEMA, "x-kubernetes-validations": rules}
    try:
        node = parse_schema(schema)
    except ValueError:
        return
    _, mistakes = compile_rules(schema, node)
    assert mistakes
    assert all("x-kubernetes-validations[0]" in error.path for error in mistakes)


def test_old_values_without_a_counterpart_cannot_be_asked_for() -> None:
    items = {"type": "object", "properties": {"a": {"type": "integer"}}}
    items["x-kubernetes-validations"] = [{"rule": "self.a >= oldSelf.a"}]
    schema = {"type": "object", "properties": {"list": {"type": "array", "maxItems": 5, "items": items}}}
    _, (mistake,) = compile_rules(schema, parse_schema(schema))
    assert (
        "oldSelf cannot be used on the uncorrelatable portion of the schema within properties[list]" in mistake.message
    )


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("(" * 249 + "1" + ")" * 249, "int"),
        ("1" + " + 1" * 249, "int"),
        ("!(" * 249 + "true" + ")" * 249, "bool"),
        ("true ? 1 : " * 249 + "1", "int"),
        ("[1].all(a, " * 240 + "true" + ")" * 240, "bool"),
        ("[1]" + ".filter(a, true)" * 240, "list"),
        ("dyn(" * 240 + "1" + ")" * 240, "dyn"),
        (" && ".join(["1 == 1"] * 5000), "bool"),
        ("-" * 50_001 + "1", "int"),
    ],
)
def test_what_nests_as_deep_as_kubernetes_allows_runs(source: str, kind: str) -> None:
    tree = check(parse(source), source, {})
    assert tree.type.kind == kind
    value, cost = compile_program(tree, source, {}).run((), 10_000_000)
    assert value is not None
    assert cost <= estimate(tree, None)[0].high


@pytest.mark.parametrize(
    "source",
    [
        "1" + " + 1" * 251,
        "self" + ".a" * 251,
        "self" + "[0]" * 251,
        "true ? 1 : " * 251 + "1",
        "(" * 251 + "1" + ")" * 251,
        "f(" * 251 + ")" * 251,
        "{1: " * 251 + "1" + "}" * 251,
    ],
)
def test_what_nests_deeper_is_refused_at_its_place(source: str) -> None:
    with pytest.raises(CompileError, match=r"ERROR: <input>:1:[0-9]+: expression recursion limit exceeded: 250"):
        parse(source)


def test_macros_that_repeat_what_they_stand_on_do_not_grow_without_end() -> None:
    source = "optional.of(1)" + ".optMap(a, a)" * 40
    with pytest.raises(CompileError, match="grows by more than 20000 nodes"):
        parse(source)


@pytest.mark.parametrize(
    "source",
    [
        "[1].all(x0, " + "".join(f"[{{x{i}: x{i}}}].all(x{i + 1}, " for i in range(60)) + "true" + ")" * 61,
        "[1].map(x0, " + "".join(f"[{{1: [x{i}], 2: [x{i}]}}].map(x{i + 1}, " for i in range(60)) + "1" + ")" * 61,
        "[].all(x0, " + "".join(f"[].all(x{i + 1}, [x{i}, {{x{i + 1}: x{i + 1}}}] == [] && " for i in range(60))
        + "true" + ")" * 61,
        "[" * 200 + "]" * 200,
        "optional.of(" * 200 + "1" + ")" * 200,
    ],
)  # fmt: skip
def test_types_without_end_are_refused(source: str) -> None:
    with pytest.raises(CompileError, match="too complex"):
        check(parse(source), source, {})


@pytest.mark.parametrize(
    "source",
    [
        "9" * 90_000,
        "0x" + "f" * 90_000,
        "1e" + "9" * 90_000,
        "'" * 99_999,
        '"' * 99_999,
        "`" * 99_999,
        "'''a\\z" * 15_000,
        '"""\\' * 20_000,
        "'" + "\\" * 90_000,
        "/" * 99_999,
        "\\" * 99_999,
        "." * 99_999,
        "'x'.matches('" + "(" * 9000 + "')",
        "'x'.matches('((a{100}){100}){100}')",
        "duration('" + "1h" * 40_000 + "')",
        "timestamp('" + "9" * 40_000 + "')",
        "a" + ".b" * 20_000 + "{}",
        "f(" + ",".join(["1"] * 20_000) + ")",
        "'\\ud800'",
        "b'\\u0041'",
        "'\ud83d'",
    ],
)
def test_hostile_literals_are_refused(source: str) -> None:
    with pytest.raises(CompileError):
        check(parse(source), source, {})


@examples(300)
@given(parts=st.lists(st.sampled_from(PIECES), max_size=40), schema=st.booleans())
def test_whatever_is_written_is_accepted_or_refused(parts: list[str], schema: bool) -> None:
    rule = "".join(parts)
    tree = {**(SCHEMA if schema else {"type": "string"}), "x-kubernetes-validations": [{"rule": rule, "message": "no"}]}
    rules, mistakes = compile_rules(tree, parse_schema(tree), bounded=False)
    if not mistakes and rules is not None:
        rules.validate({"s": "x", "l": [1, 2], "m": {"a": "b"}} if schema else "x")
