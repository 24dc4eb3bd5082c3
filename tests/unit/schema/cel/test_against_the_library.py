"""Our checker and evaluator against the library's own, wherever both understand an expression.

The library evaluates; we evaluate; both must come to the same value, or both to none. Expressions are made of
pieces at random, and there is a list of those that are easy to get wrong.
"""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.schema.cel import types
from oarlock.schema.cel.checker import check
from oarlock.schema.cel.compiling import compile_program
from oarlock.schema.cel.problems import CelError
from oarlock.schema.cel.syntax.parsing import parse
from oarlock.schema.cel.values import Duration, Optional, Timestamp, TypeValue, from_key

pytestmark = pytest.mark.slow

cel = pytest.importorskip("cel_expr_python.cel", reason="the library is what is compared with")

SELF = {"n": 3, "big": 2**63 - 1, "f": 1.5, "s": "Hällo", "l": [3, 1, 2], "m": {"a": 1, "b": 2}, "b": True, "z": None}
EXTENSIONS = "extensions:\n" + "".join(
    f"- name: {name}\n" for name in ("lists", "two-var-comprehensions", "optional", "strings", "sets", "bindings")
)


@pytest.fixture(scope="module")
def library() -> Any:
    config = cel.NewEnvConfigFromYaml(EXTENSIONS)
    return cel.NewEnv(config=config, variables={"self": cel.Type.DYN})


FAILED = "failed"


def theirs(library: Any, source: str) -> Any:
    """What the library makes of it: a value, or FAILED. RuntimeError for what it refuses to compile."""
    found = library.compile(source).eval(data={"self": SELF})
    if found.type() == cel.Type.ERROR:
        return FAILED
    return plain_theirs(found.plain_value())


