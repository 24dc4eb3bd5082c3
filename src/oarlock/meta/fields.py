"""Field selectors: ``metadata.name=a,spec.x!=b`` as requirements.

The caller decides which fields a resource can be selected by. All terms about one field are combined into one
`FieldCondition`, so each field is looked up once. See also: `labels`.
Source: k8s.io/apimachinery ``fields``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from oarlock.meta.dataclass import dataclass

MAX_CHARACTERS = 65_536
"""The longest text that is read as a selector."""

MAX_REQUIREMENTS = 1000
"""The most terms that a text may have."""

_SPECIAL = frozenset("\\,=")


class FieldSelectorError(ValueError):
    """The text is not a field selector."""


class FieldRequirement(NamedTuple):
    """One term; all of a selector's terms must hold."""

    field: str
    operator: Literal["=", "!="]
    value: str

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{escape(self.value)}"


class FieldCondition(NamedTuple):
    """All terms about one field: its value must be in `wanted` (None: anything) and not in `unwanted`."""

    field: str
    wanted: frozenset[str] | None
    unwanted: frozenset[str]

    @property
    def exact(self) -> str | None:
        """The only value that matches, or None when several or none do."""
        if self.wanted is None or len(self.wanted) != 1:
            return None
        (value,) = self.wanted
        return None if value in self.unwanted else value

    def holds(self, value: str) -> bool:
        return (self.wanted is None or value in self.wanted) and value not in self.unwanted


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """The terms in the order of the text. Without terms, everything matches."""

    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.requirements

    def conditions(self) -> list[FieldCondition]:
        """The terms, grouped by field."""
        values: dict[str, set[str] | None] = {}
        unwanted: dict[str, set[str]] = {}
        for field, operator, value in self.requirements:
            one_of = values.setdefault(field, None)
            if operator == "=":
                values[field] = {value} if one_of is None else one_of & {value}
            else:
                unwanted.setdefault(field, set()).add(value)
        return [
            FieldCondition(field, None if one_of is None else frozenset(one_of), frozenset(unwanted.get(field, ())))
            for field, one_of in values.items()
        ]

    def matches(self, get: Callable[[str], str]) -> bool:
        """Whether all terms hold. `get` returns the value of a field, ``""`` when it is absent."""
        return all(condition.holds(get(condition.field)) for condition in self.conditions())

    def exact(self, field: str) -> str | None:
        """The only value of `field` that matches, or None when there may be several."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.operator == "=":
                return requirement.value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def escape(value: str) -> str:
    """`value` escaped for a selector."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def unescape(text: str) -> str:
    """The value of the escaped `text`. Raises FieldSelectorError."""
    if _SPECIAL.isdisjoint(text):
        return text
    value: list[str] = []
    chars = iter(text)
    for char in chars:
        if char == "\\":
            escaped = next(chars, "")
            if escaped not in _SPECIAL:
                raise FieldSelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            value.append(escaped)
        elif char in _SPECIAL:
            raise FieldSelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            value.append(char)
    return "".join(value)


def parse(text: str) -> FieldSelector:
    """Parse a selector; an empty text selects everything.

    Raises FieldSelectorError, also beyond `MAX_CHARACTERS` or `MAX_REQUIREMENTS`.
    """
    if not text:
        return FieldSelector()
    if len(text) > MAX_CHARACTERS:
        raise FieldSelectorError(f"the field selector has {len(text)} characters, at most {MAX_CHARACTERS} are allowed")
    terms = split_terms(text)
    if len(terms) > MAX_REQUIREMENTS:
        raise FieldSelectorError(f"the field selector has more than {MAX_REQUIREMENTS} requirements")
    requirements = []
    for term in sorted(terms):
        if not term:
            continue
        parts = split_term(term)
        if parts is None:
            raise FieldSelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = parts
        requirements.append(FieldRequirement(field, "!=" if operator == "!=" else "=", unescape(value)))
    return FieldSelector(tuple(requirements))


def split_terms(text: str) -> list[str]:
    """Split the text at every comma that isn't escaped."""
    if not text:
        return []
    if "\\" not in text:
        return text.split(",")
    terms, start, escaped = [], 0, False
    for i, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            terms.append(text[start:i])
            start = i + 1
    terms.append(text[start:])
    return terms


def split_term(term: str) -> tuple[str, str, str] | None:
    """The field, the operator (``=``, ``==`` or ``!=``) and the escaped value, or None when there is no operator."""
    at = term.find("=")
    if at < 0:
        return None
    if term[at - 1 : at] == "!":
        return term[: at - 1], "!=", term[at + 1 :]
    operator = "==" if term.startswith("==", at) else "="
    return term[:at], operator, term[at + len(operator) :]
