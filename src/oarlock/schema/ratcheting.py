"""Validation ratcheting: in an update, errors in unchanged values are ignored.

Otherwise a stricter schema would block updates of every existing object. A finding is dropped when its
value, or any value around it, equals that of the old object.
See also: `validation`, whose findings these are. Source: KEP-4008 (CRD validation ratcheting).
"""

from __future__ import annotations

from typing import Any

from oarlock.meta.fielderrors import FieldError
from oarlock.schema.findings import Findings
from oarlock.schema.structural import Node
from oarlock.schema.where import Step, Where, steps

__all__ = ["still_wrong"]

_GONE = object()


def still_wrong(findings: Findings, node: Node, new: Any, old: Any) -> list[FieldError]:
    """The findings that were caused by the update from `old` to `new`."""
    return [
        error
        for where, error in zip(findings.places, findings.errors, strict=True)
        if not _unchanged(where, node, new, old)
    ]


def _unchanged(where: Where, node: Node | None, new: Any, old: Any) -> bool:
    """Whether some value on the path to `where` is unchanged."""
    if _same(new, old):
        return True
    for step in steps(where):
        old = _old_counterpart(step, node, new, old)
        new = _at(new, step)
        if old is _GONE or new is _GONE:
            return False
        if _same(new, old):
            return True
        node = _schema_at(step, node)
    return False


def _same(new: Any, old: Any) -> bool:
    try:
        return type(new) is type(old) and bool(new == old)
    except RecursionError:
        return False


def _at(value: Any, step: Step) -> Any:
    if isinstance(step, int):
        return value[step] if type(value) is list and step < len(value) else _GONE
    return value.get(step, _GONE) if type(value) is dict else _GONE


def _old_counterpart(step: Step, node: Node | None, new: Any, old: Any) -> Any:
    """The old value for the one at `step` of `new`. Items of lists have one only when the list is of type map."""
    if not isinstance(step, int):
        return _at(old, step)
    if node is None or node.list_type != "map" or type(old) is not list:
        return _GONE
    item = _at(new, step)
    if type(item) is not dict:
        return _GONE
    key = [item.get(name) for name in node.list_keys]
    for candidate in old:
        if type(candidate) is dict and [candidate.get(name) for name in node.list_keys] == key:
            return candidate
    return _GONE


def _schema_at(step: Step, node: Node | None) -> Node | None:
    if node is None:
        return None
    if isinstance(step, int):
        return node.items
    additional = node.additional if isinstance(node.additional, Node) else None
    return node.properties.get(step, additional)
