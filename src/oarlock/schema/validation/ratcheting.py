"""Validation ratcheting: in an update, errors in unchanged values are ignored.

Otherwise a stricter schema would block updates of every existing object. A finding is dropped when its
value, or any value around it, equals that of the old object; the order of a list of type map doesn't matter. What says
of which type an object is can't stay wrong: the old object is shown in the version of the request.
Lists of type set or map are judged as a whole: an old object with a repeated item may have others.
See also: `validation`, whose findings these are. Source: KEP-4008 (CRD validation ratcheting); apiextensions'
strategy of custom resources.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.fielderrors import FieldError
from oarlock.schema.structural.nodes import Node
from oarlock.schema.validation.findings import ValidationFindings
from oarlock.schema.validation.listtypes import frozen
from oarlock.schema.validation.where import PathStep, Where, steps

__all__ = ["TYPE_META", "Likeness", "still_wrong"]

TYPE_META = frozenset({"apiVersion", "kind"})
"""The fields of an object that say what it is."""

_GONE = object()


def still_wrong(findings: ValidationFindings, node: Node, new: Any, old: Any) -> list[FieldError]:
    """The findings that were caused by the update from `old` to `new`."""
    likeness = Likeness()
    return [
        error
        for where, error in zip(findings.places, findings.errors, strict=True)
        if not _unchanged(where, node, new, old, likeness)
    ]


@dataclass(slots=True, eq=False)
class Likeness:
    """Says whether values are alike, and remembers it of lists and maps while they are there."""

    _known: dict[tuple[int, int], bool] = field(default_factory=dict)
    _keyed: dict[int, dict[Any, Any]] = field(default_factory=dict)

    def alike(self, new: Any, old: Any, node: Node | None) -> bool:
        """Whether two values of a schema are the same, whatever the order of lists of type map."""
        try:
            return self._alike(new, old, node)
        except RecursionError:
            return False

    def _alike(self, new: Any, old: Any, node: Node | None) -> bool:
        kind = type(new)
        if kind is not type(old):
            return False
        if kind is not dict and kind is not list:
            return bool(new == old)
        known = self._known.get((id(new), id(old)))
        if known is None:
            known = len(new) == len(old) and (self._maps if kind is dict else self._lists)(new, old, node)
            self._known[id(new), id(old)] = known
        return known

    def _maps(self, new: dict[str, Any], old: dict[str, Any], node: Node | None) -> bool:
        return all(key in old and self._alike(value, old[key], _schema_at(key, node)) for key, value in new.items())

    def _lists(self, new: list[Any], old: list[Any], node: Node | None) -> bool:
        if node is None or node.list_type != "map":
            return new == old
        return all(self._alike(item, self.counterpart(item, old, node), node.items) for item in new)

    def counterpart(self, item: Any, old: list[Any], node: Node) -> Any:
        """The item of an old list of type map that has the same key."""
        by_key = self._keyed.get(id(old))
        if by_key is None:
            by_key = self._keyed[id(old)] = {_key_of(item, node): item for item in reversed(old)}
        return by_key.get(_key_of(item, node), _GONE)


def _unchanged(where: Where, node: Node | None, new: Any, old: Any, likeness: Likeness) -> bool:
    """Whether some value on the path to `where` is unchanged."""
    path = steps(where)
    if path and path[0] in TYPE_META:
        return False
    if likeness.alike(new, old, node):
        return True
    for step in path:
        old = _old_counterpart(step, node, new, old, likeness)
        new = _at(new, step)
        if old is _GONE or new is _GONE:
            return False
        node = _schema_at(step, node)
        if likeness.alike(new, old, node):
            return True
    return False


def _at(value: Any, step: PathStep) -> Any:
    if isinstance(step, int):
        return value[step] if type(value) is list and step < len(value) else _GONE
    return value.get(step, _GONE) if type(value) is dict else _GONE


def _old_counterpart(step: PathStep, node: Node | None, new: Any, old: Any, likeness: Likeness) -> Any:
    """The old value for the one at `step` of `new`. Items of lists have one only when the list is of type map."""
    if not isinstance(step, int):
        return _at(old, step)
    if node is None or node.list_type != "map" or type(old) is not list:
        return _GONE
    item = _at(new, step)
    return likeness.counterpart(item, old, node) if type(item) is dict else _GONE


def _key_of(item: Any, node: Node) -> Any:
    """What tells an item of a list of type map from the others."""
    return frozen([item.get(name) for name in node.list_keys]) if type(item) is dict else frozen([item])


def _schema_at(step: PathStep, node: Node | None) -> Node | None:
    if node is None:
        return None
    if isinstance(step, int):
        return node.items
    additional = node.additional if isinstance(node.additional, Node) else None
    return node.properties.get(step, additional)
