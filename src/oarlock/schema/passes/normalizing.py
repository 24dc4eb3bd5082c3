"""Nulls and zero values in built-in kinds: null means absent, and so do the zero values of omitempty fields.
Quantities and base64 get their canonical text, and numbers for decimals become texts.

Only for `typed` definitions and for metadata; custom resources keep them, see `defaulting`.
Source: encoding/json on Kubernetes' Go types (``omitempty``); API conventions on optional fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oarlock.meta.go import gobase64
from oarlock.meta.quantities import canonical_in_thousandths, canonical_quantity
from oarlock.schema.passes.defaulting import TreePass
from oarlock.schema.structural.nodes import Node


def _respelling(node: Node) -> Callable[[Any], Any] | None:
    """What gives a value of this node its canonical text; None for a node whose values have only one."""
    if node.quantity:
        return canonical_in_thousandths if node.in_thousandths else canonical_quantity
    if node.decimal:
        return _decimal
    return gobase64.canonical if node.type == "string" and node.format == "byte" else None


def _decimal(value: Any) -> Any:
    return str(value) if type(value) in (int, float) else value


def compile_normalize(node: Node) -> TreePass | None:
    """A function that drops nulls and omitempty zero values in place; None when a tree can't have any.

    A null that isn't allowed is removed from an object, and becomes the zero value in a list or map.
    """
    if node.type == "array":
        return _normalize_array(node)
    if node.type not in ("object", ""):
        return None
    if isinstance(node.additional, Node):
        return _normalize_map(node, node.additional)
    if not node.properties:
        return None
    respelled = [(key, spell) for key, child in node.properties.items() if (spell := _respelling(child))]
    nullable = frozenset(key for key, child in node.properties.items() if child.nullable or _opaque(child))
    omitted = tuple(key for key, child in node.properties.items() if child.omit_empty)
    children = [(key, step) for key, child in node.properties.items() if (step := compile_normalize(child))]
    declared = frozenset(node.properties)

    def normalize_object(tree: Any) -> None:
        if type(tree) is not dict:
            return
        for value in tree.values():
            if value is None:
                for key in [key for key, value in tree.items() if value is None]:
                    if key in declared and key not in nullable:
                        del tree[key]
                break
        for key, step in children:
            if key in tree:
                step(tree[key])
        for key, spell in respelled:
            if key in tree:
                tree[key] = spell(tree[key])
        for key in omitted:
            if key in tree and not tree[key]:
                del tree[key]

    return normalize_object


def _opaque(node: Node) -> bool:
    """Whether any value is allowed, including null."""
    return node.preserve and not node.type


def _zero(node: Node) -> Any:
    """A function that makes the zero value for a null in a list or map; None when null is allowed there."""
    if node.nullable or _opaque(node):
        return None
    if node.quantity:
        return lambda: "0"
    if node.int_or_string:
        return int
    return {"string": str, "integer": int, "number": int, "boolean": bool, "array": list, "object": dict}.get(node.type)


def _normalize_array(node: Node) -> TreePass | None:
    if node.items is None:
        return None
    step, zero, spell = compile_normalize(node.items), _zero(node.items), _respelling(node.items)
    if step is None and zero is None and spell is None:
        return None

    def normalize_array(tree: Any) -> None:
        if type(tree) is not list:
            return
        if zero is not None:
            for item in tree:
                if item is None:
                    tree[:] = [zero() if item is None else item for item in tree]
                    break
        if spell is not None:
            tree[:] = map(spell, tree)
        if step is not None:
            for item in tree:
                step(item)

    return normalize_array


def _normalize_map(node: Node, additional: Node) -> TreePass | None:
    step, zero = compile_normalize(additional), _zero(additional)
    children = {key: inner for key, child in node.properties.items() if (inner := compile_normalize(child))}
    declared = frozenset(node.properties)
    spell = _respelling(additional)
    if step is None and zero is None and spell is None and not children:
        return None

    def normalize_map(tree: Any) -> None:
        if type(tree) is not dict:
            return
        for key, value in tree.items():
            if key in declared:
                if key in children:
                    children[key](value)
                continue
            if value is None and zero is not None:
                tree[key] = zero()
            elif spell is not None:
                tree[key] = spell(value)
            elif step is not None:
                step(value)

    return normalize_map
