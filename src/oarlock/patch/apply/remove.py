"""Removes the paths of a set from a value, or extracts them. See also: `reconcile`."""

from __future__ import annotations

from typing import Any

from oarlock.patch.apply.fieldsets import LEAF, FieldsV1, is_member
from oarlock.patch.apply.items import element_of
from oarlock.patch.apply.schema import ListType, MapType, ValueType, atom

__all__ = ["extract", "remove"]


def remove(type_: ValueType, value: Any, fields: FieldsV1, *, keep_empty: bool = False) -> Any:
    """`value` without the fields and items of the set.

    An emptied list or map becomes null or, with `keep_empty`, stays empty. If the whole value
    is removed, the result is null either way.
    """
    form = atom(type_, value)
    if form is None:
        return value
    if form.atomic or not value:
        return None
    if isinstance(form, MapType):
        return _remove_from_map(form, value, fields, keep_empty) if type(value) is dict else None
    return _remove_from_list(form, value, fields, keep_empty) if type(value) is list else None


def _remove_from_map(form: MapType, value: dict[str, Any], fields: FieldsV1, keep_empty: bool) -> dict[str, Any] | None:
    result = {}
    for name, child in value.items():
        node = fields.get("f:" + name)
        if node is None:
            result[name] = child
        elif not is_member(node):
            result[name] = _remove_below(form.child(name), child, node, keep_empty)
    return result or None


def _remove_from_list(form: ListType, value: list[Any], fields: FieldsV1, keep_empty: bool) -> list[Any] | None:
    result = []
    for item in value:
        node = fields.get(element_of(form, item))
        if node is None:
            result.append(item)
        elif not is_member(node):
            result.append(_remove_below(form.element, item, node, keep_empty))
    return result or None


def _remove_below(type_: ValueType, child: Any, node: FieldsV1, keep_empty: bool) -> Any:
    rest = remove(type_, child, node, keep_empty=keep_empty)
    if rest is None and keep_empty and child is not None:
        return [] if type(child) is list else {}
    return rest


def extract(type_: ValueType, value: Any, fields: FieldsV1) -> Any:
    """The part of `value` that is in the set: the configuration an applier would have to apply to keep its fields."""
    form = atom(type_, value)
    if form is None or form.atomic or not value:
        return value
    if isinstance(form, MapType):
        return _extract_from_map(form, value, fields) if type(value) is dict else None
    return _extract_from_list(form, value, fields) if type(value) is list else None


def _extract_from_map(form: MapType, value: dict[str, Any], fields: FieldsV1) -> dict[str, Any] | None:
    result = {}
    for name, child in value.items():
        node = fields.get("f:" + name)
        if node is not None:
            result[name] = extract(form.child(name), child, node)
    return result or None


def _extract_from_list(form: ListType, value: list[Any], fields: FieldsV1) -> list[Any] | None:
    result = []
    for item in value:
        node = fields.get(element_of(form, item))
        if node is LEAF or node == {}:
            result.append(item)
        elif node is not None:
            result.append(extract(form.element, item, node))
    return result or None
