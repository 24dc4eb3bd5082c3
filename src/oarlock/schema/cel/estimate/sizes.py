"""The maximum size of values that a schema describes, given that a request can't exceed 3 MiB.

Uses the bounds of the schema where it has any, else what fits into a request. See also: `estimate`.
Source: apiserver's CEL limits and schema model (KEP-2876).
"""

from __future__ import annotations

from oarlock.schema.structural.nodes import MISSING, Node

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
    for name in () if isinstance(node.additional, Node) else node.constraints.required:
        child = node.properties.get(name)
        if child is not None and child.default is MISSING and _is_shown(child):
            size += len(name.encode()) + min_serialized(child, depth + 1) + 4
    return size


def _is_shown(node: Node) -> bool:
    """Whether expressions see a value."""
    if node.type == "array":
        return node.int_or_string or (node.items is not None and _is_shown(node.items))
    if node.type == "object" and isinstance(node.additional, Node):
        return _is_shown(node.additional)
    return bool(node.type) or node.int_or_string


def max_elements(node: Node) -> int:
    """The maximum of a list's items, a map's entries or a text's bytes; 0 for anything else."""
    rules = node.constraints
    if node.int_or_string:
        return MAX_REQUEST - 2 if rules.max_length is None else max(0, rules.max_length) * 4
    if node.type == "array":
        if rules.max_items is not None:
            return max(0, rules.max_items)
        return (MAX_REQUEST - 2) // ((min_serialized(node.items) if node.items is not None else 1) + 1)
    if node.type == "object" and isinstance(node.additional, Node):
        if rules.max_properties is not None:
            return max(0, rules.max_properties)
        return (MAX_REQUEST - 2) // (min_serialized(node.additional) + 6)
    if node.type != "string":
        return 0
    if node.format in _STRINGS:
        return _STRINGS[node.format][1]
    if rules.max_length is not None:
        return max(0, rules.max_length) * (1 if node.format == "byte" else 4)
    if node.format != "byte" and rules.enum:
        return max((len(text.encode()) for text in rules.enum if isinstance(text, str)), default=0)
    return MAX_REQUEST - 2


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
