"""Our parser against cel-expr-python's: both refuse a text, or both make the same tree of it.

Places are compared too. What differs on purpose is in `DIFFERENT` and in `_alike`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from cel_library import Refused, library_tree
from hypothesis import example, given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.schema.cel.problems import CompileError
from oarlock.schema.cel.syntax.ast import Call, Const, Expr, Fold, Ident, ListOf, MapOf, Select
from oarlock.schema.cel.syntax.parsing import parse

pytestmark = pytest.mark.slow

pytest.importorskip("cel_expr_python.cel", reason="the library is what is compared with")


def plain(node: Expr | None) -> Any:
    """A tree as nested tuples, with places."""
    match node:
        case None:
            return None
        case Const(value=value):
            return ("const", node.offset, type(value).__name__, repr(value))
        case Ident(name=name):
            return ("ident", node.offset, name)
        case Select():
            return ("select", node.offset, plain(node.operand), node.field, node.test)
        case Call(function="_?._"):
            return ("maybe", node.offset, plain(node.args[0]), node.args[1].value)  # type: ignore[attr-defined]
        case Call():
            return ("call", node.offset, node.function, plain(node.target), [plain(arg) for arg in node.args])
        case ListOf():
            return ("list", node.offset, [plain(item) for item in node.items], sorted(node.optional))
        case MapOf(message=""):
            return ("map", node.offset, [(plain(key), plain(value), maybe) for key, value, maybe in node.entries])
        case MapOf():
            fields = [(key.value, plain(value), maybe) for key, value, maybe in node.entries]  # type: ignore[attr-defined]
            return ("message", node.message, fields)
        case Fold():
            names = (node.variable, node.second, node.accumulator)
            parts = [plain(part) for part in (node.over, node.start, node.result)]
            return ("fold", node.offset, names, *parts, plain(node.condition), _alike(node))
    raise AssertionError(node)


def _alike(node: Fold) -> Any:
    """The step of a loop. A variable that a macro repeats stands where the macro does; in the library where it was."""
    step = plain(node.step)
    if isinstance(node.step, Ident):
        return step[2]
    if isinstance(node.step, Call) and node.second:
        return _placeless(step, node.variable)
    return step


def _placeless(found: Any, name: str) -> Any:
    if isinstance(found, tuple) and found[:1] == ("ident",) and name in found[2:]:
        return ("ident", name)
    if isinstance(found, tuple | list):
        return [_placeless(inner, name) for inner in found]
    return found


def theirs(source: str) -> Any:
    try:
        return plain(library_tree(source))
    except Refused:
        return "refused"


def ours(source: str) -> Any:
    try:
        return plain(parse(source))
    except CompileError as error:
        return "refused" if str(error).startswith("ERROR: <input>:") else str(error)


def same(source: str) -> None:
    found, wanted = ours(source), theirs(source)
    if found != wanted and not _different(source):
        assert found == wanted, source


def _different(source: str) -> bool:
    """What cel-go, as Kubernetes sets it up, does otherwise than the library."""
    return (
        "existsOne" in source  # a macro there, a function to the library
        or "exists_one" in source  # with two variables a macro there
        or "`" in source  # quoted names are off there
        or re.search(r"[rR](['\"]).*\\\1", source) is not None  # a raw text may end in a backslash there
        or re.search("[0-9][eE][+]?[0-9]{3}", source) is not None  # a double that is too large is refused there
        or (_PAIRS.search(source) is not None and _COPIES.search(source) is not None)  # the copy loses the second name
        or source.count("\x00") > 0  # the library stops reading at a zero byte
    )


_PAIRS = re.compile(r"\.(all|exists|transform\w*)\([^,]*,[^,]*,")
_COPIES = re.compile(r"opt(Flat)?Map")


def texts_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(texts_of, value.values()))
    if isinstance(value, list):
        return set().union(*map(texts_of, value)) if value else set()
    return {value} if isinstance(value, str) else set()


@pytest.fixture(scope="module")
def recorded(shared_vectors: Any) -> list[str]:
    tables = ("crd_cel.json", "cel_libraries.json", "admission_cel.json")
    return sorted(set().union(*(texts_of(shared_vectors(table)) for table in tables)))


def test_every_text_of_the_recorded_tables(recorded: list[str]) -> None:
    accepted = 0
    for source in recorded:
        same(source)
        accepted += ours(source) != "refused"
    assert accepted > 1500


EASILY_WRONG = (Path(__file__).parent / "syntax.txt").read_text().strip("\n").split("\n")
MANY_LINES = ['"a\nb"', "r'''a\nb'''", "a\n||\nb", "a\r\n+\tb\fc", "'a\nb'", "'''a\r\nb\rc'''", "a//b\n+c", "a //\r+ b"]


@pytest.mark.parametrize("source", [*EASILY_WRONG, *MANY_LINES])
def test_what_is_easily_wrong(source: str) -> None:
    same(source)


names = st.sampled_from(["a", "self", "x", "in_", "_", "r", "b", "as", "has", "optional"])
atoms = st.one_of(
    names,
    st.integers(0, 2**64).map(str),
    st.integers(0, 2**64).map("{:#x}u".format),
    st.floats(0, allow_nan=False, allow_infinity=False).map(repr),
    st.text("ab\\\"'\n\r é😀\u2028", max_size=5).map(repr),
    st.sampled_from(["true", "null", "b'a'", "r'\\'", '"""a"b"""', "'\\u00e9'"]),
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["||", "&&", "==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%"])
    macros = st.sampled_from(["all", "exists", "map", "filter", "sortBy", "optMap", "optFlatMap", "startsWith"])
    pairs = st.sampled_from(["all", "exists", "transformList", "transformMap", "transformMapEntry"])
    return st.one_of(
        st.builds("{} {} {}".format, inner, operators, inner),
        st.builds("{}?{}:{}".format, inner, inner, inner),
        st.builds("{}{}".format, st.sampled_from(["!", "-", "--", "!!", "- "]), inner),
        st.builds("({})".format, inner),
        st.builds("{}.{}".format, inner, names),
        st.builds("{}.?{}".format, inner, names),
        st.builds("{}[{}{}]".format, inner, st.sampled_from(["", "?"]), inner),
        st.builds("{}.{}({}, {})".format, inner, macros, names, inner),
        st.builds("{}.{}({}, {}, {})".format, inner, pairs, names, names, inner),
        st.builds("[{}, ?{},]".format, inner, inner),
        st.builds("{{{}: {}, ?{}: {}}}".format, inner, inner, inner, inner),
        st.builds("{}{{{}: {}}}".format, names, names, inner),
        st.builds("{}({}) // {}\n".format, names, inner, names),
    )


@examples(400)
@given(source=st.recursive(atoms, _larger, max_leaves=8))
def test_expressions_at_random(source: str) -> None:
    same(source)


damage = st.sampled_from(
    [*"()[]{}.,-!?:+*/%<>=&|'\"\\\n\r\t @#$_axr019u", "&&", "||", '"""', "?.", "0x", "//", "é", "in"]
)


@examples(400)
@given(source=st.recursive(atoms, _larger, max_leaves=6), at=st.floats(0, 1), end=st.floats(0, 1), new=damage)
@example(source="a + b", at=0.5, end=0.5, new="é")
def test_damaged_expressions(source: str, at: float, end: float, new: str) -> None:
    first, last = sorted((round(at * len(source)), round(end * len(source))))
    same(source[:first] + new + source[first:])
    same(source[:first] + new + source[last:])
    same(source[:first])


@examples(400)
@given(source=st.text("abr'\"\\nxuU0149.+-()[]{}?:,!&|=<> \n\r`é", max_size=30))
def test_any_text(source: str) -> None:
    same(source)
