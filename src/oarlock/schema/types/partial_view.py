"""Reads as much as possible of an object that doesn't fit its type, because the type has changed since it was stored.

A field that can't be read gets its default. Without a default an optional field is absent, and a required one has the
zero value of its type (``""``, 0, false, empty, the first enum value), as a Go server would read it. The values around
it stay. So hooks that get an old object see the types they were written for.
Pure. Results are never stored. See also: `projections`, through which hooks get objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from oarlock.meta.fielderrors import FieldError, NotSupported, Required, TypeInvalid, WrongType
from oarlock.meta.json_trees import Tree, copy_json
from oarlock.schema.definition import Schema
from oarlock.schema.types.views import ViewError

__all__ = ["partial_view"]

T = TypeVar("T")

UNREADABLE = (Required, TypeInvalid, WrongType, NotSupported)
"""The mistakes that keep a type from being made; a value out of bounds is one that could be read."""

EXACT_ROUNDS = 6
"""How often single fields are mended: mending one may bring to light what is wrong inside of it."""

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def partial_view(tree: Tree, schema: Schema, read: Callable[[Tree], T]) -> T | None:
    """The result of `read` for `tree`, or for as much of it as fits. None if even an empty object is refused.

    `read` raises ViewError for a tree that doesn't fit; `schema` is that of a whole object. `tree` isn't changed.
    """
    try:
        return read(tree)
    except ViewError as error:
        errors = error.errors
    tree = copy_json(tree)
    for number in range(EXACT_ROUNDS + 2):
        # then the values around them: first a field of the second level, such as spec.size, finally one of the first
        depth = max(1, EXACT_ROUNDS + 2 - number) if number >= EXACT_ROUNDS else 0
        unreadable = [error for error in errors if isinstance(error, UNREADABLE)] if number < 2 else []
        if not _mend(tree, schema, unreadable or errors, depth):
            return None
        try:
            return read(tree)
        except ViewError as error:
            errors = error.errors
    return None


def _mend(tree: Tree, schema: Schema, errors: Iterable[FieldError], depth: int) -> bool:
    """Replace the values at the errors, at most `depth` steps below the root. Returns whether there were any."""
    mended = False
    for error in errors:
        steps = [inside or name for inside, name in _STEP.findall(error.path)]
        if steps and steps[0] not in ("apiVersion", "kind", "<nil>"):
            _replace(tree, schema, steps[:depth] if depth else steps)
            mended = True
    return mended


def _replace(here: Any, schema: Schema, steps: list[str]) -> None:
    """Set the default at the end of `steps`; if a value on the way has another type, set that one's."""
    while steps:
        step, *rest = _joined(here, steps)
        if isinstance(here, dict):
            child: Any = (schema.get("properties") or {}).get(step, schema.get("additionalProperties"))
            inside: Any = here.get(step)
        elif isinstance(here, list) and step.isdigit() and int(step) < len(here):
            child, inside = schema.get("items"), here[int(step)]
        else:
            return
        child_schema: Schema = child if isinstance(child, dict) else {}
        if not rest or not isinstance(inside, dict | list):
            _reset(here, step, child_schema, required=step in schema.get("required", ()))
            return
        here, schema, steps = inside, child_schema, rest


def _joined(here: Any, steps: list[str]) -> list[str]:
    """The steps with the first few joined to one: a map key with dots in it."""
    if isinstance(here, dict) and steps[0] not in here:
        for count in range(2, len(steps) + 1):
            key = ".".join(steps[:count])
            if key in here:
                return [key, *steps[count:]]
    return steps


def _reset(here: Any, step: str, schema: Schema, *, required: bool) -> None:
    if isinstance(here, list):
        here[int(step)] = _zero(schema)
    elif "default" in schema or required:
        here[step] = _zero(schema)
    else:
        here.pop(step, None)


def _zero(schema: Schema) -> Any:
    """The zero value of a schema."""
    if "default" in schema:
        return copy_json(schema["default"])
    if schema.get("nullable"):
        return None
    if schema.get("enum"):
        return copy_json(schema["enum"][0])
    if schema.get("x-kubernetes-int-or-string"):
        return 0
    match schema.get("type"):
        case "object":
            properties: Schema = schema.get("properties") or {}
            return {name: _zero(properties.get(name, {})) for name in schema.get("required", ())}
        case "array":
            return []
        case "string":
            return "1970-01-01T00:00:00Z" if schema.get("format") == "date-time" else ""
        case "integer" | "number":
            return 0
        case "boolean":
            return False
    return None
