"""`difference`: the JSON patch that makes one tree of another. See also: `json_patch`, which applies it.

Objects are compared field by field, lists item by item if they have the same length; else the whole list is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oarlock.codec import json
from oarlock.meta.json_trees import Tree

MOST_OPERATIONS = 1000
"""A patch with more is made of whole fields of the object instead."""


def difference(before: Tree, after: Tree) -> list[Tree]:
    """The operations, as they are sent. Neither tree is changed; values are shared with `after`."""
    operations: list[Tree] = []
    for operation in _of_objects(before, after, ""):
        operations.append(operation)
        if len(operations) > MOST_OPERATIONS:
            return [
                change
                for name in dict.fromkeys((*before, *after))
                for change in _of_field(before, after, name, "", whole=True)
            ]
    return operations


def _of_objects(before: Tree, after: Tree, path: str) -> Iterator[Tree]:
    for name in before:
        yield from _of_field(before, after, name, path)
    for name in after:
        if name not in before:
            yield from _of_field(before, after, name, path)


def _of_field(before: Tree, after: Tree, name: str, path: str, *, whole: bool = False) -> Iterator[Tree]:
    there = f"{path}/{_escaped(name)}"
    if name not in after:
        yield {"op": "remove", "path": there}
    elif name not in before:
        yield {"op": "add", "path": there, "value": after[name]}
    elif whole:
        if _differ(before[name], after[name]):
            yield {"op": "replace", "path": there, "value": after[name]}
    else:
        yield from _of_values(before[name], after[name], there)


def _of_values(before: Any, after: Any, path: str) -> Iterator[Tree]:
    # most of an object stays as it is, and to write it is quicker than to walk through it
    if before is after or (type(before) in (dict, list) and json.encode(before) == json.encode(after)):
        return
    if type(before) is dict and type(after) is dict:
        yield from _of_objects(before, after, path)
    elif type(before) is list and type(after) is list and len(before) == len(after):
        for at, value in enumerate(after):
            yield from _of_values(before[at], value, f"{path}/{at}")
    elif _differ(before, after):
        yield {"op": "replace", "path": path, "value": after}


def _differ(before: Any, after: Any) -> bool:
    """Whether two values differ as JSON: true isn't 1."""
    if before != after:
        return True
    if type(before) is dict:
        return any(_differ(before[name], after[name]) for name in before)
    if type(before) is list:
        return any(map(_differ, before, after))
    return isinstance(before, bool) is not isinstance(after, bool)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1") if "~" in name or "/" in name else name
