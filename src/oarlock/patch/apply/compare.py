"""Compares two values of a type: added, modified and removed paths.

Descends only into parts that differ, so comparing two objects costs little when little changed. See also: `merge`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from oarlock.patch.apply.fieldsets import LEAF, SELF, FieldsV1, Filter, insert, union
from oarlock.patch.apply.merge import indexed
from oarlock.patch.apply.schema import ABSENT, DEDUCED, ListType, MapType, ValueType, atom
from oarlock.patch.apply.values import equal, never_mixed

__all__ = ["Comparison", "compare", "everything"]


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
    walk = _Comparison()
    walk.visit(type_, old, new)
    return walk.result


def _same(type_: ValueType, old: Any, new: Any) -> bool:
    return old is new or (old == new and (type_.exact or never_mixed(old, new)))


class _Comparison:
    """A comparison in progress; `path` is the current path."""

    __slots__ = ("path", "result")

    def __init__(self) -> None:
        self.path: list[str] = []
        self.result = Comparison({}, {}, {})

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
