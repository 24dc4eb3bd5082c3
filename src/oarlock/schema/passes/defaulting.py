"""Fills in the defaults of a schema, and drops nulls that mean "absent".

Each function is compiled once from a node and works in place. Defaults are copied, never shared.
Must not know: what a user set or why. See also: `compiled`, which runs these in order.
Source: CustomResourceDefinition defaulting and nullability.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oarlock.meta.json_trees import copy_json
from oarlock.schema.structural.nodes import MISSING, Node

TreePass = Callable[[Any], None]


def _maker(value: Any) -> Callable[[], Any] | None:
    """A function that makes a copy of a container; None for a scalar, which can be shared."""
    if type(value) not in (dict, list):
        return None
    if not value:
        return dict if type(value) is dict else list
    return lambda: copy_json(value)


def compile_default(node: Node) -> TreePass | None:
    """A function that fills in defaults, also nested ones; None when the schema has none.

    A field is filled when it is absent, or null and not nullable. The default of `node` itself is left to its parent.
    """
    if node.items is not None:
        return _default_array(node.items)
    fills = [
        (key, child.default, _maker(child.default), child.nullable)
        for key, child in node.properties.items()
        if child.default is not MISSING
    ]
    children = [(key, step) for key, child in node.properties.items() if (step := compile_default(child))]
    values = _default_values(node)
    if not fills and not children and values is None:
        return None

    def default_object(tree: Any) -> None:
        if type(tree) is not dict:
            return
        for key, value, make, nullable in fills:
            if key not in tree or (not nullable and tree[key] is None):
                tree[key] = value if make is None else make()
        for key, step in children:
            if key in tree:
                step(tree[key])
        if values is not None:
            values(tree)

    return default_object


def _default_values(node: Node) -> Callable[[dict[str, Any]], None] | None:
    """Defaults inside the values of a map."""
    if not isinstance(node.additional, Node):
        return None
    step = compile_default(node.additional)
    value, nullable = node.additional.default, node.additional.nullable
    if step is None and (value is MISSING or nullable):
        return None
    declared = frozenset(node.properties)

    def default_values(tree: dict[str, Any]) -> None:
        for key, item in tree.items():
            if key in declared:
                continue
            if item is None and not nullable and value is not MISSING:
                tree[key] = item = copy_json(value)
            if step is not None:
                step(item)

    return default_values


def _default_array(items: Node) -> TreePass | None:
    step = compile_default(items)
    value, nullable = items.default, items.nullable
    fills = value is not MISSING and not nullable
    if step is None and not fills:
        return None

    def default_array(tree: Any) -> None:
        if type(tree) is not list:
            return
        if fills and None in tree:
            tree[:] = [copy_json(value) if item is None else item for item in tree]
        if step is not None:
            for item in tree:
                step(item)

    return default_array


def compile_drop_nulls(node: Node) -> TreePass | None:
    """A function that removes null fields which are neither nullable nor have a default.

    Those with a default are left for `compile_default`; null items of lists stay. None when there is nothing to do.
    """
    if node.items is not None:
        inner = compile_drop_nulls(node.items)
        return None if inner is None else _for_each_item(inner)
    droppable = frozenset(
        key for key, child in node.properties.items() if not child.nullable and child.default is MISSING
    )
    children = [(key, step) for key, child in node.properties.items() if (step := compile_drop_nulls(child))]
    additional = node.additional if isinstance(node.additional, Node) else None
    values = compile_drop_nulls(additional) if additional is not None else None
    drops_values = additional is not None and not additional.nullable and additional.default is MISSING
    if not droppable and not children and values is None and not drops_values:
        return None
    declared = frozenset(node.properties)

    def drop_nulls(tree: Any) -> None:
        if type(tree) is not dict:
            return
        for value in tree.values():
            if value is None:
                _drop(tree, droppable, declared if drops_values else None)
                break
        for key, step in children:
            if key in tree:
                step(tree[key])
        if values is not None:
            for key, value in tree.items():
                if key not in declared:
                    values(value)

    return drop_nulls


def _drop(tree: dict[str, Any], droppable: frozenset[str], declared: frozenset[str] | None) -> None:
    for key in [key for key, value in tree.items() if value is None]:
        if key in droppable or (declared is not None and key not in declared):
            del tree[key]


def _for_each_item(step: TreePass) -> TreePass:
    def each_item(tree: Any) -> None:
        if type(tree) is list:
            for item in tree:
                step(item)

    return each_item
