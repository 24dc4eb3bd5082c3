"""Field selectors: ``metadata.name=a,spec.x!=b`` as requirements.

Which fields a resource can be selected by is the caller's knowledge. Next: `labels`, the richer sibling.
Source: k8s.io/apimachinery ``fields``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = [
    "FieldSelector",
    "FieldSelectorError",
    "Requirement",
    "escape",
    "parse",
    "split_term",
    "split_terms",
    "unescape",
]

_SPECIAL = frozenset("\\,=")


class FieldSelectorError(ValueError):
    """The text is not a field selector."""


class Requirement(NamedTuple):
    """One term; all of a selector's terms must hold."""

    field: str
    operator: Literal["=", "!="]
    value: str

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{escape(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms in the order of their text; no terms select everything."""

    requirements: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.requirements

    def matches(self, get: Callable[[str], str]) -> bool:
        """Do all terms hold? `get` returns the value of a field, ``""`` when the object hasn't it."""
        return all((get(field) == value) is (operator == "=") for field, operator, value in self.requirements)

    def exact(self, field: str) -> str | None:
        """The one value `field` must have, or None when it may have several."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.operator == "=":
                return requirement.value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def escape(value: str) -> str:
    """`value` as it is written in a selector."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def unescape(text: str) -> str:
    """The value that is written as `text`. Raises FieldSelectorError."""
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
    """Read a selector; an empty text selects everything. Raises FieldSelectorError."""
    if not text:
        return FieldSelector()
    requirements = []
    for term in sorted(split_terms(text)):
        if not term:
            continue
        found = split_term(term)
        if found is None:
            raise FieldSelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = found
        requirements.append(Requirement(field, "!=" if operator == "!=" else "=", unescape(value)))
    return FieldSelector(tuple(requirements))


def split_terms(text: str) -> list[str]:
    """The text cut at every comma that isn't escaped."""
    if not text:
        return []
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
    """Field, operator (``=``, ``==`` or ``!=``) and value as written, or None when there is no operator."""
    for i, char in enumerate(term):
        if char == "=":
            operator = "==" if term.startswith("==", i) else "="
        elif char == "!" and term.startswith("!=", i):
            operator = "!="
        else:
            continue
        return term[:i], operator, term[i + len(operator) :]
    return None
