"""Where in a tree something is: a chain of steps that costs nothing to build and is rendered only when needed.

A place is None for the root, else ``(place of the parent, step)``. A step is the name of a field, the index
of an item, or a `Key` of a map where the path shows it in brackets. Knows nothing of schemas.
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Key", "Step", "Where", "render", "steps"]


class Key(str):
    """A key of a map, rendered ``[key]``."""

    __slots__ = ()


Step: TypeAlias = str | int
Where: TypeAlias = "tuple[Where, Step] | None"


def steps(where: Where) -> list[Step]:
    """The steps from the root."""
    found: list[Step] = []
    while where is not None:
        where, step = where
        found.append(step)
    found.reverse()
    return found


def render(where: Where) -> str:
    """``spec.containers[0].labels[app]``; empty for the root."""
    text = ""
    for step in steps(where):
        if type(step) is str:
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text
