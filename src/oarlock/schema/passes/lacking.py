"""Says whether a value lacks a default of its schema: whether filling them in would change it.

Looks, and changes nothing, so that objects that lack none are read from the store at no greater cost.
See also: `defaulting`, which fills in, by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oarlock.schema.passes.defaulting import TreePass
from oarlock.schema.structural.nodes import MISSING, Node

__all__ = ["compile_lacks", "compile_whole_numbers"]

_MAX_EXACT = 2**53 - 1


def compile_whole_numbers(node: Node) -> TreePass | None:
    """A function that converts whole floats to integers in place; None for a schema without integers.

    Other floats, and those too large to be exact, stay: validation refuses them.
    """
    if node.items is not None:
        return _in_list(node.items)
    whole = frozenset(key for key, child in node.properties.items() if _is_integer(child))
    below = [(key, step) for key, child in node.properties.items() if (step := compile_whole_numbers(child))]
    additional = node.additional if isinstance(node.additional, Node) else None
    values = None if additional is None else compile_whole_numbers(additional)
    any_whole = additional is not None and _is_integer(additional)
    if not (whole or below or values or any_whole):
        return None
    declared = frozenset(node.properties)

    def in_object(tree: Any) -> None:
        if type(tree) is not dict:
            return
        for key, value in tree.items():
            if type(value) is float and (key in whole or (any_whole and key not in declared)):
                tree[key] = _whole(value)
            elif values is not None and key not in declared:
                values(value)
        for key, step in below:
            if key in tree:
                step(tree[key])

    return in_object


def _in_list(items: Node) -> TreePass | None:
    whole, step = _is_integer(items), compile_whole_numbers(items)
    if step is None and not whole:
        return None

    def in_list(tree: Any) -> None:
        if type(tree) is not list:
            return
        for i, item in enumerate(tree):
            if whole and type(item) is float:
                tree[i] = _whole(item)
            elif step is not None:
                step(item)

    return in_list


def _is_integer(node: Node) -> bool:
    return node.type == "integer" or node.int_or_string


def _whole(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT else value


Lacks = Callable[[Any], bool]


def compile_lacks(node: Node) -> Lacks | None:
    """A function that says whether a value lacks a default, also a nested one; None when the schema has none.

    The default of `node` itself is left to its parent.
    """
    if node.items is not None:
        return _of_list(node.items)
    wanted = [(key, child.nullable) for key, child in node.properties.items() if child.default is not MISSING]
    children = [(key, lacks) for key, child in node.properties.items() if (lacks := compile_lacks(child))]
    values = _of_values(node.additional, frozenset(node.properties)) if isinstance(node.additional, Node) else None
    if not wanted and not children and values is None:
        return None

    def object_lacks(tree: Any) -> bool:
        if type(tree) is not dict:
            return False
        for key, nullable in wanted:
            if key not in tree or (not nullable and tree[key] is None):
                return True
        for key, lacks in children:
            if key in tree and lacks(tree[key]):
                return True
        return values is not None and values(tree)

    return object_lacks


def _of_values(node: Node, declared: frozenset[str]) -> Lacks | None:
    inside = compile_lacks(node)
    fills = node.default is not MISSING and not node.nullable
    if inside is None and not fills:
        return None

    def values_lack(tree: dict[str, Any]) -> bool:
        others = [value for key, value in tree.items() if key not in declared]
        return (fills and None in others) or (inside is not None and any(map(inside, others)))

    return values_lack


def _of_list(node: Node) -> Lacks | None:
    inside = compile_lacks(node)
    fills = node.default is not MISSING and not node.nullable
    if inside is None and not fills:
        return None

    def list_lacks(tree: Any) -> bool:
        if type(tree) is not list:
            return False
        return (fills and None in tree) or (inside is not None and any(map(inside, tree)))

    return list_lacks
