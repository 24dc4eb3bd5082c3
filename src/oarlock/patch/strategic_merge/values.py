"""Helpers of this package: names of directives, identity of list items, texts.

Must not know: schemas. See also: `applying`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from oarlock.meta.go.gotext import plain
from oarlock.patch.errors import DirectiveError, PatchFailed

__all__ = [
    "DELETE",
    "DELETE_FROM",
    "MERGE",
    "ORDER",
    "PATCH",
    "REPLACE",
    "RETAIN",
    "Identity",
    "identity",
    "key_of",
    "same",
    "shown",
    "unlike",
    "wrong_type",
]

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
