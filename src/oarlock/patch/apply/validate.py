"""Checks that a value has its type: no undeclared fields, no wrong kinds, no duplicates in sets and maps.

Must not know: OpenAPI's constraints (``schema.validation.values`` checks those). See also: `owned`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from oarlock.patch.apply import elements
from oarlock.patch.apply.merge import element_of
from oarlock.patch.apply.schema import ListType, MapType, ScalarType, ValueType, atom
from oarlock.patch.errors import TypedError

MAX_PROBLEMS = 100
"""Nobody reads more."""

Problems = list[tuple[str, str]]

_PathNode: TypeAlias = "tuple[_PathNode, str] | None"
"""The place of the parent and a path element; made a text only for a problem."""

_GO_TYPES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}
"""Values of a wrong type aren't shown: they may be secrets."""


def check(type_: ValueType, value: Any) -> None:
    """Raise TypedError with up to `MAX_PROBLEMS` problems unless `value` is of this type, without duplicates."""
    problems: Problems = []
    _check(type_, value, None, problems)
    if problems:
        raise TypedError(problems[:MAX_PROBLEMS])


def _check(type_: ValueType, value: Any, place: _PathNode, problems: Problems) -> None:
    form = atom(type_, value)
    if value is None or len(problems) >= MAX_PROBLEMS:
        return
    if form is None:
        complaint = _scalar_problem(type_.scalar, value)
        if complaint:
            problems.append((_text(place), complaint))
    elif isinstance(form, MapType):
        _check_map(form, value, place, problems)
    else:
        _check_list(form, value, place, problems)


def _scalar_problem(scalar: ScalarType | None, value: Any) -> str:
    kind = type(value)
    if scalar == "string":
        return "" if kind is str else f"expected string, got {_GO_TYPES[type(value)]}"
    if scalar == "numeric":
        return "" if kind is int or kind is float else f"expected numeric (int or float), got {_GO_TYPES[kind]}"
    if scalar == "boolean":
        return "" if kind is bool else f"expected boolean, got {_GO_TYPES[type(value)]}"
    if scalar == "untyped":
        return f"expected any scalar, got {_GO_TYPES[type(value)]}" if kind is dict or kind is list else ""
    return f"no value is allowed here, got {_GO_TYPES[type(value)]}"


def _check_map(form: MapType, value: Any, place: _PathNode, problems: Problems) -> None:
    if type(value) is not dict:
        problems.append((_text(place), f"expected map, got {_GO_TYPES[type(value)]}"))
        return
    for name, child in value.items():
        declared = form.fields.get(name) or form.element
        if declared is None:
            if len(problems) < MAX_PROBLEMS:
                problems.append((_text((place, elements.field(name))), "field not declared in schema"))
        elif child is not None and (type(child) is not str or declared.scalar != "string"):
            _check(declared, child, (place, elements.field(name)), problems)


def _check_list(form: ListType, value: Any, place: _PathNode, problems: Problems) -> None:
    if type(value) is not list:
        problems.append((_text(place), f"expected list, got {_GO_TYPES[type(value)]}"))
        return
    unique = set()
    for position, item in enumerate(value):
        step = elements.index(position)
        if not form.atomic:
            try:
                element = element_of(form, item)
            except TypedError as error:
                problems.append((_text(place), f"element {position}: {error}"))
                return
            if len(value) < 1000:
                step = element
            if element in unique and len(problems) < MAX_PROBLEMS:
                problems.append((_text(place), f"duplicate entries for key {elements.text(element)}"))
            unique.add(element)
        _check(form.element, item, (place, step), problems)


def _text(place: _PathNode) -> str:
    path = []
    while place is not None:
        place, element = place
        path.append(element)
    return elements.path_text(reversed(path))
