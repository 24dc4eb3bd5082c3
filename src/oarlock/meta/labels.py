"""Label selectors, as text (``app in (a,b),!tier``) and as objects (``matchLabels``), compiled to one function.

Parsing keeps no state. All requirements about one key are combined into one test, so matching takes at most as many
lookups as there are keys or labels, however many terms there are. See also: `fields`, for field selectors.
Source: k8s.io/apimachinery ``labels`` and ``meta/v1`` LabelSelector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from oarlock.meta import names
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported
from oarlock.meta.go.gotext import quote

Labels = Mapping[str, str]
"""The labels of one object."""

MAX_CHARACTERS = 65_536
"""The longest text that is read as a selector. It bounds the values of ``in (…)`` as well: some thousand of them."""

MAX_REQUIREMENTS = 1000
"""The most terms that a text may have."""

LabelTest = Callable[[Labels], bool]

_BINARY = ("in", "notin", "=", "==", "!=", "gt", "lt")
_UNARY = ("exists", "!")
_EXPRESSIONS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_INFIX = {"=": "=", "==": "==", "!=": "!=", "in": " in ", "notin": " notin ", "gt": ">", "lt": "<"}


class SelectorError(ValueError):
    """The text or object is not a label selector."""


class LabelRequirement(NamedTuple):
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
    """Requirements that must all hold. `matches` is a plain function, compiled when the selector is made."""

    __slots__ = ("matches", "nothing", "requirements")

    matches: Callable[[Labels], bool]

    def __init__(self, requirements: Iterable[LabelRequirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(requirements)
        self.nothing = nothing
        self.matches = _never if nothing else _all(self.requirements)

    @property
    def empty(self) -> bool:
        """Whether it selects everything."""
        return not self.requirements and not self.nothing

    def exact(self, key: str) -> str | None:
        """The only value of the label `key` that matches, or None when there may be several."""
        for requirement in self.requirements:
            if requirement.key == key and requirement.operator in ("=", "==", "in") and len(requirement.values) == 1:
                return requirement.values[0]
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


# Matching ------------------------------------------------------------------------------------------


class _KeyRequirements:
    """All requirements about one key, combined."""

    __slots__ = ("absent", "compares", "key", "present", "unwanted", "wanted")

    def __init__(self, key: str) -> None:
        self.key = key
        self.present = False
        self.absent = False
        self.wanted: frozenset[str] | None = None
        self.unwanted: set[str] = set()
        self.compares: list[Callable[[str], bool]] = []

    def add(self, operator: str, values: tuple[str, ...]) -> None:
        if operator == "!":
            self.absent = True
        elif operator in ("!=", "notin"):
            self.unwanted.update(values)
        else:
            self.present = True
            if operator in ("=", "==", "in"):
                self.wanted = frozenset(values) if self.wanted is None else self.wanted.intersection(values)
            elif operator != "exists":
                self.compares.append(_compares(operator, values[0]))

    def settle(self) -> bool:
        """Combine the requirements; False when no labels can match."""
        if self.absent:
            return not self.present
        if self.wanted is None:
            return True
        fit = [
            value
            for value in self.wanted
            if value not in self.unwanted and all(compare(value) for compare in self.compares)
        ]
        self.wanted, self.unwanted, self.compares = frozenset(fit), set(), []
        return bool(fit)

    def holds(self, value: str) -> bool:
        """Whether the value of a label that is present matches."""
        if self.wanted is not None:
            return value in self.wanted
        return value not in self.unwanted and all(compare(value) for compare in self.compares)


def _always(labels: Labels) -> bool:
    return True


def _never(labels: Labels) -> bool:
    return False


def _all(requirements: tuple[LabelRequirement, ...]) -> LabelTest:
    by_key: dict[str, _KeyRequirements] = {}
    for key, operator, values in requirements:
        requirements_of_key = by_key.get(key)
        if requirements_of_key is None:
            requirements_of_key = by_key[key] = _KeyRequirements(key)
        requirements_of_key.add(operator, values)
    if not all(requirements_of_key.settle() for requirements_of_key in by_key.values()):
        return _never
    tests = list(by_key.values())
    if not tests:
        return _always
    if len(tests) == 1:
        return _test(tests[0])
    if len(tests) == 2:
        first, second = map(_test, tests)
        return lambda labels: first(labels) and second(labels)
    return _several(tests)


def _test(requirements: _KeyRequirements) -> LabelTest:
    key, wanted, unwanted, holds = requirements.key, requirements.wanted, requirements.unwanted, requirements.holds
    if wanted is not None and len(wanted) == 1:
        (value,) = wanted
        return lambda labels: labels.get(key) == value
    if wanted is not None:
        return lambda labels: labels.get(key) in wanted
    if requirements.absent:
        return lambda labels: key not in labels
    if requirements.compares or (requirements.present and unwanted):
        return lambda labels: key in labels and holds(labels[key])
    if requirements.present:
        return lambda labels: key in labels
    return lambda labels: labels.get(key) not in unwanted


def _several(tests: list[_KeyRequirements]) -> LabelTest:
    """One test for several keys. Linear in the number of labels or of keys, whichever is smaller."""
    present = [(test.key, test.holds) for test in tests if test.present]
    others = {test.key: test for test in tests if not test.present}
    count, other_keys = len(present), others.keys()

    def matches(labels: Labels) -> bool:
        if len(labels) < count:
            return False
        for key, holds in present:
            value = labels.get(key)
            if value is None or not holds(value):
                return False
        for key in labels.keys() & other_keys if others else ():
            requirements = others[key]
            if requirements.absent or labels[key] in requirements.unwanted:
                return False
        return True

    return matches


def _compares(operator: str, value: str) -> Callable[[str], bool]:
    limit = _int64(value)
    greater = operator == "gt"

    def compare(text: str) -> bool:
        number = _int64(text)
        if number is None or limit is None:
            return False
        return number > limit if greater else number < limit

    return compare


_is_integer = re.compile(r"[+-]?[0-9]{1,40}").fullmatch


def _int64(text: str) -> int | None:
    if not _is_integer(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


# Making requirements ------------------------------------------------------------------------------


def requirement(key: str, operator: str, values: Iterable[str] = ()) -> LabelRequirement:
    """A validated requirement. Raises SelectorError with all errors."""
    return _requirement(key, operator, values, _key_complaints("key", key))


def _requirement(key: str, operator: str, values: Iterable[str], complaints: list[FieldError]) -> LabelRequirement:
    """A validated requirement; `complaints` are the errors about its key."""
    listed = sorted(set(values))
    complaints += _operator_complaints(operator, listed)
    for i, value in enumerate(listed):
        bad = names.label_value(value)
        if bad:
            complaints.append(Invalid(f"values[{i}][{key}]", value, "; ".join(bad)))
    if complaints:
        texts = list(dict.fromkeys(complaint.message for complaint in complaints))
        raise SelectorError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return LabelRequirement(key, operator, tuple(listed))


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
        errors: list[FieldError] = []
        if len(values) != 1:
            errors.append(Invalid("values", values, "for 'Gt', 'Lt' operators, exactly one value is required"))
        errors.extend(
            Invalid(f"values[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
            for i, value in enumerate(values)
            if _int64(value) is None
        )
        return errors
    return [NotSupported("operator", operator, _BINARY + _UNARY)]


def _sorted(requirements: Iterable[LabelRequirement]) -> Selector:
    return Selector(sorted(requirements, key=lambda requirement: requirement.key))


def from_label_selector(tree: Mapping[str, Any] | None) -> Selector:
    """The selector of a ``LabelSelector`` object: None selects nothing, an empty one everything.

    Raises SelectorError.
    """
    if tree is None:
        return NOTHING
    requirements = [requirement(key, "=", [value]) for key, value in (tree.get("matchLabels") or {}).items()]
    for expression in tree.get("matchExpressions") or ():
        operator = expression.get("operator", "")
        if operator not in _EXPRESSIONS:
            raise SelectorError(f"{quote(str(operator))} is not a valid label selector operator")
        requirements.append(
            requirement(expression.get("key", ""), _EXPRESSIONS[operator], expression.get("values") or ())
        )
    return _sorted(requirements) if requirements else EVERYTHING


# Reading text -------------------------------------------------------------------------------------

_token = re.compile(r"(?P<symbol>[!=]=|[=!(),<>])|(?P<word>[^=!(),<>\x20\t\r\n]+)|[\x20\t\r\n]+").match
_plain_values = re.compile(r"[^=!()<>\x20\t\r\n]*\)").match
_OPERATORS = {"in": "in", "notin": "notin", "=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt"}
_END = ("end", "")


def parse(text: str) -> Selector:
    """Parse a selector; an empty text selects everything.

    Raises SelectorError with Kubernetes' wording, also beyond `MAX_CHARACTERS` or `MAX_REQUIREMENTS`.
    """
    if not text:
        return EVERYTHING
    if len(text) > MAX_CHARACTERS:
        raise SelectorError(f"the label selector has {len(text)} characters, at most {MAX_CHARACTERS} are allowed")
    return _sorted(_SelectorParser(text).requirements())


class _SelectorParser:
    """A recursive descent parser. A token is a kind (``word``, ``end`` or the symbol itself) and its text."""

    __slots__ = ("_at", "_next", "_text")

    def __init__(self, text: str) -> None:
        self._text = text.partition("\0")[0]
        self._at = 0
        self._next = self._read()

    def _read(self) -> tuple[str, str]:
        while (match := _token(self._text, self._at)) is not None:
            self._at = match.end()
            kind = match.lastgroup
            if kind:
                return match[0] if kind == "symbol" else kind, match[0]
        return _END

    def peek(self) -> tuple[str, str]:
        return self._next

    def take(self) -> tuple[str, str]:
        token = self._next
        self._next = self._read()
        return token

    def requirements(self) -> list[LabelRequirement]:
        requirements: list[LabelRequirement] = []
        while True:
            kind, text = self.peek()
            if kind == "end":
                return requirements
            if kind not in ("word", "!"):
                raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
            if len(requirements) == MAX_REQUIREMENTS:
                raise SelectorError(f"the label selector has more than {MAX_REQUIREMENTS} requirements")
            try:
                requirements.append(self.requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, text = self.take()
            if kind == "end":
                return requirements
            if kind != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self.peek()
            if kind not in ("word", "!"):
                raise SelectorError(f"found '{text}', expected: identifier after ','")

    def requirement(self) -> LabelRequirement:
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
            return LabelRequirement(key, "!")
        if self.peek()[0] in ("end", ","):
            return LabelRequirement(key, "exists")
        _, text = self.take()
        operator = _OPERATORS.get(text)
        if operator is None:
            raise SelectorError(f"found '{text}', expected: {', '.join(_BINARY)}")
        return _requirement(key, operator, self.listed() if operator in ("in", "notin") else self.single(), [])

    def single(self) -> set[str]:
        if self.peek()[0] in ("end", ","):
            return {""}
        kind, text = self.take()
        if kind != "word":
            raise SelectorError(f"found '{text}', expected: identifier")
        return {text}

    def listed(self) -> set[str]:
        kind, text = self.peek()
        if kind != "(":
            raise SelectorError(f"found '{text}' expected: '('")
        plain = _plain_values(self._text, self._at)
        if plain is not None:  # thousands of values, token by token, would take long
            self._at = plain.end()
            self._next = self._read()
            return set(plain[0][:-1].split(","))
        self.take()
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
