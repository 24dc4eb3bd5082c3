"""Types of expressions, and which type is assignable to which.

Unification as the CEL specification has it: type variables of a signature are bound while its arguments are
compared. An expression of a few lines can have a type of a million parts, or one that nests deeper than Python's
stack, so types are limited; see `MAX_PARTS`. Must not know: schemas, functions. See also: `signatures`, `checker`.
Source: cel-spec, "Gradual Type Checking".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel.problems import CompileError

TOO_COMPLEX = "the type of the expression is too complex"

MAX_PARTS = 2000
"""Types that one type may be made of."""

MAX_DEPTH = 100
"""How deep a type may nest."""


@dataclass(slots=True, eq=False)
class CelType:
    """`kind` is the type's name, or what kind of type `name` is.

    `node` is the schema of an object, or the types of a message's fields, None if it may have any.

    `parts` and `depth` are how many types it is made of, and how deep they nest.
    """

    kind: str
    params: tuple[CelType, ...] = ()
    name: str = ""
    node: Any = None
    parts: int = field(default=1, init=False)
    depth: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        for inner in self.params:
            self.parts += inner.parts
            if inner.depth >= self.depth:
                self.depth = inner.depth + 1

    @property
    def unwieldy(self) -> bool:
        """Whether it exceeds the limits."""
        return self.parts > MAX_PARTS or self.depth > MAX_DEPTH

    def __str__(self) -> str:
        if self.kind in ("object", "opaque", "variable", "message"):
            return self.name
        name = _SHOWN.get(self.kind, self.kind)
        return f"{name}({', '.join(map(str, self.params))})" if self.params else name


_SHOWN = {
    "optional": "optional_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}

DYN = CelType("dyn")
NULL = CelType("null")
BOOL = CelType("bool")
INT = CelType("int")
UINT = CelType("uint")
DOUBLE = CelType("double")
STRING = CelType("string")
BYTES = CelType("bytes")
TIMESTAMP = CelType("timestamp")
DURATION = CelType("duration")


def list_of(item: CelType) -> CelType:
    return CelType("list", (item,))


def map_of(key: CelType, value: CelType) -> CelType:
    return CelType("map", (key, value))


def optional_of(inner: CelType) -> CelType:
    return CelType("optional", (inner,))


def type_of(inner: CelType) -> CelType:
    return CelType("type", (inner,))


def opaque(name: str) -> CelType:
    return CelType("opaque", (), name)


def message(name: str, fields: Mapping[str, CelType] | None = None) -> CelType:
    """What ``name{field: value}`` makes. Without `fields` it may have any, of any type."""
    return CelType("message", (), name, fields)


def variable(name: str) -> CelType:
    return CelType("variable", (), name)


TypeBindings = dict[str, CelType]


class Overlay(TypeBindings):
    """Tentative bindings: new ones go here, lookups fall back to the underlying bindings."""

    __slots__ = ("_below",)

    def __init__(self, below: TypeBindings) -> None:
        super().__init__()
        self._below = below

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else self._below.get(name, default)


_NULLABLE = frozenset({"null", "object", "opaque", "message", "optional", "timestamp", "duration"})


def resolved(bound: TypeBindings, type: CelType) -> CelType:
    """`type` with its variables replaced; unbound ones stay. CompileError beyond the limits of types."""
    if type.kind == "variable":
        binding = bound.get(type.name)
        return type if binding is None else resolved(bound, binding)
    if not type.params:
        return type
    result = CelType(type.kind, tuple([resolved(bound, inner) for inner in type.params]), type.name, type.node)
    if result.unwieldy:
        raise CompileError(f"ERROR: <input>:1:1: {TOO_COMPLEX}")
    return result


def _occurs(bound: TypeBindings, name: str, type: CelType) -> bool:
    if type.kind == "variable":
        type_ = bound.get(type.name)
        return type.name == name or (type_ is not None and _occurs(bound, name, type_))
    return any(_occurs(bound, name, inner) for inner in type.params)


def assignable(bound: TypeBindings, type_: CelType, parameter: CelType) -> bool:
    """Whether `type_` is assignable to `parameter`; binds variables of both in `bound`."""
    if type_ is parameter:
        return True
    if parameter.kind == "variable":
        return _bind(bound, type_, parameter)
    if type_.kind == "variable":
        return _bind(bound, parameter, type_)
    if type_.kind == "dyn" or parameter.kind == "dyn":
        return True
    if type_.kind == "null" or parameter.kind == "null":
        return type_.kind in _NULLABLE and parameter.kind in _NULLABLE
    if type_.kind != parameter.kind or type_.name != parameter.name:
        return False
    if type_.kind == "object":
        return type_.node is parameter.node
    if type_.kind == "type":
        return True
    if len(type_.params) != len(parameter.params):
        return False
    return all(assignable(bound, mine, theirs) for mine, theirs in zip(type_.params, parameter.params, strict=True))


def _bind(bound: TypeBindings, type: CelType, free: CelType) -> bool:
    type_ = bound.get(free.name)
    if type.kind == "variable" and type.name == free.name:
        return True
    if type_ is None:
        if _occurs(bound, free.name, type):
            return resolved(bound, type).kind == "variable"
        bound[free.name] = type
        return True
    if not assignable(bound, type, type_):
        return False
    if type.kind == "dyn" or (type_.kind == "null" and type.kind != "null"):
        bound[free.name] = type
    return True
