"""What is done to every object of somebody else's type, whether or not there is a collection for it.

When an object comes in, what its type makes of the values is kept; before it is kept, the type is asked whether it
fits. Must not know: the libraries such types come from. Next: `declare`, which adds these hooks to the user's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.registry.served import Hooks, Tree
from oarlock.schema.foreign import Foreign

__all__ = ["with_foreign_checks"]


def with_foreign_checks(hooks: Hooks, foreign: Foreign[Any]) -> Hooks:
    """The user's hooks behind those of the type itself."""
    validate = hooks.validate

    def checked(new: Tree, old: Tree | None, ctx: Context) -> Iterable[FieldError]:
        foreign.check(new, old)
        return () if validate is None else validate(new, old, ctx)

    def settled(tree: Tree, ctx: Context) -> Tree:
        return foreign.settled(tree)

    return replace(hooks, default={foreign.said.version: settled}, validate=checked)
