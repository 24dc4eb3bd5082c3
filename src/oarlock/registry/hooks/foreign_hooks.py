"""The built-in hooks for a foreign type: normalisation and validation by the type itself.

An incoming object is read and written back by its type; before it is stored, the type validates it.
Must not know: the libraries such types come from. See also: `declare`, which adds these hooks to the user's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.registry.served import Hooks
from oarlock.schema.foreign.shape import Foreign

__all__ = ["with_foreign_checks"]


def with_foreign_checks(hooks: Hooks, foreign: Foreign[Any]) -> Hooks:
    """The user's hooks, preceded by those of the type itself."""
    validate = hooks.validate

    def checked(new: Tree, old: Tree | None, ctx: Context) -> Iterable[FieldError]:
        foreign.check(new, old)
        return () if validate is None else validate(new, old, ctx)

    def settled(tree: Tree, ctx: Context) -> Tree:
        return foreign.settled(tree)

    return replace(hooks, default={foreign.declaration.version: settled}, validate=checked)
