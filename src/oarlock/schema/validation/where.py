"""A place in a tree: a linked chain of steps, cheap to build, and rendered only when needed.

A place is None for the root, else ``(place of the parent, step)``. A step is the name of a field, the index
of an item, or a `MapKey` of a map where the path shows it in brackets. Knows nothing of schemas.
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["MapKey", "PathStep", "Where", "render", "steps"]


class MapKey(str):
    """A key of a map, rendered ``[key]``."""

    __slots__ = ()


PathStep: TypeAlias = str | int
Where: TypeAlias = "tuple[Where, PathStep] | None"


def steps(where: Where) -> list[PathStep]:
    """The steps from the root."""
    path: list[PathStep] = []
    while where is not None:
        where, step = where
        path.append(step)
    path.reverse()
    return path


_LONGEST = 1024
"""Characters of a path that are shown: a client names its keys, and may be told of a thousand errors below one."""


def render(where: Where) -> str:
    """``spec.containers[0].labels[app]``; empty for the root. A path of more than 1,024 characters is cut."""
    text = ""
    for step in steps(where):
        step_text = step if type(step) is int else str(step)[: _LONGEST + 1]
        if type(step) is str:
            text += f".{step_text}" if text else str(step_text)
        else:
            text += f"[{step_text}]"
        if len(text) > _LONGEST:
            return text[:_LONGEST] + "..."
    return text
