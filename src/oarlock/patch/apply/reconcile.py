"""Adapts a set of fields written under an older schema to the current schema; words the conflicts of an apply.

The owner of something in a list or map that became atomic then owns it as a whole. One that became granular stays
owned as it was. See also: `updater`. Source: KEP-555, "changing the topology".
"""

from __future__ import annotations

from collections.abc import Sequence

from oarlock.patch.apply.elements import path_text
from oarlock.patch.apply.fieldsets import LEAF, SELF, FieldsV1
from oarlock.patch.apply.schema import DEDUCED, MapType, ValueType
from oarlock.patch.errors import OwnerConflict

MAX_SHOWN = 1000
"""Conflicts that are named; of the rest only the number is reported."""


def conflict_message(conflicts: Sequence[OwnerConflict]) -> str:
    """The message of the Status, grouped by manager, with at most `MAX_SHOWN` fields."""
    if len(conflicts) == 1:
        only = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {only.manager}: {path_text(only.path)}"
    lines = []
    last = None
    for conflict in conflicts[:MAX_SHOWN]:
        if conflict.manager != last:
            lines.append(f"conflicts with {conflict.manager}:")
            last = conflict.manager
        lines.append(f"- {path_text(conflict.path)}")
    if len(conflicts) > MAX_SHOWN:
        lines.append(f"and {len(conflicts) - MAX_SHOWN} more")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def conflict_causes(conflicts: Sequence[OwnerConflict]) -> list[dict[str, str]]:
    """The ``details.causes`` of the Status, one for each field, at most `MAX_SHOWN`."""
    return [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {conflict.manager}",
            "field": path_text(conflict.path),
        }
        for conflict in conflicts[:MAX_SHOWN]
    ]


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
