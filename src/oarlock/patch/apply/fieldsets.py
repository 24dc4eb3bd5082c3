"""A set of paths, as a tree in the shape of FieldsV1: plain dicts that are immutable once made.

A node maps path elements (`elements`) to nodes. An empty node means that its path is in the set; a node with
descendants is in the set itself when it has the key ``"."``. The root is never a member, ``{}`` is the empty set,
and ``{".": {}}`` alone is always written ``{}``. Results may share parts with operands.
Must not know: schemas, managers. See also: `fieldsv1`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from oarlock.patch.apply import elements
from oarlock.patch.apply.elements import ElementPath

__all__ = [
    "ANY",
    "LEAF",
    "SELF",
    "FieldsV1",
    "Filter",
    "difference",
    "excluding",
    "has",
    "including",
    "insert",
    "intersection",
    "is_member",
    "iterate",
    "leaves",
    "make",
    "ordered",
    "recursive_difference",
    "union",
    "union_node",
]

FieldsV1 = dict[str, Any]
"""A node of a set, or a whole one. Any, because mypy can't see through recursive dicts of dicts usefully."""

Filter = Callable[[FieldsV1], FieldsV1]
"""Reduces a set to the part that is tracked."""

SELF: Final = "."
LEAF: Final[FieldsV1] = {}
"""The node of a path without descendants. Never changed."""


def is_member(node: FieldsV1) -> bool:
    """Whether the path of this node is itself in the set."""
    return not node or SELF in node


# Making ------------------------------------------------------------------------------------------------------


def make(paths: Iterable[ElementPath]) -> FieldsV1:
    """The set of these paths. The empty path is ignored."""
    result: FieldsV1 = {}
    for path in paths:
        insert(result, path)
    return result


def insert(fields: FieldsV1, path: ElementPath | list[str], node: FieldsV1 = LEAF) -> None:
    """Add `node` at `path` to a set that is still being made; changes the set in place."""
    if not path:
        return
    *parents, last = path
    for element in parents:
        child = fields.get(element)
        if child is None:
            child = fields[element] = {}
        elif not child:
            child = fields[element] = {SELF: LEAF}
        fields = child
    there = fields.get(last)
    fields[last] = node if there is None else union_node(there, node)


# Asking ------------------------------------------------------------------------------------------------------


def has(fields: FieldsV1, path: ElementPath) -> bool:
    """Whether `path` is in the set."""
    if not path:
        return False
    node: FieldsV1 | None = fields
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return is_member(node) if node is not None else False


def ordered(node: FieldsV1) -> Iterable[str]:
    """The elements of a node without ``"."``, sorted: fields, keys, values, indices."""
    names = sorted(node)
    if names and names[0] == SELF:
        names = names[1:]
    if names and names[-1] > "g":  # only then there is more than fields, whose order is that of their texts
        names.sort(key=elements.order)
    return names


def iterate(fields: FieldsV1, prefix: ElementPath = ()) -> Iterator[ElementPath]:
    """Every path in order; at each level first the members, then their descendants."""
    names = ordered(fields)
    for element in names:
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in names:
        if fields[element]:
            yield from iterate(fields[element], (*prefix, element))


def leaves(fields: FieldsV1) -> FieldsV1:
    """The paths that are no prefix of another path in the set."""
    return {element: leaves(node) for element, node in fields.items() if element != SELF}


# Combining ---------------------------------------------------------------------------------------------------


def union_node(a: FieldsV1, b: FieldsV1) -> FieldsV1:
    """The union of two nodes of the same path."""
    if a is b:
        return a
    if not a:
        return b if is_member(b) else {SELF: LEAF, **b}
    if not b:
        return a if SELF in a else {SELF: LEAF, **a}
    return union(a, b)


def union(a: FieldsV1, b: FieldsV1) -> FieldsV1:
    """The paths in `a` or `b`."""
    if not b or a is b:
        return a
    if not a:
        return b
    result = dict(a)
    for element, node in b.items():
        there = a.get(element)
        result[element] = node if there is None else union_node(there, node)
    return result


def intersection(a: FieldsV1, b: FieldsV1) -> FieldsV1:
    """The paths in both sets."""
    if a is b:
        return a
    result: FieldsV1 = {}
    if len(b) < len(a):
        a, b = b, a
    for element, node in a.items():
        other = b.get(element)
        if other is None or element == SELF:
            continue
        both = is_member(node) and is_member(other)
        below = intersection(node, other) if node and other else LEAF
        if below:
            result[element] = {SELF: LEAF, **below} if both else below
        elif both:
            result[element] = LEAF
    return result


def difference(a: FieldsV1, b: FieldsV1) -> FieldsV1:
    """The paths in `a` that are not in `b`. Descendants of a path in `b` stay. `a` itself when nothing is removed."""
    return _difference(a, b, recursive=False)


def recursive_difference(a: FieldsV1, b: FieldsV1) -> FieldsV1:
    """The paths in `a` that are neither in `b` nor below a path in `b`."""
    return _difference(a, b, recursive=True)


def _difference(a: FieldsV1, b: FieldsV1, *, recursive: bool) -> FieldsV1:
    if not a or not b:
        return a
    if a is b:
        return {}
    result: FieldsV1 | None = None
    for element in b if len(b) < len(a) else a:
        if element == SELF:
            continue
        node, other = a.get(element), b.get(element)
        if node is None or other is None:
            continue
        member = is_member(other)
        if member and recursive:
            rest: FieldsV1 | None = None
        else:
            rest = _minus(node, other, member, recursive)
        if rest is not node:
            if result is None:
                result = dict(a)
            if rest is None:
                del result[element]
            else:
                result[element] = rest
    return a if result is None else result


def _minus(node: FieldsV1, other: FieldsV1, member: bool, recursive: bool) -> FieldsV1 | None:
    """A node of `a` minus the node `other` of `b` at the same path; None when nothing is left."""
    if not node:
        return None if member else node
    if node is other:
        return None
    rest = _difference(node, other, recursive=recursive)
    if member and SELF in rest:
        rest = {element: child for element, child in rest.items() if element != SELF}
    if not rest:
        return None
    return LEAF if len(rest) == 1 and SELF in rest else rest


# Filtering ---------------------------------------------------------------------------------------------------

ANY: Final = "*"
"""In a pattern: any one element."""


def excluding(fields: FieldsV1) -> Filter:
    """A filter that removes these paths and all paths below them."""
    return lambda tracked: recursive_difference(tracked, fields)


def including(*patterns: ElementPath) -> Filter:
    """A filter that keeps paths that begin with one of the patterns, and their parents. Without patterns, all paths."""
    tree: dict[str, Any] = {}
    for pattern in patterns:
        _add_pattern(tree, pattern)
    return lambda tracked: _matching(tracked, tree)


def _add_pattern(tree: dict[str, Any], pattern: ElementPath) -> None:
    for position, element in enumerate(pattern):
        if position == len(pattern) - 1:
            tree[element] = {}
        elif element in tree and not tree[element]:
            return
        else:
            tree = tree.setdefault(element, {})


def _matching(node: FieldsV1, patterns: dict[str, Any]) -> FieldsV1:
    if not patterns:
        return node
    result: FieldsV1 = {}
    for element, child in node.items():
        if element == SELF:
            continue
        below = patterns.get(ANY)
        if below is None:
            below = patterns.get(element)
        if below is None:
            continue
        matching = _matching(child, below) if child else LEAF
        if is_member(child):
            result[element] = LEAF if not matching else matching if SELF in matching else {SELF: LEAF, **matching}
        elif matching:
            result[element] = matching
    return result
