"""Parses and validates the directives of one object of a patch.

`applying` says what each directive does. Must not know: the object that is patched. See also: `applying`.
Source: API conventions, "Strategic Merge Patch"; k8s.io/apimachinery ``strategicpatch`` for names and texts.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, NamedTuple

from oarlock.meta.go.gotext import plain
from oarlock.meta.json_trees import Tree
from oarlock.patch.errors import DirectiveError, PatchFailed

PATCH: Final = "$patch"
RETAIN: Final = "$retainKeys"
ORDER: Final = "$setElementOrder/"
DELETE_FROM: Final = "$deleteFromPrimitiveList/"

MERGE: Final = "merge"
REPLACE: Final = "replace"
DELETE: Final = "delete"

SHOWN_CHARS = 1024

Identity = Hashable
"""What two items have in common when they are the same item."""


def identity(value: Any) -> Identity:
    """The identity of a scalar: true isn't 1. A list or an object is only identical to itself."""
    kind = type(value)
    if kind is bool or kind is dict or kind is list:
        return (kind, value if kind is bool else id(value))
    return value  # type: ignore[no-any-return]


def same(a: Any, b: Any) -> bool:
    """Whether two trees are equal. True isn't 1, at any depth."""
    if type(a) is dict and type(b) is dict:
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if type(a) is list and type(b) is list:
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) and (type(a) is bool) is (type(b) is bool)


def key_of(item: Any, key: str) -> Identity:
    """The identity of an item of a patch by its merge key. Raises DirectiveError when it has none."""
    if type(item) is not dict:
        raise unlike(item)
    value = item.get(key)
    if type(value) is str:
        return value
    if value is None:
        raise DirectiveError(f"map: {shown(item)} does not contain declared merge key: {key}")
    if type(value) is dict or type(value) is list:
        raise DirectiveError(f"map: {shown(item)} has a merge key that is no scalar: {key}")
    return identity(value)


def shown(value: Any) -> str:
    """A value as Go prints it, cut: the error message repeats client input only up to a limit."""
    return plain(value, SHOWN_CHARS)


def unlike(item: Any) -> Exception:
    """The error for an item of the wrong type for its list."""
    if type(item) is list:
        return PatchFailed("lists of lists are not supported")
    return DirectiveError(f"list element types are not identical: {shown(item)}")


def wrong_type(directive: str, node: Any) -> DirectiveError:
    return DirectiveError(f"unknown patch type: {shown(directive)} in map: {shown(node)}")


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
