"""Label selectors, as text (``app in (a,b),!tier``) and as objects (``matchLabels``), compiled to one function.

Parsing is pure and keeps nothing; a caller that sees the same text often caches the result.
Next: `fields`, the smaller sibling.
Source: k8s.io/apimachinery ``labels`` and ``meta/v1`` LabelSelector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from oarlock.meta import names
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported
from oarlock.meta.gotext import quote

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Labels",
    "Requirement",
    "Selector",
    "SelectorError",
    "from_label_selector",
    "parse",
    "requirement",
]

Labels = Mapping[str, str]
"""The labels of one object."""

_BINARY = ("in", "notin", "=", "==", "!=", "gt", "lt")
_UNARY = ("exists", "!")
_EXPRESSIONS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_INFIX = {"=": "=", "==": "==", "!=": "!=", "in": " in ", "notin": " notin ", "gt": ">", "lt": "<"}


class SelectorError(ValueError):
    """The text or object is not a label selector."""


class Requirement(NamedTuple):
    """One term. `operator` is one of ``= == != in notin exists ! gt lt``; `values` are sorted and distinct."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator == "!":
            return f"!{self.key}"
        if self.operator == "exists":
            return self.key
        values = ",".join(self.values)
        if self.operator in ("in", "notin"):
            values = f"({values})"
        return f"{self.key}{_INFIX[self.operator]}{values}"


