"""A structural schema as nodes, parsed once, so that nothing interprets the dict at run time.

`parse` converts an ``openAPIV3Schema`` to `Node`s and refuses malformed ones, with the path of
the error. `structural_rules` checks the rules of *structural* schemas.
Must not know: trees of objects, definitions. See also: `compiled`, which makes functions of nodes.
Source: apiextensions.k8s.io/v1 JSONSchemaProps; structural schemas (KEP-1693).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

from oarlock.meta.dataclass import dataclass

MAX_DEPTH = 100
"""Schemas are walked by recursion; nobody nests them a tenth as deep."""


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""No default, as opposed to a default of null."""


class SchemaError(ValueError):
    """A malformed schema. `path` is the place (``properties[spec].items``), `why` the reason."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" if self.path else self.why


@dataclass(slots=True, eq=False)
class Constraints:
    """The constraints on a value besides its type."""

    enum: list[Any] | None = None
    minimum: float | int | None = None
    maximum: float | int | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool = False
    min_properties: int | None = None
    max_properties: int | None = None
    required: tuple[str, ...] = ()
    all_of: tuple[Node, ...] = ()
    any_of: tuple[Node, ...] = ()
    one_of: tuple[Node, ...] = ()
    not_: Node | None = None


@dataclass(slots=True, eq=False)
class Node:
    """One level of a schema. `additional` is the schema of undeclared fields, True for any value.

    A `quantity` or a `decimal` may be a number in a body, too; it is stored as text. `has_rules` is true if there are
    CEL rules, which are parsed elsewhere.
    """

    type: str = ""
    format: str = ""
    title: str = ""
    description: str = ""
    nullable: bool = False
    default: Any = MISSING
    properties: dict[str, Node] = field(default_factory=dict)
    items: Node | None = None
    additional: Node | bool | None = None
    preserve: bool = False
    embedded: bool = False
    int_or_string: bool = False
    omit_empty: bool = False
    micro_time: bool = False
    quantity: bool = False
    decimal: bool = False
    in_thousandths: bool = False
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    map_type: str = ""
    has_rules: bool = False
    constraints: Constraints = field(default_factory=Constraints)


_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", ""})


def parse(schema: Any, path: str = "") -> Node:
    """Parse a schema. SchemaError when a keyword has an invalid value."""
    return _parse(schema, path, 0)


def _parse(schema: Any, path: str, depth: int) -> Node:
    if type(schema) is not dict:
        raise SchemaError(path, "a schema is an object")
    if depth > MAX_DEPTH:
        raise SchemaError(path, f"the schema is nested more than {MAX_DEPTH} levels deep")
    node = Node()
    for key, value in schema.items():
        if value is None:
            continue
        read = _SCALARS.get(key)
        if read is not None:
            attribute, kind, target = read
            if not _is(value, kind):
                raise SchemaError(_child(path, key), f"must be {_NAMES[kind]}")
            setattr(node if target == "node" else node.constraints, attribute, value)
        elif key in _SUBSCHEMAS:
            _SUBSCHEMAS[key](node, value, _child(path, key), depth + 1)
    if "default" in schema:
        node.default = schema["default"]
    if node.type not in _TYPES:
        raise SchemaError(_child(path, "type"), f'unknown type "{node.type}"')
    return node


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_NAMES = {"str": "a string", "bool": "a boolean", "int": "a whole number ≥ 0", "number": "a number", "list": "an array"}


def _is(value: Any, kind: str) -> bool:
    if kind == "int":
        return type(value) is int and value >= 0
    if kind == "number":
        return type(value) in (int, float)
    return type(value) is {"str": str, "bool": bool, "list": list}[kind]


_SCALARS: dict[str, tuple[str, str, str]] = {
    # keyword: attribute, form, where it belongs
    "type": ("type", "str", "node"),
    "format": ("format", "str", "node"),
    "title": ("title", "str", "node"),
    "description": ("description", "str", "node"),
    "nullable": ("nullable", "bool", "node"),
    "x-kubernetes-preserve-unknown-fields": ("preserve", "bool", "node"),
    "x-kubernetes-embedded-resource": ("embedded", "bool", "node"),
    "x-kubernetes-int-or-string": ("int_or_string", "bool", "node"),
    "x-kubernetes-list-type": ("list_type", "str", "node"),
    "x-kubernetes-map-type": ("map_type", "str", "node"),
    "x-oarlock-omit-empty": ("omit_empty", "bool", "node"),
    "x-oarlock-micro-time": ("micro_time", "bool", "node"),
    "x-oarlock-quantity": ("quantity", "bool", "node"),
    "x-oarlock-decimal": ("decimal", "bool", "node"),
    "x-oarlock-in-thousandths": ("in_thousandths", "bool", "node"),
    "enum": ("enum", "list", "constraints"),
    "minimum": ("minimum", "number", "constraints"),
    "maximum": ("maximum", "number", "constraints"),
    "exclusiveMinimum": ("exclusive_minimum", "bool", "constraints"),
    "exclusiveMaximum": ("exclusive_maximum", "bool", "constraints"),
    "multipleOf": ("multiple_of", "number", "constraints"),
    "minLength": ("min_length", "int", "constraints"),
    "maxLength": ("max_length", "int", "constraints"),
    "pattern": ("pattern", "str", "constraints"),
    "minItems": ("min_items", "int", "constraints"),
    "maxItems": ("max_items", "int", "constraints"),
    "uniqueItems": ("unique_items", "bool", "constraints"),
    "minProperties": ("min_properties", "int", "constraints"),
    "maxProperties": ("max_properties", "int", "constraints"),
}


def _properties(node: Node, value: Any, path: str, depth: int) -> None:
    if type(value) is not dict:
        raise SchemaError(path, "must be an object")
    node.properties = {name: _parse(schema, f"{path}[{name}]", depth) for name, schema in value.items()}


def _rules(node: Node, value: Any, path: str, _depth: int) -> None:
    if type(value) is not list:
        raise SchemaError(path, "must be an array")
    node.has_rules = bool(value)


def _items(node: Node, value: Any, path: str, depth: int) -> None:
    if type(value) is list:
        raise SchemaError(path, "items must be a schema object and not an array")
    node.items = _parse(value, path, depth)


def _additional(node: Node, value: Any, path: str, depth: int) -> None:
    node.additional = value if type(value) is bool else _parse(value, path, depth)


def _all_of(node: Node, value: Any, path: str, depth: int) -> None:
    node.constraints.all_of = _branches(value, path, depth)


def _any_of(node: Node, value: Any, path: str, depth: int) -> None:
    node.constraints.any_of = _branches(value, path, depth)


def _one_of(node: Node, value: Any, path: str, depth: int) -> None:
    node.constraints.one_of = _branches(value, path, depth)


def _branches(value: Any, path: str, depth: int) -> tuple[Node, ...]:
    if type(value) is not list:
        raise SchemaError(path, "must be an array")
    return tuple(_parse(schema, f"{path}[{i}]", depth) for i, schema in enumerate(value))


def _not(node: Node, value: Any, path: str, depth: int) -> None:
    node.constraints.not_ = _parse(value, path, depth)


def _strings(value: Any, path: str) -> tuple[str, ...]:
    if type(value) is not list or not all(type(item) is str for item in value):
        raise SchemaError(path, "must be an array of strings")
    return tuple(value)


def _required(node: Node, value: Any, path: str, _depth: int) -> None:
    node.constraints.required = _strings(value, path)


def _list_keys(node: Node, value: Any, path: str, _depth: int) -> None:
    node.list_keys = _strings(value, path)


def _null_if_absent(node: Node, value: Any, path: str, _depth: int) -> None:
    """Where there is nothing, null is written; what is published of the type says nothing of it."""
    if value is not True:
        raise SchemaError(path, "must be true")
    node.nullable, node.default = True, None


_SUBSCHEMAS: dict[str, Callable[[Node, Any, str, int], None]] = {
    "properties": _properties,
    "items": _items,
    "additionalProperties": _additional,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "required": _required,
    "x-kubernetes-validations": _rules,
    "x-kubernetes-list-map-keys": _list_keys,
    "x-oarlock-null-if-absent": _null_if_absent,
}
