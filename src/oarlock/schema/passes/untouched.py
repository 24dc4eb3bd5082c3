"""One walk over a tree that tells whether typing, pruning and normalizing would change or report anything.

For nearly every body they wouldn't, so one walk replaces three. A negative result means nothing: then the
steps themselves are run. Must not know: what the steps do about it. See also: `typing_errors`, `pruning`,
`normalizing`, whose rules these are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oarlock.meta.go import gobase64
from oarlock.meta.quantities import canonical_in_thousandths, canonical_quantity, is_quantity
from oarlock.meta.times import is_rfc3339, is_rfc3339_micro
from oarlock.schema.structural.nodes import Node
from oarlock.schema.validation.typing_errors import bounds_of, compile_fits

Untouched = Callable[[Any], bool]

_PLAIN = {"string": str, "boolean": bool}


class _Unsure(Exception):
    """The schema has something that this walk can't decide."""


def compile_untouched(node: Node) -> Untouched | None:
    """A function that returns whether a tree needs no change; None for a schema that it doesn't support."""
    try:
        return _compile(node)
    except _Unsure:
        return None


def _compile(node: Node) -> Untouched:
    if node.embedded:
        raise _Unsure
    anything = node.type in ("", "object") and not node.properties and node.additional is None and node.items is None
    if node.preserve and anything:
        return _any_object if node.type == "object" else _anything_but_null
    if node.quantity:
        canonical = canonical_in_thousandths if node.in_thousandths else canonical_quantity
        return lambda value: type(value) is str and canonical(value) == value and is_quantity(value)
    if node.decimal:
        return lambda value: type(value) is str
    if node.int_or_string:
        fits = compile_fits(node) or _anything_but_null
        return lambda value: value is not None and fits(value)
    match node.type:
        case "array" if node.items is not None:
            return _list_of(_compile(node.items))
        case "integer":
            low, high = bounds_of(node)
            return lambda value: type(value) is int and low <= value <= high
        case "number":
            return lambda value: type(value) is float or type(value) is int
        case "string" | "boolean":
            return _scalar(node)
        case "object" if not node.preserve:
            return _map(node) if isinstance(node.additional, Node) else _object(node)
    raise _Unsure


def _any_object(value: Any) -> bool:
    return type(value) is dict


def _anything_but_null(value: Any) -> bool:
    return value is not None


def _scalar(node: Node) -> Untouched:
    kind, fits = _PLAIN[node.type], compile_fits(node)
    if node.format == "date-time":
        is_time = is_rfc3339_micro if node.micro_time else is_rfc3339
        return lambda value: type(value) is str and is_time(value)
    if node.format == "byte":
        return lambda value: type(value) is str and gobase64.is_canonical(value)
    if _is_plain(node) or fits is None:
        return lambda value: type(value) is kind
    return lambda value: type(value) is kind and fits(value)


def _is_plain(node: Node) -> bool:
    """Whether the Python type alone decides."""
    return node.type in _PLAIN and node.format not in ("date-time", "byte") and not node.int_or_string


def _list_of(item_is: Untouched) -> Untouched:
    def untouched_list(value: Any) -> bool:
        if type(value) is not list:
            return False
        for item in value:  # noqa: SIM110  (a generator costs more than the loop)
            if not item_is(item):
                return False
        return True

    return untouched_list


def _map(node: Node) -> Untouched:
    if node.properties or not isinstance(node.additional, Node):
        raise _Unsure
    item_is, kind = _compile(node.additional), _PLAIN.get(node.additional.type)
    if not _is_plain(node.additional):
        kind = None

    def untouched_map(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for item in value.values():  # noqa: SIM110  (as above)
            if type(item) is not kind and not item_is(item):
                return False
        return True

    return untouched_map


def _object(node: Node) -> Untouched:
    if node.additional is not None:
        raise _Unsure
    plain = {
        key: _PLAIN[child.type]
        for key, child in node.properties.items()
        if _is_plain(child) and (child.type == "string" or not child.omit_empty)
    }
    others = {key: _compile(child) for key, child in node.properties.items() if key not in plain}
    not_empty = frozenset(key for key, child in node.properties.items() if child.omit_empty)
    nulls = frozenset(key for key, child in node.properties.items() if child.nullable and not child.omit_empty)

    def untouched_object(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for key, item in value.items():
            if not item and key in not_empty:
                return False
            if type(item) is plain.get(key) or (item is None and key in nulls):
                continue
            item_is = others.get(key)
            if item_is is None or not item_is(item):
                return False
        return True

    return untouched_object
