"""`Projection`: converts between trees and typed objects, whatever kind of class they have.

There is one for declared classes and one for foreign types; code above works with both.
Must not know: who uses it. See also: `folding` and `foreign`.
"""

from __future__ import annotations

from typing import Any, Protocol

from oarlock.meta.json_trees import Tree
from oarlock.schema.definition import Schema
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.folding import Session, WrongResult, fold
from oarlock.schema.types.object_schema import object_schema
from oarlock.schema.types.partial_view import partial_view
from oarlock.schema.types.resources import declared
from oarlock.schema.types.views import ViewError, view, wire

__all__ = ["Open", "Projection", "projection_of"]


class Open(Protocol):
    """A tree open for changes through an object; `result()` is the changed tree, the same tree when nothing changed.

    Raises `WrongResult` when the object doesn't fit its type any more.
    """

    object: Any

    def result(self) -> Tree: ...


class Projection(Protocol):
    """Converts trees of one version to objects of one type. Raises `ViewError` for a tree that doesn't fit."""

    def view(self, tree: Tree) -> Any: ...

    def partial_view(self, tree: Tree) -> Any | None:
        """The object, as far as the tree can be read (see ``partial_view``); None when nothing can be."""
        ...

    def open(self, tree: Tree) -> Open: ...

    def wire(self, model: Any) -> Tree: ...


class _ClassProjection:
    def __init__(self, cls: type) -> None:
        self.cls = cls

    def view(self, tree: Tree) -> Any:
        return view(tree, self.cls)

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
