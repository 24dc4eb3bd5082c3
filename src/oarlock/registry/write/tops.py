"""Top-level fields of objects (``spec``, ``status``): which one a path is in, and trees made of two objects' fields."""

from __future__ import annotations

import re
from collections.abc import Iterable

from oarlock.meta.json_trees import Tree, copy_json

__all__ = ["fields_of", "top_of"]


def fields_of(tree: Tree, other: Tree, names: Iterable[str]) -> Tree:
    """`tree` with these fields as copies of those in `other`."""
    made = {**tree}
    for name in names:
        if name in other:
            made[name] = copy_json(other[name])
        else:
            made.pop(name, None)
    return made


def top_of(path: str) -> str:
    """The top-level field that a path is in; empty for the object itself."""
    found = re.match(r"[^.\[]+", path)
    return "" if found is None or path.startswith("<nil>") else found[0]
