"""Adapts a set of fields written under an older schema to the current schema.

The owner of something in a list or map that became atomic then owns it as a whole. One that became granular stays
owned as it was. See also: `updater`. Source: KEP-555, "changing the topology".
"""

from __future__ import annotations

from oarlock.patch.apply.fieldsets import LEAF, SELF, FieldsV1
from oarlock.patch.apply.schema import DEDUCED, MapType, ValueType


def reconcile(type_: ValueType, fields: FieldsV1) -> FieldsV1:
    """The set under this type; `fields` itself when nothing changes."""
    return _reconcile(type_, fields, root=True)


def _reconcile(type_: ValueType, node: FieldsV1, *, root: bool = False) -> FieldsV1:
    if not node:
        return node
    form = type_.map
    if form is not None:
        if form.element is DEDUCED and not form.fields:
            return node
        return _collapsed(node, root) if form.atomic else _map(form, node)
    items = type_.list
    if items is None or type_.scalar is not None:
        return node
    if items.atomic:
        return _collapsed(node, root)
    return _changed(node, dict.fromkeys((e for e in node if e != SELF), items.element))


def _collapsed(node: FieldsV1, root: bool) -> FieldsV1:
    return node if root else LEAF


def _map(form: MapType, node: FieldsV1) -> FieldsV1:
    types = {}
    for element, below in node.items():
        if below:
            declared = form.fields.get(element[2:]) if element[:2] == "f:" else None
            child = declared or form.element
            if child is not None:
                types[element] = child
    return _changed(node, types)


def _changed(node: FieldsV1, types: dict[str, ValueType]) -> FieldsV1:
    result: FieldsV1 | None = None
    for element, child in types.items():
        below = node[element]
        new = _reconcile(child, below)
        if new is not below:
            if result is None:
                result = dict(node)
            result[element] = new
    return node if result is None else result
