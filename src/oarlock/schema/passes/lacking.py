"""Says whether a value lacks a default of its schema: whether filling them in would change it.

Looks, and changes nothing, so that objects that lack none are read from the store at no greater cost.
See also: `defaulting`, which fills in, by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oarlock.schema.structural.nodes import MISSING, Node

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
