"""Validates lists of type set or map: no duplicate items, no duplicate keys.

See also: `findings`. Source: ``x-kubernetes-list-type`` of structural schemas. Only the first repetition of a
value is reported, at its index, as in Kubernetes.
"""

from __future__ import annotations

from typing import Any

from oarlock.meta.fielderrors import Duplicate, Invalid
from oarlock.schema.structural.nodes import Node
from oarlock.schema.validation.findings import Check, ValidationFindings
from oarlock.schema.validation.where import MapKey, Where, render

__all__ = ["compile_lists", "frozen"]


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
