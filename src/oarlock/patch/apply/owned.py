"""The fields in a value, which its applier owns. See also: `compare`."""

from __future__ import annotations

from typing import Any

from oarlock.patch.apply.fieldsets import LEAF, SELF, FieldsV1
from oarlock.patch.apply.merge import indexed
from oarlock.patch.apply.schema import ListType, MapType, ValueType, atom


def fields_of(type_: ValueType, value: Any) -> FieldsV1:
    """The set of every leaf and every list item in `value`. TypedError when an item has no path element."""
    fields = _collect(type_, value)
    return {} if fields is None else fields


def _collect(type_: ValueType, value: Any) -> FieldsV1 | None:
    """The set of a value; None when it is empty."""
    form = atom(type_, value)
    if form is None:
        return LEAF
    if form.atomic:
        return LEAF
    if not value:
        return None
    if isinstance(form, MapType):
        return _collect_map(form, value) if type(value) is dict else None
    return _collect_list(form, value) if type(value) is list else None


def _collect_map(form: MapType, value: dict[str, Any]) -> FieldsV1 | None:
    result: FieldsV1 = {}
    fields = form.fields
    for name, child in value.items():
        declared = fields.get(name)
        if declared is not None and type(child) is str:
            result["f:" + name] = LEAF
            continue
        node = _collect(declared or form.child(name), child)
        if child is None or child == {} or declared is None:
            node = LEAF if not node else node if SELF in node else {SELF: LEAF, **node}
        if node is not None:
            result["f:" + name] = node
    return result or None


def _collect_list(form: ListType, value: list[Any]) -> FieldsV1 | None:
    result: FieldsV1 = {}
    for element, items in indexed(form, value).items():
        # Of several items with the same key only the key is owned: a field could belong to any of them.
        node = _collect(form.element, items[0]) if len(items) == 1 else None
        result[element] = LEAF if not node else node if SELF in node else {SELF: LEAF, **node}
    return result


class NamedFields:
    """`with_named_fields` of `fields_of`, cached for values that share parts.

    Values must not change while this is in use.
    """

    __slots__ = ("_held", "_made")

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], FieldsV1 | None] = {}
        self._held: list[Any] = []

    def of(self, type_: ValueType, value: Any) -> FieldsV1:
        """The set of every field and list item in `value`, and of the declared fields above them."""
        self._held.append(value)  # so that no other value gets the identity of a part of this one
        node = self._node(type_, value)
        return {} if node is None else {element: child for element, child in node.items() if element != SELF}

    def _node(self, type_: ValueType, value: Any) -> FieldsV1 | None:
        form = atom(type_, value)
        if form is None or form.atomic:
            return LEAF
        if not value:
            return None
        key = id(form), id(value)
        if key in self._made:
            return self._made[key]
        result: FieldsV1 = {SELF: LEAF}
        if isinstance(form, MapType):
            if type(value) is dict:
                for name, child in value.items():
                    node = LEAF if type(child) is str else self._node(form.child(name), child)
                    if node is None and (child is None or child == {} or name not in form.fields):
                        node = LEAF
                    if node is not None:
                        result["f:" + name] = node
        elif type(value) is list:
            for element, items in indexed(form, value).items():
                node = self._node(form.element, items[0]) if len(items) == 1 else None
                result[element] = LEAF if node is None else node
        cached = self._made[key] = result if len(result) > 1 else None
        return cached


def with_named_fields(type_: ValueType | None, fields: FieldsV1) -> FieldsV1:
    """The set with all declared fields that are parents of its paths. Keys of maps are not declared fields."""
    form = None if type_ is None else type_.map
    items = None if type_ is None else type_.list
    result: FieldsV1 = {}
    for element, node in fields.items():
        if element == SELF or not node:
            result[element] = node
            continue
        if element[:2] == "f:":
            name = element[2:]
            child = None if form is None else form.fields.get(name)
            below = with_named_fields(child or (None if form is None else form.element), node)
            if child is not None and SELF not in below:
                below[SELF] = LEAF
        else:
            below = with_named_fields(items.element if items is not None and element[:2] == "k:" else None, node)
        result[element] = below
    return result
