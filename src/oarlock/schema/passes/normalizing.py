"""Nulls, zero values and numbers in the form that Kubernetes stores; and whether a value lacks a default.

`compile_normalize` is for `typed` definitions and metadata: null means absent, and so do the zero values of omitempty
fields; quantities and base64 get their canonical text, numbers for decimals become texts. Custom resources keep them.
`compile_whole_numbers` is for custom resources: ``5.0`` in an integer field becomes 5, because clients that decode into
an integer type accept nothing else. `compile_lacks` says, without a change, whether `defaulting` would change a value.
Source: encoding/json on Kubernetes' Go types (``omitempty``); API conventions on optional fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oarlock.meta.go import gobase64
from oarlock.meta.quantities import canonical_in_thousandths, canonical_quantity
from oarlock.schema.passes.defaulting import TreePass
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
