"""Whole floats in integer fields of custom resources: ``5.0`` and ``1e3`` become 5 and 1000.

The schema accepts them as integers. They are written as integers, because clients that decode into an integer type
accept nothing else. Must not know: declared types, which refuse them. See also: `normalizing`.
Source: encoding/json, which writes a whole float64 without a fraction.
"""

from __future__ import annotations

from typing import Any

from oarlock.schema.passes.defaulting import TreePass
from oarlock.schema.structural.nodes import Node

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