def plain_theirs(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return ("time", round(value.timestamp() * 1000))
    if isinstance(value, datetime.timedelta):
        return ("duration", round(value.total_seconds() * 1000))
    if isinstance(value, list):
        return [plain_theirs(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain_theirs(item) for key, item in value.items()}
    return (type(value).__name__, value) if isinstance(value, bool | int | float) else value


def ours(source: str) -> Any:
    try:
        tree = check(parse(source), source, {"self": types.DYN}, mixed=True)
        value, _ = compile_program(tree, source, {"self": None}).run((SELF,), 10_000_000)
    except CelError:
        return FAILED
    return plain_ours(value)


def plain_ours(value: Any) -> Any:
    if isinstance(value, Timestamp):
        return ("time", round(value.ns / 1e6))
    if isinstance(value, Duration):
        return ("duration", round(value.ns / 1e6))
    if isinstance(value, list):
        return [plain_ours(item) for item in value]
    if isinstance(value, dict):
        return {str(from_key(key)): plain_ours(item) for key, item in value.items()}
    if isinstance(value, bool | float):
        return (type(value).__name__, value)
    return ("int", int(value)) if isinstance(value, int) else value


def same(library: Any, source: str) -> None:
    try:
        wanted = theirs(library, source)
    except RuntimeError:
        wanted = FAILED
    found = ours(source)
    assert repr(found) == repr(wanted), source


TRICKY = """
1 + 2 * 3 - 4 / 3 % 2
-7 / 2
-7 % 3
7 / -2
9223372036854775807 + 1
-9223372036854775808 - 1
self.big + 1
self.big * 2
1 / 0
1 % 0
1.0 / 0.0
0.0 / 0.0 == 0.0 / 0.0
-(self.n)
2u - 3u
2u + 3u
18446744073709551615u + 1u
'a' + 'b' < 'ac'
b'a' + b'b' == b'ab'
[1, 2] + [3] == [1, 2, 3]
[1] == [1.0]
dyn(1) == 1.0
dyn(1) == 1u
dyn(1) == true
dyn('1') == 1
[[1]] == [[1, 2]]
{'a': 1} == {'a': 1.0}
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
null == null
self.z == null
true || 1 / 0 == 1
1 / 0 == 1 || true
false && 1 / 0 == 1
1 / 0 == 1 && false
1 / 0 == 1 || false
self.b ? 1 : 1 / 0
has(self.n)
has(self.nope)
self.nope
self.m.a
self.m['b']
self.m['c']
self.l[0]
self.l[3]
self.l[-1]
'a' in self.m
3 in self.l
4 in self.l
self.l.all(x, x > 0)
self.l.all(x, x > 1)
self.l.exists(x, x == 2)
self.l.exists(x, 1 / (x - 3) == 1)
self.l.exists(x, 1 / (x - 3) == -1 && x == 2)
self.l.all(x, 1 / (x - 3) == 5)
self.l.exists_one(x, x > 2)
self.l.map(x, x * 2)
self.l.map(x, x > 1, x * 2)
self.l.filter(x, x != 1)
self.l.map(x, self.l.map(y, x * y))
self.m.all(k, self.m[k] > 0)
self.m.exists(k, v, k == 'b' && v == 2)
self.l.all(i, v, i < v + 3)
self.l.transformList(i, v, i * v)
self.l.transformList(i, v, v > 1, i)
self.l.sort()
self.l.sortBy(x, -x)
self.l.reverse()
self.l.slice(0, 2)
self.l.distinct()
[[1], [2, 3]].flatten()
lists.range(4)
sets.contains(self.l, [1, 2])
sets.equivalent(self.l, [1, 2, 3, 3])
sets.intersects(self.l, [7])
size(self.s)
self.s.size()
self.s.charAt(1)
self.s.indexOf('l')
self.s.lastIndexOf('l')
self.s.substring(1, 3)
self.s.substring(3, 1)
self.s.upperAscii()
self.s.replace('l', 'LL')
self.s.replace('', '-')
self.s.split('')
self.s.split('l', 2)
self.s.split('l')
' x '.trim()
['a', 'b'].join(',')
self.s.startsWith('H')
self.s.endsWith('o')
self.s.contains('äl')
self.s.matches('^H.*o$')
'%d|%s|%x|%b'.format([10, 'a', 255, 5])
int('42') + int(3.99) + int(-3.99)
int('x')
int(1e30)
uint(-1)
double('1.5') + 1.0
string(1.5)
string(true)
string(-12)
bytes('ä').size()
bool('true')
bool('yes')
type(1) == int
type(self.l) == list
type(type(1)) == type
duration('1h30m') + duration('15s')
duration('1h').getMinutes()
timestamp('2024-02-29T12:30:45Z') + duration('24h')
timestamp('2024-02-29T12:30:45Z').getDayOfYear()
timestamp('2024-02-29T12:30:45Z').getDayOfWeek()
timestamp('2024-02-29T12:30:45Z').getHours('+02:00')
timestamp('2024-03-01T00:00:00Z') - timestamp('2024-02-28T00:00:00Z') == duration('48h')
timestamp('2024-02-29T12:30:45Z') < timestamp('2025-02-29T12:30:45Z')
optional.of(1).orValue(2)
optional.none().orValue(2)
optional.ofNonZeroValue(0).hasValue()
self.?nope.orValue('x')
self.?n.orValue(7)
self.m[?'a'].orValue(9)
self.m[?'q'].orValue(9)
self.l[?9].hasValue()
self.?m.?a.optMap(v, v + 1).orValue(0)
[?optional.of(1), ?optional.none(), 3]
{?'a': optional.none(), 'b': 2}
optional.of(self.n + 1).optMap(x, x * x).value()
self.n > 2 && self.s == 'Hällo' || self.nope
self.f < self.n
self.n >= 3u
1 < 1.5
'a' < 1
true < false
{true: 1}[true]
{1: 'a'}[1.0]
{1: 'a'}[1u]
'\\u00e9' == 'é'
r'\\d' == '\\\\d'
""".strip().splitlines()


# What the library does otherwise, and Kubernetes' Go implementation as we do.
KNOWN = {
    "1 < 1.5",  # numbers of two types can be compared, which the library's checker can't be told
}


@pytest.mark.parametrize("source", [line for line in TRICKY if line not in KNOWN])
def test_tricky_expressions(library: Any, source: str) -> None:
    same(library, source)


numbers = st.sampled_from(["1", "2", "-3", "0", "self.n", "self.big", "size(self.l)", "self.m.a", "self.l[1]"])
texts = st.sampled_from(["'a'", "'bc'", "''", "self.s", "self.s + 'x'"])


def _numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner)


integers = st.recursive(numbers, _numbers, max_leaves=4)
comparisons = st.one_of(
    st.builds("{} {} {}".format, integers, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), integers),
    st.builds("{} {} {}".format, texts, st.sampled_from(["<", "<=", "==", "!="]), texts),
    st.builds("self.l.{}(x, x {} {})".format, st.sampled_from(["all", "exists", "exists_one"]), st.just(">"), integers),
    st.builds("{} in self.l".format, integers),
    st.sampled_from(["has(self.n)", "has(self.nope)", "self.nope", "self.b", "true", "false", "self.m.c == 1"]),
)


def _logic(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["&&", "||"]), inner),
        st.builds("!({})".format, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    )


@examples(300)
@given(source=st.recursive(comparisons, _logic, max_leaves=5))
def test_expressions_at_random(library: Any, source: str) -> None:
    same(library, source)


def test_an_absent_optional_is_none() -> None:
    value = compile_program(check(parse("optional.none()"), "optional.none()", {}), "", {}).run((), 100)[0]
    assert isinstance(value, Optional)
    assert not value.present
    tree = check(parse("int"), "int", {})
    assert compile_program(tree, "int", {}).run((), 100) == (TypeValue("int"), 0)
