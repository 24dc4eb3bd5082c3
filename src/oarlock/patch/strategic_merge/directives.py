"""Parses and validates the directives of one object of a patch.

`applying` says what each directive does. Must not know: the object that is patched. See also: `applying`.
Source: API conventions, "Strategic Merge Patch"; k8s.io/apimachinery ``strategicpatch`` for names and texts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from oarlock.meta.json_trees import Tree
from oarlock.patch.errors import DirectiveError, PatchFailed
from oarlock.patch.strategic_merge.values import (
    DELETE,
    DELETE_FROM,
    MERGE,
    ORDER,
    PATCH,
    REPLACE,
    RETAIN,
    Identity,
    identity,
    wrong_type,
)

__all__ = ["Directives", "take_directives"]


class Directives(NamedTuple):
    """The directives of an object of a patch, and its other `fields`.

    `kind` is merge, replace or delete. `retain` are the keys to keep, None for all. By the name of a list field:
    `orders` are its ``$setElementOrder``, `removals` its ``$deleteFromPrimitiveList``.
    """

    kind: str
    retain: frozenset[str] | None
    orders: dict[str, list[Any]]
    removals: dict[str, set[Identity]]
    fields: Tree


def take_directives(node: Tree) -> Directives | None:
    """The directives of an object of a patch; None when it has none. Raises DirectiveError, PatchFailed."""
    kind, retain, any_directive = MERGE, None, False
    orders: dict[str, list[Any]] = {}
    removals: dict[str, set[Identity]] = {}
    fields: Tree = {}
    for key, value in node.items():
        if not key.startswith("$"):
            fields[key] = value
            continue
        if key == PATCH:
            if value not in (MERGE, REPLACE, DELETE):
                raise wrong_type(value, node)
            kind = value
        elif key == RETAIN:
            retain = _names(value)
        elif key.startswith(ORDER):
            orders[key[len(ORDER) :]] = _list(key, value, "setElementOrder list")
        elif key.startswith(DELETE_FROM):
            removals[key[len(DELETE_FROM) :]] = _scalars(key, value)
        else:
            fields[key] = value
            continue
        any_directive = True
    if not any_directive:
        return None
    if retain is not None:
        _check_retained(fields, retain)
    return Directives(kind, retain, orders, removals, fields)


def _list(key: str, value: Any, what: str) -> list[Any]:
    if type(value) is not list:
        raise DirectiveError(f"invalid patch format of {what}: {key}")
    return value


def _scalars(key: str, value: Any) -> set[Identity]:
    listed = _list(key, value, "primitive list")
    if any(type(item) is dict or type(item) is list for item in listed):
        raise DirectiveError(f"invalid patch format of primitive list: {key}")
    return {identity(item) for item in listed}


def _names(value: Any) -> frozenset[str]:
    if type(value) is not list or not all(type(name) is str for name in value):
        raise DirectiveError("invalid patch format of retainKeys")
    return frozenset(value)


def _check_retained(fields: Tree, retain: frozenset[str]) -> None:
    """Every field of the patch must be among the retained keys."""
    for key, value in fields.items():
        if value is not None and key not in retain:
            raise PatchFailed(f"patch content doesn't match retainKeys list: {key}")