class Selector:
    """Requirements that must all hold. `matches` is one plain function made when the selector is."""

    __slots__ = ("matches", "nothing", "requirements")

    matches: Callable[[Labels], bool]

    def __init__(self, requirements: Iterable[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(requirements)
        self.nothing = nothing
        self.matches = _never if nothing else _all(self.requirements)

    @property
    def empty(self) -> bool:
        """Does it select everything?"""
        return not self.requirements and not self.nothing

    def exact(self, key: str) -> str | None:
        """The one value the label `key` must have, or None when it may have several."""
        for one in self.requirements:
            if one.key == key and one.operator in ("=", "==", "in") and len(one.values) == 1:
                return one.values[0]
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return "NOTHING" if self.nothing else f"Selector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selector):
            return NotImplemented
        return (self.requirements, self.nothing) == (other.requirements, other.nothing)

    def __hash__(self) -> int:
        return hash((self.requirements, self.nothing))


# What a requirement asks of labels ----------------------------------------------------------------


def _always(labels: Labels) -> bool:
    return True


def _never(labels: Labels) -> bool:
    return False


def _all(requirements: tuple[Requirement, ...]) -> Callable[[Labels], bool]:
    tests = [_test(one) for one in requirements]
    if not tests:
        return _always
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda labels: first(labels) and second(labels)
    return lambda labels: all(test(labels) for test in tests)


def _test(one: Requirement) -> Callable[[Labels], bool]:
    key, operator, values = one
    if operator in ("=", "==", "in") and len(values) == 1:
        value = values[0]
        return lambda labels: labels.get(key) == value
    if operator == "in":
        wanted = frozenset(values)
        return lambda labels: labels.get(key) in wanted
    if operator in ("!=", "notin"):
        unwanted = frozenset(values)
        return lambda labels: labels.get(key) not in unwanted
    if operator == "exists":
        return lambda labels: key in labels
    if operator == "!":
        return lambda labels: key not in labels
    return _compares(key, operator, values[0])


def _compares(key: str, operator: str, value: str) -> Callable[[Labels], bool]:
    limit = _int64(value)
    if limit is None:
        return _never

    def test(labels: Labels) -> bool:
        text = labels.get(key)
        number = None if text is None else _int64(text)
        if number is None:
            return False
        return number > limit if operator == "gt" else number < limit

    return test


_is_integer = re.compile(r"[+-]?[0-9]{1,40}").fullmatch


def _int64(text: str) -> int | None:
    if not _is_integer(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


# Making requirements ------------------------------------------------------------------------------


def requirement(key: str, operator: str, values: Iterable[str] = ()) -> Requirement:
    """A checked requirement. Raises SelectorError with every complaint."""
    listed = sorted(set(values))
    complaints = _key_complaints("key", key) + _operator_complaints(operator, listed)
    for i, value in enumerate(listed):
        bad = names.label_value(value)
        if bad:
            complaints.append(Invalid(f"values[{i}][{key}]", value, "; ".join(bad)))
    if complaints:
        texts = list(dict.fromkeys(complaint.message for complaint in complaints))
        raise SelectorError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return Requirement(key, operator, tuple(listed))


def _key_complaints(path: str, key: str) -> list[FieldError]:
    bad = names.qualified_name(key)
    return [Invalid(path, key, "; ".join(bad))] if bad else []


def _operator_complaints(operator: str, values: list[str]) -> list[FieldError]:
    if operator in ("in", "notin"):
        return [] if values else [Invalid("values", values, "for 'in', 'notin' operators, values set can't be empty")]
    if operator in ("=", "==", "!="):
        return (
            []
            if len(values) == 1
            else [Invalid("values", values, "exact-match compatibility requires one single value")]
        )
    if operator in _UNARY:
        return [Invalid("values", values, "values set must be empty for exists and does not exist")] if values else []
    if operator in ("gt", "lt"):
        found: list[FieldError] = []
        if len(values) != 1:
            found.append(Invalid("values", values, "for 'Gt', 'Lt' operators, exactly one value is required"))
        found.extend(
            Invalid(f"values[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
            for i, value in enumerate(values)
            if _int64(value) is None
        )
        return found
    return [NotSupported("operator", operator, _BINARY + _UNARY)]


def _sorted(requirements: Iterable[Requirement]) -> Selector:
    return Selector(sorted(requirements, key=lambda one: one.key))


def from_label_selector(tree: Mapping[str, Any] | None) -> Selector:
    """The selector that a ``LabelSelector`` object means: None selects nothing, an empty one everything.

    Raises SelectorError.
    """
    if tree is None:
        return NOTHING
    found = [requirement(key, "=", [value]) for key, value in (tree.get("matchLabels") or {}).items()]
    for expression in tree.get("matchExpressions") or ():
        operator = expression.get("operator", "")
        if operator not in _EXPRESSIONS:
            raise SelectorError(f"{quote(str(operator))} is not a valid label selector operator")
        found.append(requirement(expression.get("key", ""), _EXPRESSIONS[operator], expression.get("values") or ()))
    return _sorted(found) if found else EVERYTHING


# Reading text -------------------------------------------------------------------------------------

_TOKENS = re.compile(r"(?P<symbol>[!=]=|[=!(),<>])|(?P<word>[^=!(),<>\x20\t\r\n]+)|[\x20\t\r\n]+")
_OPERATORS = {"in": "in", "notin": "notin", "=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt"}
_END = ("end", "")


def parse(text: str) -> Selector:
    """Read a selector; an empty text selects everything. Raises SelectorError with the API's wording."""
    if not text:
        return EVERYTHING
    return _sorted(_Parser(text).requirements())


class _Parser:
    """Recursive descent over tokens; each token is its kind (``word``, ``end`` or the symbol itself) and text."""

    __slots__ = ("position", "tokens")

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        for found in _TOKENS.finditer(text.partition("\0")[0]):
            if found["symbol"]:
                self.tokens.append((found["symbol"], found["symbol"]))
            elif found["word"]:
                self.tokens.append(("word", found["word"]))
        self.position = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else _END

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.position += 1
        return token

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            kind, text = self.peek()
            if kind == "end":
                return found
            if kind not in ("word", "!"):
                raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self.requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, text = self.take()
            if kind == "end":
                return found
            if kind != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self.peek()
            if kind not in ("word", "!"):
                raise SelectorError(f"found '{text}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        kind, key = self.take()
        negated = kind == "!"
        if negated:
            kind, key = self.take()
        if kind != "word":
            raise SelectorError(f"found '{key}', expected: identifier")
        complaints = _key_complaints("<nil>", key)
        if complaints:
            raise SelectorError(complaints[0].message)
        if negated:
            return requirement(key, "!")
        if self.peek()[0] in ("end", ","):
            return requirement(key, "exists")
        _, text = self.take()
        operator = _OPERATORS.get(text)
        if operator is None:
            raise SelectorError(f"found '{text}', expected: {', '.join(_BINARY)}")
        return requirement(key, operator, self.listed() if operator in ("in", "notin") else self.single())

    def single(self) -> set[str]:
        if self.peek()[0] in ("end", ","):
            return {""}
        kind, text = self.take()
        if kind != "word":
            raise SelectorError(f"found '{text}', expected: identifier")
        return {text}

    def listed(self) -> set[str]:
        kind, text = self.take()
        if kind != "(":
            raise SelectorError(f"found '{text}' expected: '('")
        kind, text = self.peek()
        if kind not in ("word", ",", ")"):
            raise SelectorError(f"found '{text}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            kind, text = self.take()
            if kind == ")":
                # An empty element is a value too: "(a,)" and "()" hold one.
                return values | {""}
            if kind == ",":
                values.add("")
                continue
            if kind != "word":
                raise SelectorError(f"found '{text}', expected: ',', or identifier")
            values.add(text)
            kind, text = self.peek()
            if kind not in (",", ")"):
                raise SelectorError(f"found '{text}', expected: ',' or ')'")
            self.take()
            if kind == ")":
                return values
