"""A set of paths, as a tree in the shape of FieldsV1: plain dicts that are immutable once made; and what makes one.

A node maps path elements (`elements`) to nodes. An empty node means that its path is in the set; a node with
descendants is in the set itself when it has the key ``"."``. The root is never a member, ``{}`` is the empty set,
and ``{".": {}}`` alone is always written ``{}``. Results may share parts with operands. `decode` and `written` convert
FieldsV1: decoding means validation and canonical elements, encoding means sorting. `compare` finds the added, modified
and removed paths of two values; it descends only into parts that differ.
Must not know: managers. See also: `schema`, `merge`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from oarlock.codec import json
from oarlock.patch.apply import elements
from oarlock.patch.apply.elements import ElementPath, canonical, equal, never_mixed
from oarlock.patch.apply.merge import indexed
from oarlock.patch.apply.schema import ABSENT, DEDUCED, ListType, MapType, ValueType, atom
from oarlock.patch.errors import FieldsError

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


_encode = msgspec.json.Encoder().encode
_decode_tree = msgspec.json.Decoder().decode


def decode(tree: Any) -> FieldsV1:
    """The set in a decoded FieldsV1. Raises FieldsError.

    Elements of unknown kinds are dropped, as their meaning isn't known.
    """
    fields = _decode({} if tree is None else tree)
    if SELF in fields:
        fields = {element: node for element, node in fields.items() if element != SELF}
    return fields


def _decode(tree: Any) -> FieldsV1:
    if type(tree) is not dict:
        raise FieldsError(f"expected an object, got {json.encode(tree)[:100].decode(errors='replace')}")
    result: FieldsV1 = {}
    for path_element, below in tree.items():
        if path_element == SELF:
            result[SELF] = LEAF
            continue
        element = path_element if path_element[:2] == "f:" else canonical(path_element)
        if element is None:
            continue
        node = LEAF if below is None or below == {} else _decode(below)
        if element in result:
            insert(result, (element,), node)
        else:
            result[element] = node
    return LEAF if len(result) == 1 and SELF in result else result


def written(fields: FieldsV1) -> FieldsV1:
    """A fast copy of the set for a tree that may be changed. It is sorted when the object is encoded."""
    copy: FieldsV1 = _decode_tree(_encode(fields))
    return copy


class Comparison(NamedTuple):
    """Three disjoint sets of paths."""

    added: FieldsV1
    modified: FieldsV1
    removed: FieldsV1

    @property
    def changed(self) -> FieldsV1:
        """The paths that are added or modified."""
        return union(self.modified, self.added)

    @property
    def empty(self) -> bool:
        return not (self.added or self.modified or self.removed)

    def filtered(self, keep: Filter | None) -> Comparison:
        """The comparison with each set filtered."""
        return self if keep is None else Comparison(keep(self.added), keep(self.modified), keep(self.removed))


def compare(type_: ValueType, old: Any, new: Any) -> Comparison:
    """The paths that `new` adds to, modifies in and removes from `old`.

    TypedError when a list item has no path element.
    """
    walk = _Comparison([], Comparison({}, {}, {}))
    walk.visit(type_, old, new)
    return walk.result


def _same(type_: ValueType, old: Any, new: Any) -> bool:
    return old is new or (old == new and (type_.exact or never_mixed(old, new)))


class _Comparison(Struct, eq=False):
    """A comparison in progress; `path` is the current path."""

    path: list[str]
    result: Comparison

    def visit(self, type_: ValueType, old: Any, new: Any) -> None:
        """Compare two values, of which one may be absent."""
        form = type_.map
        if type(old) is dict and type(new) is dict and form is not None and not form.atomic and (old or new):
            self._maps(form, type_.exact, old, new)
        elif old is ABSENT:
            insert(self.result.added, self.path, everything(type_, new))
        elif new is ABSENT:
            insert(self.result.removed, self.path, everything(type_, old))
        else:
            before, after = atom(type_, old), atom(type_, new)
            if before is not after:
                self._differ(before, type_.exact, old, new)
            if before is not after or not _same(type_, old, new):
                self._differ(after, type_.exact, old, new)

    def _differ(self, form: MapType | ListType | None, exact: bool, old: Any, new: Any) -> None:
        if form is not None and not form.atomic:
            kind: Callable[..., Any] = dict if isinstance(form, MapType) else list
            before, after = (old if type(old) is kind else None), (new if type(new) is kind else None)
            if before or after:
                if isinstance(form, MapType):
                    self._maps(form, exact, before or {}, after or {})
                else:
                    self._lists(form, before, after)
                return
        insert(self.result.modified, self.path)

    def _maps(self, form: MapType, exact: bool, old: dict[str, Any], new: dict[str, Any]) -> None:
        path, get = self.path, old.get
        for name, value in new.items():
            before = get(name, ABSENT)
            if before == value and (exact or _same(form.child(name), before, value)):
                continue
            child = form.fields.get(name) or form.element or DEDUCED
            path.append("f:" + name)
            if child.map is None and child.list is None and before is not ABSENT:
                insert(self.result.modified, path)
            else:
                self.visit(child, before, value)
            path.pop()
        if old.keys() <= new.keys():
            return
        for name, before in old.items():
            if name not in new:
                path.append("f:" + name)
                self.visit(form.child(name), before, ABSENT)
                path.pop()

    def _lists(self, form: ListType, old: list[Any] | None, new: list[Any] | None) -> None:
        before, after = indexed(form, old), indexed(form, new)
        for element in {**before, **after}:
            left, right = before.get(element, ()), after.get(element, ())
            self.path.append(element)
            if len(left) > 1 or len(right) > 1:
                self._duplicates(form.element, left, right)
            elif not left or not right or not _same(form.element, left[0], right[0]):
                self.visit(form.element, left[0] if left else ABSENT, right[0] if right else ABSENT)
            self.path.pop()

    def _duplicates(self, type_: ValueType, left: Any, right: Any) -> None:
        """Compare several items with the same key as one, by their key only."""
        if len(left) > 1 and len(right) > 1:
            if not equal(left, right):
                insert(self.result.modified, self.path)
        elif len(left) > 1:
            if right:
                self.visit(type_, ABSENT, right[0])
            insert(self.result.removed, self.path)
        else:
            if left:
                self.visit(type_, left[0], ABSENT)
            insert(self.result.added, self.path)


def everything(type_: ValueType, value: Any) -> FieldsV1:
    """The set of a value that is on one side only: its path and all paths in it."""
    form = atom(type_, value)
    if form is None or form.atomic or not value:
        return LEAF
    result: FieldsV1 = {SELF: LEAF}
    if isinstance(form, MapType):
        if type(value) is not dict:
            return LEAF
        declared, rest = form.fields, form.element or DEDUCED
        for name, child in value.items():
            if type(child) is str:
                result["f:" + name] = LEAF
            else:
                result["f:" + name] = everything(declared.get(name) or rest, child)
    elif type(value) is list:
        for element, items in indexed(form, value).items():
            result[element] = everything(form.element, items[0]) if len(items) == 1 else LEAF
    return result
