"""Finds values of wrong JSON types in a body.

For definitions that behave like built-in kinds: there a body is decoded into a type before anything else.
`compile_fits` is a fast yes/no check, used in every write; `type_errors` finds every wrong value, in document
order, with messages in JSON's terms. Must not know: constraints, which are `validation`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from oarlock.meta import quantities
from oarlock.meta.fielderrors import TypeInvalid, Undecodable, WrongType
from oarlock.meta.go import gobase64
from oarlock.meta.times import is_rfc3339, is_rfc3339_micro
from oarlock.schema.structural.nodes import Node
from oarlock.schema.validation.findings import MapKey, Where, render

Fits = Callable[[Any], bool]

_INT_BOUNDS = {"int32": (-(2**31), 2**31 - 1)}
_INT64 = (-(2**63), 2**63 - 1)


def bounds_of(node: Node) -> tuple[int, int]:
    """The range of an integer field."""
    return _INT_BOUNDS.get(node.format, _INT64)


def compile_fits(node: Node) -> Fits | None:
    """A function that returns whether a value has the types of the schema; null always fits.

    None when every value does.
    """
    if node.quantity:
        return lambda value: value is None or quantities.is_quantity(value)
    if node.int_or_string:
        return _fits_int_or_string
    if node.decimal:
        return lambda value: value is None or type(value) in (str, int, float)
    match node.type:
        case "object":
            return _fits_object(node)
        case "array":
            return _fits_array(node)
        case "string":
            return _fits_text(node)
        case "integer":
            return _fits_integer(node)
        case "number":
            return lambda value: value is None or type(value) is float or type(value) is int
        case "boolean":
            return lambda value: value is None or type(value) is bool
    return None


def _fits_int_or_string(value: Any) -> bool:
    return type(value) is str or (type(value) is int and -(2**31) <= value < 2**31) or value is None


def _fits_integer(node: Node) -> Fits:
    low, high = bounds_of(node)
    return lambda value: (type(value) is int and low <= value <= high) or value is None


def _fits_text(node: Node) -> Fits:
    is_written: Callable[[str], bool]
    match node.format:
        case "date-time":
            is_written = is_rfc3339_micro if node.micro_time else is_rfc3339
        case "byte":
            is_written = gobase64.is_base64
        case _:
            return lambda value: type(value) is str or value is None
    return lambda value: value is None or (type(value) is str and is_written(value))


def _fits_object(node: Node) -> Fits:
    if isinstance(node.additional, Node):
        return _fits_map(
            compile_fits(node.additional), {key: compile_fits(child) for key, child in node.properties.items()}
        )
    # scalars without further constraints are compared by Python type, without a call
    plain = {key: kind for key, child in node.properties.items() if (kind := _plain(child)) is not None}
    children = {key: fits for key, child in node.properties.items() if (fits := compile_fits(child)) is not None}

    def fits_object(tree: Any) -> bool:
        if type(tree) is not dict:
            return tree is None
        for key, value in tree.items():
            if type(value) is plain.get(key):
                continue
            fits = children.get(key)
            if fits is not None and not fits(value):
                return False
        return True

    return fits_object


_TEXT_FORMATS = frozenset(("date-time", "byte"))
"""Texts that are read into something else while decoding, however right their JSON type is."""


def _plain(node: Node) -> type | None:
    if node.type == "string" and node.format not in _TEXT_FORMATS:
        return str
    return {"boolean": bool, "number": float}.get(node.type)


def _fits_map(values: Fits | None, declared: dict[str, Fits | None]) -> Fits:
    def fits_map(tree: Any) -> bool:
        if type(tree) is not dict:
            return tree is None
        for key, value in tree.items():
            fits = declared.get(key, values) if declared else values
            if fits is not None and not fits(value):
                return False
        return True

    return fits_map


def _fits_array(node: Node) -> Fits:
    fits = None if node.items is None else compile_fits(node.items)

    def fits_array(tree: Any) -> bool:
        if type(tree) is not list:
            return tree is None
        if fits is not None:
            for item in tree:
                if not fits(item):
                    return False
        return True

    return fits_array


def type_errors(value: Any, node: Node, where: Where = None) -> Iterator[TypeInvalid]:
    """Every value of a wrong type at or below `where`; the contents of a wrong value aren't checked."""
    if value is None:
        return
    if node.type == "object" and type(value) is dict:
        yield from _object_type_errors(value, node, where)
    elif node.type == "array" and type(value) is list:
        if node.items is not None:
            for i, item in enumerate(value):
                yield from type_errors(item, node.items, (where, i))
    elif node.type in ("object", "array") or not _fits_scalar(value, node):
        yield _type_error(value, node, render(where))


def _type_error(value: Any, node: Node, path: str) -> TypeInvalid:
    if node.quantity:
        return Undecodable(path, quantities.complaint(value), value)
    if node.format == "byte" and type(value) is str:
        return Undecodable(path, gobase64.complaint(value), value)
    number = node.type in ("integer", "number") and type(value) in (int, float)
    time = node.type == "string" and node.format == "date-time" and type(value) is str
    return WrongType(path, _expected(value, node), value, shown=number or time, restoring=_restoring(value, node))


def _restoring(value: Any, node: Node) -> str:
    """What apimachinery says of a value that it copies into a field of another type."""
    kind = _GO_KINDS[type(value)]
    if node.type == "object":
        return (
            f"cannot restore map from {kind}" if node.additional is not None else f"cannot restore struct from: {kind}"
        )
    if node.type == "array":
        return f"cannot restore slice from {kind}"
    wanted = {"integer": node.format or "int64", "number": "float64", "boolean": "bool"}.get(node.type, "")
    if node.int_or_string or not wanted or kind in ("map", "slice"):
        return ""
    return f"cannot convert {kind} to {wanted}"


_GO_KINDS = {str: "string", bool: "bool", int: "int64", float: "float64", dict: "map", list: "slice"}


def _object_type_errors(value: dict[str, Any], node: Node, where: Where) -> Iterator[TypeInvalid]:
    for name, item in value.items():
        child = node.properties.get(name)
        if child is not None:
            yield from type_errors(item, child, (where, name))
        elif isinstance(node.additional, Node):
            yield from type_errors(item, node.additional, (where, MapKey(name)))


def _fits_scalar(value: Any, node: Node) -> bool:
    fits = compile_fits(node)
    return fits is None or fits(value)


_NAMES = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
}


def _expected(value: Any, node: Node) -> str:
    """The expected type, in JSON's terms."""
    if node.int_or_string:
        return "an integer or a string"
    if node.micro_time and type(value) is str:
        return 'a time such as "2006-01-02T15:04:05.000000Z"'
    if node.type == "string" and node.format == "date-time" and type(value) is str:
        return 'a time such as "2006-01-02T15:04:05Z"'
    if node.type == "integer" and type(value) is int:
        low, high = bounds_of(node)
        return f"an integer from {low} to {high}"
    return _NAMES[node.type]
