"""Protobuf field numbers in schemas: the number and protobuf kind of each property.

All fields of a type are numbered, or none is; a numbered type needs numbers in the types of its fields, too. In a whole
object apiVersion and kind are in the envelope, and metadata is field 1, as in every kind of Kubernetes.
Must not know: bytes, classes. See also: ``endpoints.in_protobuf``, which reads and writes by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.schema.definition import Schema

NUMBER = "x-oarlock-proto"
_LARGEST = (1 << 29) - 1
_RESERVED = range(19_000, 20_000)
_ENVELOPE = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A property as a field.

    `kind` is string, bytes, int32, int64, double, bool, Time, MicroTime, Quantity, IntOrString, JSON, ObjectMeta,
    ``strings`` (a list of them as the value of a map) or ``message``, which has `schema`. `many` is ``list``, ``map``
    (by names) or empty. `omitted`: its zero value says that there is nothing.
    """

    name: str
    number: int
    kind: str
    schema: Schema
    many: str = ""
    omitted: bool = False


def is_numbered(schema: Schema) -> bool:
    """Whether any direct field of this type has a number."""
    return any(NUMBER in prop for prop in _properties(schema).values())


def number_errors(schema: Schema, *, root: bool) -> Iterator[tuple[str, str]]:
    """Errors in the numbers of a type: the field and the reason. Empty when no field has a number."""
    properties = _properties(schema)
    if not is_numbered(schema):
        return
    fields_by_number = {1: "metadata"} if root and NUMBER not in properties.get("metadata", {NUMBER: 1}) else {}
    for name, prop in properties.items():
        if root and name in _ENVELOPE:
            continue
        number = prop.get(NUMBER)
        if number is None:
            yield name, "has no field number, but others have: number all fields of a type or none"
            continue
        if type(number) is not int or not 0 < number <= _LARGEST or number in _RESERVED:
            yield name, f"{number!r} is no field number: 1 to {_LARGEST} without 19000 to 19999"
        elif number in fields_by_number:
            yield name, f"has the field number {number}, as {fields_by_number[number]!r} has"
        fields_by_number.setdefault(number, name)
        kind, _, inner = _kind(prop)
        if not kind:
            yield name, "protobuf has no lists or maps of lists or maps: put a model between them"
        elif kind == "message" and _properties(inner) and not is_numbered(inner):
            yield name, "has a field number, but the fields of its type have none"


def proto_fields(schema: Any, *, root: bool = True) -> list[ProtoField] | None:
    """The fields of a numbered type by number; None when it isn't numbered, or has errors."""
    if not isinstance(schema, dict) or not is_numbered(schema) or next(number_errors(schema, root=root), None):
        return None
    required = schema.get("required") or ()
    fields = [ProtoField("metadata", 1, "ObjectMeta", {})] if root else []
    for name, prop in _properties(schema).items():
        if root and name in _ENVELOPE:
            continue
        kind, many, inner = _kind(prop)
        if kind == "message" and proto_fields(inner, root=False) is None and _properties(inner):
            return None
        omitted = not many and (bool(prop.get("x-oarlock-omit-empty")) or (kind == "string" and name not in required))
        fields.append(ProtoField(name, prop[NUMBER], kind, inner, many, omitted))
    if len({field.number for field in fields}) < len(fields):
        return None  # something has metadata's number
    return sorted(fields, key=lambda field: field.number)


def _properties(schema: Schema) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not all(isinstance(prop, dict) for prop in properties.values()):
        return {}
    return properties


def _kind(schema: Schema) -> tuple[str, str, Schema]:
    """The kind of a property, ``list``, ``map`` or neither, and the schema of one value. No kind: not supported."""
    many = ""
    inner = schema
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        many, inner = "list", schema["items"]
    elif schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        many, inner = "map", schema["additionalProperties"]
    if many == "map" and inner.get("type") == "array" and (inner.get("items") or {}).get("type") == "string":
        return "strings", many, inner
    if inner is not schema and _kind(inner)[1]:
        return "", "", inner
    return _single(inner), many, inner


def _single(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "Quantity" if "pattern" in schema else "IntOrString"
    kind, form = schema.get("type"), schema.get("format", "")
    if schema.get("x-oarlock-micro-time"):
        return "MicroTime"
    if kind == "string":
        return {"byte": "bytes", "date-time": "Time"}.get(form, "string")
    if kind == "integer":
        return "int32" if form == "int32" else "int64"
    if kind == "object" and not schema.get("x-kubernetes-preserve-unknown-fields") and "properties" in schema:
        return "message"
    return {"number": "double", "boolean": "bool"}.get(str(kind), "JSON")
