"""CEL rules, by cases of our own: what holds, what fails and how it is told, Kubernetes' functions, what they cost."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.schema.cel.checker import check
from oarlock.schema.cel.compiling import compile_program
from oarlock.schema.cel.cost_estimate import estimate
from oarlock.schema.cel.declared import escape
from oarlock.schema.cel.expression import CALL_LIMIT, OBJECT_BUDGET, Budget
from oarlock.schema.cel.problems import CelError
from oarlock.schema.cel.rules import FieldPathError, compile_rules, normalized
from oarlock.schema.cel.syntax.parsing import parse as parse_cel
from oarlock.schema.structural.nodes import parse

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
PORT = {"type": "object", "properties": {"name": TEXT, "number": WHOLE}}
BOAT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "crew": WHOLE,
        "length": {"type": "number"},
        "afloat": {"type": "boolean"},
        "built": {"type": "string", "format": "date-time"},
        "watch": {"type": "string", "format": "duration"},
        "ports": {"type": "array", "items": PORT},
        "tags": {"type": "object", "additionalProperties": TEXT},
        "in": TEXT,
        "share": {"x-kubernetes-int-or-string": True},
    },
}
SLOOP = {
    "name": "sloop",
    "crew": 3,
    "length": 9.5,
    "afloat": True,
    "built": "2020-05-01T00:00:00Z",
    "watch": "4h",
    "ports": [{"name": "a", "number": 1}, {"name": "b", "number": 2}],
    "tags": {"colour": "red"},
    "in": "dock",
    "share": "5%",
}


def errors_of(rules: list[dict[str, Any]], old: Any = None, budget: int = OBJECT_BUDGET) -> list[str]:
    schema = {**BOAT, "x-kubernetes-validations": rules}
    compiled, mistakes = compile_rules(schema, parse(schema), bounded=False)
    if mistakes:
        return [error.message for error in mistakes]
    assert compiled is not None
    return [error.message for error in compiled.spend(SLOOP, old, Budget(budget, CALL_LIMIT), at=(None, "boat"))]


@pytest.mark.parametrize(
    "rule",
    [
        "self.crew == 3 && self.length > 9.0 && self.afloat",
        "self.name.startsWith('sl') && self.name.size() == 5",
        "self.built < timestamp('2021-01-01T00:00:00Z')",
        "self.built.getFullYear() == 2020",
        "self.watch == duration('240m')",
        "self.ports.all(p, p.number > 0)",
        "self.ports.exists_one(p, p.name == 'b')",
        "self.ports.map(p, p.number) == [1, 2]",
        "self.ports.filter(p, p.number > 1).size() == 1",
        "'colour' in self.tags && self.tags.colour == 'red'",
        "self.tags.all(k, k.matches('^[a-z]+$'))",
        "has(self.name) && !has(self.tags.shape)",
        "self.__in__ == 'dock'",
        "type(self.share) == string && self.share == '5%'",
        "self.tags[?'shape'].orValue('round') == 'round'",
        "self.?tags.hasValue()",
        "self.ports.transformList(i, p, i + p.number) == [1, 3]",
        "self.crew in [1, 2, 3] ? true : false",
    ],
)
def test_rules_that_hold(rule: str) -> None:
    assert errors_of([{"rule": rule}]) == []


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"rule": "self.crew > 5"}, "boat: Invalid value: failed rule: self.crew > 5"),
        ({"rule": "self.crew > 5", "message": "too few"}, "boat: Invalid value: too few"),
        (
            {"rule": "self.crew > 5", "messageExpression": "'crew of %d'.format([self.crew])"},
            "boat: Invalid value: crew of 3",
        ),
        ({"rule": "self.crew > 5", "message": "m", "reason": "FieldValueForbidden"}, "boat: Forbidden: m"),
        ({"rule": "self.crew > 5", "message": "m", "fieldPath": ".crew"}, "boat.crew: Invalid value: m"),
        ({"rule": "self.ports[7].number > 1"}, "index out of bounds"),
        ({"rule": "self.crew / 0 > 1"}, "division by zero"),
        ({"rule": "self.tags.shape == 'x'"}, "no such key"),
        ({"rule": "self.crew"}, "must evaluate to a bool"),
        ({"rule": "self.crew > '5'"}, "no matching overload"),
        ({"rule": "self.depth > 5"}, "undefined field 'depth'"),
        ({"rule": "self.crew >"}, "Syntax error"),
    ],
)
def test_rules_that_fail_say_why(rule: dict[str, Any], said: str) -> None:
    [found] = errors_of([rule])
    assert said.removeprefix("boat: Invalid value: ") in found
    assert not said.startswith("boat") or found.startswith(said.partition(":")[0])


def test_a_rule_of_transition_runs_when_there_was_something_before() -> None:
    rule = {"rule": "self.crew >= oldSelf.crew"}
    assert errors_of([rule], old=None) == []
    assert errors_of([rule], old={**SLOOP, "crew": 2}) == []
    assert len(errors_of([rule], old={**SLOOP, "crew": 9})) == 1
    optional = {"rule": "!oldSelf.hasValue()", "optionalOldSelf": True}
    assert errors_of([optional], old=None) == []
    assert len(errors_of([optional], old={**SLOOP, "crew": 2})) == 1


def test_what_costs_too_much_is_stopped() -> None:
    [found] = errors_of([{"rule": "self.ports.all(p, self.ports.all(q, p.name + q.name != 'x'))"}], budget=10)
    assert "budget" in found


def run(source: str) -> tuple[Any, int]:
    tree = check(parse_cel(source), source, {}, mixed=True)
    return compile_program(tree, source, {}, optimize=False).run((), 10_000_000)


@pytest.mark.parametrize(
    "source",
    [
        "ip('10.0.0.1').family() == 4 && ip('fd00::1').family() == 6",
        "isIP('::1') && !isIP('10.0.0')",
        "ip('127.0.0.1').isLoopback() && !ip('10.0.0.1').isLoopback()",
        "cidr('10.0.0.0/8').containsIP('10.9.9.9') && !cidr('10.0.0.0/8').containsIP('11.0.0.1')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.0.0.0/8').prefixLength() == 8",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1500m').asApproximateFloat() == 1.5",
        "quantity('2').add(1) == quantity('3') && !isQuantity('2 k')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.2.3').minor() == 2 && !isSemver('1.2')",
        "format.dns1123Label().validate('a-b') == optional.none() && format.dns1123Label().validate('A').hasValue()",
        "url('https://a.io:8443/b?c=d').getHost() == 'a.io:8443' && isURL('https://a.io') && !isURL('a b')",
        "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1'.find('[0-9]') == '1'",
        "[3, 1, 2].sum() == 6 && [3, 1, 2].max() == 3 && [1, 2, 2].isSorted() && [1, 2].indexOf(2) == 1",
        "'A,b'.lowerAscii().split(',') == ['a', 'b'] && ['x', 'y'].join('-') == 'x-y' && ' x '.trim() == 'x'",
        "sets.contains([1, 2, 3], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])",
        "'%s has %d'.format(['a', 2]) == 'a has 2' && 'abc'.substring(1, 2) == 'b' && 'abc'.charAt(0) == 'a'",
    ],
)
def test_functions(source: str) -> None:
    assert run(source)[0] is True


@pytest.mark.parametrize(
    "source", ["ip('10.0.0')", "cidr('10.0.0.0/99')", "quantity('k')", "semver('1')", "url('a b')"]
)
def test_texts_that_are_none_of_it(source: str) -> None:
    with pytest.raises(CelError):
        run(source)


def test_a_function_costs_what_it_reads() -> None:
    short, long = f"'{'a' * 10}'.contains('b')", f"'{'a' * 1000}'.contains('b')"
    assert run(long)[1] - run(short)[1] == 99  # a tenth of a unit for each of 990 characters
    for source in (short, long, "[1, 2, 3].all(x, x > 0)", "'a,b'.split(',')", "quantity('1').add(quantity('2'))"):
        thought, _ = estimate(check(parse_cel(source), source, {}, mixed=True), None)
        assert thought.low <= run(source)[1] <= thought.high, source


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain", "plain"),
        ("in", "__in__"),
        ("a-b", "a__dash__b"),
        ("a.b", "a__dot__b"),
        ("a/b", "a__slash__b"),
        ("a__b", "a__underscores__b"),
        ("9a", None),
        ("a b", None),
    ],
)
def test_names_of_fields_that_are_no_names_of_cel(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped


def test_paths_of_fields() -> None:
    node = parse(BOAT)
    assert normalized(".crew", node) == "crew"
    assert normalized("['crew']", node) == "crew"
    assert normalized(".tags.colour", node) == "tags[colour]"
    for wrong in (".nothing", "crew", ".ports[0]", ".", ".crew.more"):
        with pytest.raises(FieldPathError):
            normalized(wrong, node)


@pytest.mark.parametrize("value", ["null", "1", "'text'", "true", "1.5", "duration('1s')", "{'b': 1}"])
def test_what_has_no_fields_lacks_them(value: str) -> None:
    with pytest.raises(CelError, match=r"^no such key: a$"):
        run(f"dyn({value}).a == 1")
    assert run(f"has(dyn({value}).a)")[0] is False


def test_a_list_has_no_names() -> None:
    with pytest.raises(CelError, match=r"^unsupported index type 'string' in list$"):
        run("dyn([1]).a == 1")
