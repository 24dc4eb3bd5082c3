"""The first wrong JSON type in a body, in the words of Go's decoder.

For definitions that behave as compiled-in kinds do, a body is decoded into a type before anything looks at it,
and clients know the text of that failure. `compile_fits` answers fast whether a tree fits; `first_misfit`
finds and words the first mistake, in the order of the document.
Must not know: constraints, which are `validation`'s. Source: encoding/json and sigs.k8s.io/json.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from oarlock.meta.times import TimeError, parse_rfc3339
from oarlock.schema.structural import Node

__all__ = ["Place", "bounds_of", "compile_fits", "first_misfit"]

Fits = Callable[[Any], bool]

_INT_BOUNDS = {"int32": (-(2**31), 2**31 - 1)}
_INT64 = (-(2**63), 2**63 - 1)


def bounds_of(node: Node) -> tuple[int, int]:
    """What an integer field can hold."""
    return _INT_BOUNDS.get(node.format, _INT64)


def compile_fits(node: Node) -> Fits | None:
    """A function that says whether a value has the types of the schema; null fits anywhere. None when all does."""
    if node.int_or_string:
        return _fits_int_or_string
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
    if node.format in _TEXT_FORMATS:
        return lambda value: value is None or (type(value) is str and _text_misfit(node, value) is None)
    return lambda value: type(value) is str or value is None


def _fits_object(node: Node) -> Fits:
    if isinstance(node.additional, Node):
        return _fits_map(
            compile_fits(node.additional), {key: compile_fits(child) for key, child in node.properties.items()}
        )
    # scalars that any value of one Python type fits are compared by type, without a call
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


@dataclass(frozen=True, slots=True)
class Place:
    """Where the decoder is: the package and type it fills, and the path of struct fields that led there."""

    package: str
    struct: str
    path: str = ""

    @property
    def field(self) -> str:
        return f" into Go struct field {self.struct}.{self.path}" if self.path else " into Go value"

    def into(self, key: str, node: Node) -> Place:
        path = f"{self.path}.{key}" if self.path else key
        return replace(self, path=path)

    def inside(self, name: str) -> Place:
        return replace(self, struct=name)


def first_misfit(value: Any, node: Node, place: Place, key: str = "") -> str | None:
    """The text of the first mistake below, or None. `key` is the field that holds the value, for naming its type."""
    if value is None:
        return None
    if node.int_or_string:
        return _int_or_string_misfit(value, node)
    if node.type == "object":
        return _object_misfit(value, node, place, key)
    if node.type == "array":
        return _array_misfit(value, node, place, key)
    if node.type == "string" and type(value) is str:
        return _text_misfit(node, value)
    if node.type == "string" and node.format == "date-time":
        return f"json: cannot unmarshal {_json_kind(value)} into Go value of type string"
    fits = compile_fits(node)
    if fits is None or fits(value):
        return None
    number = f" {_literal(value)}" if node.type == "integer" and type(value) in (int, float) else ""
    return f"json: cannot unmarshal {_json_kind(value)}{number}{place.field} of type {_go_type(node, place, key)}"


def _object_misfit(value: Any, node: Node, place: Place, key: str) -> str | None:
    if type(value) is not dict:
        return f"json: cannot unmarshal {_json_kind(value)}{place.field} of type {_go_type(node, place, key)}"
    inside = place.inside(_struct_name(node, place, key)) if node.properties else place
    for name, item in value.items():
        child = node.properties.get(name)
        if child is not None:
            why = first_misfit(item, child, inside.into(name, child), name)
        elif isinstance(node.additional, Node):
            why = first_misfit(item, node.additional, place, key)
        else:
            continue
        if why is not None:
            return why
    return None


def _array_misfit(value: Any, node: Node, place: Place, key: str) -> str | None:
    if type(value) is not list:
        return f"json: cannot unmarshal {_json_kind(value)}{place.field} of type {_go_type(node, place, key)}"
    if node.items is not None:
        for item in value:
            why = first_misfit(item, node.items, place, key)
            if why is not None:
                return why
    return None


def _int_or_string_misfit(value: Any, node: Node) -> str | None:
    if _fits_int_or_string(value):
        return None
    if node.constraints.pattern and type(value) in (int, float):
        return None  # a quantity is any number
    number = f" {_literal(value)}" if type(value) in (int, float) else ""
    return f"json: cannot unmarshal {_json_kind(value)}{number} into Go value of type int32"


def _json_kind(value: Any) -> str:
    return {str: "string", bool: "bool", dict: "object", list: "array"}.get(type(value), "number")


def _literal(value: float | int) -> str:
    # what was written is gone by now; this is the nearest text
    return repr(value)


def _struct_name(node: Node, place: Place, key: str) -> str:
    if node.go_type:
        return node.go_type.rpartition(".")[2]
    if not place.path:
        return place.struct
    name = key[:1].upper() + key[1:]
    return place.struct + name if place.path in ("spec", "status") else name


def _go_type(node: Node, place: Place, key: str) -> str:
    """How Go names the type of a field of this schema."""
    if node.go_type:
        return node.go_type
    if node.type == "array":
        return "[]" + ("interface {}" if node.items is None else _go_type(node.items, place, key))
    if node.type == "object":
        if node.properties:
            return f"{place.package}.{_struct_name(node, place, key)}"
        values = _go_type(node.additional, place, key) if isinstance(node.additional, Node) else "interface {}"
        return f"map[string]{values}"
    if node.type == "integer":
        return "int32" if node.format == "int32" else "int64"
    if node.type == "string" and node.format == "byte":
        return "[]uint8"
    return {"string": "string", "number": "float64", "boolean": "bool"}.get(node.type, "interface {}")


_TEXT_FORMATS = frozenset({"date-time", "byte"})


def _text_misfit(node: Node, value: str) -> str | None:
    """A text that its Go type can't read, however right its JSON type is."""
    if node.format == "date-time":
        return _time_misfit(value)
    if node.format == "byte":
        try:
            binascii.a2b_base64(value.encode().translate(None, b"\r\n"), strict_mode=True)
        except (ValueError, UnicodeEncodeError):
            return f"illegal base64 data at input byte {_base64_prefix(value)}"
    return None


def _time_misfit(value: str) -> str | None:
    if len(value) == 20 and value[19] == "Z" and value[10] == "T":
        try:
            datetime.fromisoformat(value[:19])  # what nearly every time is, read without our own reader
        except ValueError:
            pass
        else:
            return None
    try:
        parse_rfc3339(value)
    except TimeError as error:
        return str(error)
    return None


_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _base64_prefix(value: str) -> int:
    for i, char in enumerate(value):
        if char not in _BASE64:
            return i
    return len(value) - len(value) % 4
