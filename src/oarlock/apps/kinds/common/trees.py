"""Short ways to reach into objects that are plain dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree

__all__ = ["Settle", "StatusCheck", "TreeCheck", "Update", "at", "below"]


Settle = Callable[[Tree], None]
"""Completes an object in place."""

Update = Callable[[Tree, Tree, Context], None]
"""Completes a changed object in place; the second is the object before."""

StatusCheck = Callable[[Tree, Tree, Context], Iterable[FieldError]]
"""The errors in an object after a write to its status; the second is the object before."""

TreeCheck = Callable[[Tree, Tree | None, Context], Iterable[FieldError]]
"""The errors in an object; the second is the object before."""


def at(tree: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path; `default` where it is absent or null."""
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return default if tree is None else tree


def below(tree: Tree, name: str) -> Tree:
    """The object in a field, which is made if it isn't there."""
    found: Tree | None = tree.get(name)
    if found is None:
        found = tree[name] = {}
    return found
