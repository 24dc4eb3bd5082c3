"""`Projection`: converts between trees and typed objects, whatever kind of class they have.

There is one for declared classes and one for foreign types; code above works with both.
Must not know: who uses it. See also: `folding` and `foreign`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, TypeVar

from oarlock.meta.fielderrors import FieldError, NotSupported, Required, TypeInvalid, WrongType
from oarlock.meta.json_trees import Tree, copy_json
from oarlock.schema.definition import Schema
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.folding import Session, WrongResult, fold
from oarlock.schema.types.resources import declared
from oarlock.schema.types.views import ViewError, object_schema, view, wire

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


class Open(Protocol):
    """A tree open for changes through an object; `result()` is the changed tree, the same tree when nothing changed.

    Raises `WrongResult` when the object doesn't fit its type any more.
    """

    object: Any

    def result(self) -> Tree: ...


class Projection(Protocol):
    """Converts trees of one version to objects of one type. Raises `ViewError` for a tree that doesn't fit."""

    @property
    def view(self) -> Callable[[Tree], Any]: ...

    def partial_view(self, tree: Tree) -> Any | None:
        """The object, as far as the tree can be read (see ``partial_view``); None when nothing can be."""
        ...

    def open(self, tree: Tree) -> Open: ...

    def wire(self, model: Any) -> Tree: ...


class _ClassProjection:
    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.view: Callable[[Tree], Any] = partial(view, cls=cls)

    def partial_view(self, tree: Tree) -> Any | None:
        return partial_view(tree, object_schema(self.cls), self.view)

    def open(self, tree: Tree) -> Open:
        return Session(tree, self.cls)

    def wire(self, model: Any) -> Tree:
        if not isinstance(model, self.cls):
            raise TypeError(f"expected a {self.cls.__module__}.{self.cls.__qualname__}, got {model!r:.200}")
        return wire(model)


class _ForeignProjection:
    def __init__(self, foreign: Foreign[Any], schema: Schema) -> None:
        self.foreign = foreign
        self.schema = schema

    def view(self, tree: Tree) -> Any:
        return self.foreign.view(tree)

    def partial_view(self, tree: Tree) -> Any | None:
        return partial_view(tree, self.schema, self.foreign.view)

    def open(self, tree: Tree) -> Open:
        return _ForeignOpen(self.foreign, tree, self.schema)

    def wire(self, model: Any) -> Tree:
        return self.foreign.wire(model)


class _ForeignOpen:
    __slots__ = ("_before", "_foreign", "_schema", "_tree", "object")

    def __init__(self, foreign: Foreign[Any], tree: Tree, schema: Schema) -> None:
        self.object = foreign.view(tree)
        self._foreign = foreign
        self._tree = tree
        self._schema = schema
        self._before = foreign.wire(self.object)

    def result(self) -> Tree:
        folded: Tree = fold(self._tree, self._before, self._foreign.wire(self.object), self._schema)
        if folded is not self._tree:
            try:
                self._foreign.view(folded)
            except ViewError as error:
                raise WrongResult("; ".join(mistake.message for mistake in error.errors[:10])) from error
        return folded


def projection_of(what: Any) -> Projection:
    """The Projection for a declared class or a `Foreign`."""
    if isinstance(what, Foreign):
        return _ForeignProjection(what, what.schema())
    declared(what)
    return _ClassProjection(what)
