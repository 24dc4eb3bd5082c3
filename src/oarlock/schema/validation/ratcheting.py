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
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid
from oarlock.schema.structural.nodes import Node
from oarlock.schema.validation.findings import Check, MapKey, PathStep, ValidationFindings, Where, render, steps


def frozen(value: Any) -> Any:
    """A hashable key that is equal only for equal JSON values; ``1``, ``1.0`` and ``true`` are different.

    It is flat, so it works at any depth.
    """
    if type(value) is not dict and type(value) is not list:
        return type(value), value
    tokens: list[Any] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is dict:
            keys = sorted(item)
            tokens.append(tuple(keys))
            waiting.extend(item[key] for key in reversed(keys))
        elif type(item) is list:
            tokens.append(len(item))
            waiting.extend(reversed(item))
        else:
            tokens.append((type(item), item))
    return tuple(tokens)


def compile_lists(node: Node) -> Check | None:
    """A function that reports duplicates, also nested ones; None when no list in the schema is a set or map."""
    if node.list_type in ("set", "map") or node.items is not None:
        return _compile_array(node)
    children = [(key, check) for key, child in node.properties.items() if (check := compile_lists(child))]
    values = compile_lists(node.additional) if isinstance(node.additional, Node) else None
    if not children and values is None:
        return None

    def check_lists(tree: Any, where: Where, findings: ValidationFindings) -> None:
        if type(tree) is not dict:
            return
        if values is not None:
            for key, value in tree.items():
                values(value, (where, MapKey(key)), findings)
        for key, check in children:
            value = tree.get(key)
            if value:
                check(value, (where, key), findings)

    return check_lists


def _compile_array(node: Node) -> Check | None:
    own: Check | None = None
    if node.list_type == "set":
        own = _check_set
    elif node.list_type == "map":
        own = _map_check(node.list_keys)
    items = None if node.items is None else compile_lists(node.items)
    if own is None and items is None:
        return None

    def check_array(tree: Any, where: Where, findings: ValidationFindings) -> None:
        if type(tree) is not list:
            return
        if own is not None and tree:
            own(tree, where, findings)
        if items is not None:
            for i, item in enumerate(tree):
                items(item, (where, i), findings)

    return check_array


def _repeated(keys: list[Any]) -> list[int]:
    """The indices of the first repetition of each value."""
    try:
        if len(set(keys)) == len(keys):  # texts, which nearly all keys are, need nothing more
            return []
    except TypeError:
        pass
    first_places: dict[Any, int] = {}
    repeated = []
    for i, key in enumerate(keys):
        stand_in = frozen(key)
        times = first_places.get(stand_in, 0)
        if times == 1:
            repeated.append(i)
        first_places[stand_in] = times + 1
    return repeated


def _check_set(tree: list[Any], where: Where, findings: ValidationFindings) -> None:
    for i in _repeated(tree):
        findings.add((where, i), Duplicate(render((where, i)), tree[i]))


def _map_check(names: tuple[str, ...]) -> Check:
    single = names[0] if len(names) == 1 else None

    def check_map(tree: list[Any], where: Where, findings: ValidationFindings) -> None:
        keys: list[Any] = []
        for i, item in enumerate(tree):
            if type(item) is dict:
                keys.append(
                    item.get(single, _NO_KEY)
                    if single is not None
                    else {key: item[key] for key in names if key in item}
                )
            elif item is None:
                keys.append(_NO_KEY if single is not None else {})
            else:
                text = "must be an object for an array of list-type map"
                findings.add((where, i), Invalid(render((where, i)), item, text))
                return
        if len(keys) < 2:
            return
        for i in _repeated(keys):
            key = keys[i]
            if single is not None:
                key = {} if key is _NO_KEY else {single: key}
            findings.add((where, i), Duplicate(render((where, i)), dict(sorted(key.items()))))

    return check_map


class _NoKey:
    """Stands for an absent key; equal only to itself."""


_NO_KEY = _NoKey()
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
