"""The maximum size of values that a schema describes, given that a request can't exceed 3 MiB.

Uses the bounds of the schema where it has any, else what fits into a request. See also: `estimate`.
Source: apiserver's CEL limits and schema model (KEP-2876).
"""

from __future__ import annotations

from oarlock.schema.structural import MISSING, Node

__all__ = ["MAX_REQUEST", "UNKNOWN", "bound_word", "max_elements", "min_serialized"]

MAX_REQUEST = 3 * 1024 * 1024
"""Bytes of the largest request."""

UNKNOWN = 2**64 - 1
"""A size nothing is known of."""

_STRINGS = {"duration": (3, 32), "date": (12, 12), "date-time": (21, 32)}


def min_serialized(node: Node, depth: int = 0) -> int:
    """The size in bytes of the shortest JSON of a value."""
    if node.type == "boolean":
        return 4
    if node.type in ("integer", "number") or node.int_or_string or depth > 100:
        return 1
    if node.type == "string":
        return _STRINGS.get(node.format, (2, 0))[0]
    size = 2
    for name in node.constraints.required:
        child = node.properties.get(name)
        if child is not None and child.default is MISSING:
            size += len(name) + min_serialized(child, depth + 1) + 4
    return size


def max_elements(node: Node) -> int:
    """The maximum of a list's items, a map's entries or a text's bytes; 1 for anything else."""
    rules = node.constraints
    if node.type == "array":
        if rules.max_items is not None:
            return rules.max_items
        return (MAX_REQUEST - 2) // ((min_serialized(node.items) if node.items is not None else 1) + 1)
    if node.type == "object":
        if isinstance(node.additional, Node):
            if rules.max_properties is not None:
                return rules.max_properties
            return (MAX_REQUEST - 2) // (min_serialized(node.additional) + 6)
        return max(1, len(node.properties))
    if node.int_or_string:
        return MAX_REQUEST - 2
    if node.type != "string":
        return 1
    if node.format == "byte":
        return rules.max_length if rules.max_length is not None else MAX_REQUEST - 2
    if rules.max_length is not None:
        return rules.max_length * 4
    if rules.enum:
        return max(len(text.encode()) for text in rules.enum if isinstance(text, str))
    return _STRINGS.get(node.format, (0, MAX_REQUEST - 2))[1]


def bound_word(node: Node) -> str:
    """The keyword that would bound a value (``maxItems`` …); empty when it is bounded."""
    rules = node.constraints
    if node.type == "array":
        return "maxItems" if rules.max_items is None else ""
    if node.type == "object":
        return "maxProperties" if isinstance(node.additional, Node) and rules.max_properties is None else ""
    if node.type == "string" and node.format not in _STRINGS:
        return "maxLength" if rules.max_length is None and not rules.enum else ""
    return ""
