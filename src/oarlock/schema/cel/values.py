"""CEL values: Python's own types where the semantics are the same, else small classes.

bool, int, float, str, bytes, None, list and dict are themselves. A key of a map that is a bool is a `BoolKey`,
since Python takes True for 1. Lists that the schema calls sets or maps compare without order.
Must not know: syntax, cost. See also: `native`, which makes values of trees; `compiling`.
Source: cel-spec, "Values" and "Equality"; Kubernetes' typed lists (KEP-2876).
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.quantities import Quantity
from oarlock.schema.cel.problems import EvalError

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class UInt(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time, in nanoseconds since 1970-01-01T00:00:00Z. `offset` is that of its time zone, in minutes."""

    ns: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in nanoseconds."""

    ns: int


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: the result of ``type(x)``."""

    name: str


@dataclass(frozen=True, slots=True)
class BoolKey:
    """True or False as the key of a map."""

    value: bool


class Optional:
    """A value that may be absent."""

    __slots__ = ("present", "value")

    def __init__(self, present: bool, value: Any = None) -> None:
        self.present = present
        self.value = value


NONE = Optional(False)


class Obj(dict[str, Any]):
    """An object with a schema.

    `shown` are the fields accessible in expressions, `type_name` the result of ``type()``.
    """

    __slots__ = ("shown", "type_name")

    def __init__(self, fields: dict[str, Any], shown: dict[str, str], type_name: str) -> None:
        super().__init__(fields)
        self.shown = shown
        self.type_name = type_name


class SetList(list[Any]):
    """A list of ``x-kubernetes-list-type: set``, compared without order."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of ``x-kubernetes-list-type: map`` with these `keys`, compared without order."""

    __slots__ = ("keys",)

    def __init__(self, items: Any, keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> tuple[Any, ...] | None:
        if not isinstance(item, dict):
            return None
        return tuple([_hashable(item.get(key)) for key in self.keys])


def _hashable(value: Any) -> Any:
    if type(value) is bool:
        return BoolKey(value)
    return repr(value) if isinstance(value, dict | list) else value


_NUMBERS = frozenset({int, float, UInt})
_SIMPLE = frozenset({str, bytes, bool, int, float, UInt, type(None)})
_EXACT = frozenset({str, int, bytes, bool})


def is_flat(items: list[Any]) -> bool:
    """Whether all items are scalars."""
    return _SIMPLE.issuperset(map(type, items))


def as_double(value: float) -> float:
    """A number as a double; an integer beyond its range is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def to_key(value: Any) -> Any:
    """A value as the key of a map. EvalError for one that can't be a key."""
    kind = type(value)
    if kind is str or kind is int or kind is UInt:
        return value
    if kind is bool:
        return BoolKey(value)
    if kind is float:
        return value
    raise EvalError(f"unsupported key type: {type_name(value)}")


def from_key(key: Any) -> Any:
    return key.value if type(key) is BoolKey else key


def equals(a: Any, b: Any) -> bool:
    """CEL's ``==``: by value across numeric types, never an error; other types that differ aren't equal."""
    kind, other = type(a), type(b)
    if kind in _SIMPLE or other in _SIMPLE:
        if kind is other:
            return bool(a == b)
        if kind in _NUMBERS and other in _NUMBERS:
            return as_double(a) == as_double(b) if kind is float or other is float else bool(a == b)
        return False
    if isinstance(a, list):
        return isinstance(b, list) and _equal_lists(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and _equal_maps(a, b)
    if kind is Optional:
        if other is not Optional or a.present is not b.present:
            return False
        return not a.present or equals(a.value, b.value)
    return kind is other and bool(a == b)


def _equal_maps(a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    if len(a) != len(b):
        return False
    return all(key in b and equals(value, b[key]) for key, value in a.items())


def _equal_lists(a: list[Any], b: list[Any]) -> bool:
    if len(a) != len(b):
        return False
    typed = a if type(a) is not list else b
    if type(typed) is list:
        kinds = set(map(type, a))
        if len(kinds) == 1 and kinds <= _EXACT and kinds == set(map(type, b)):
            return a == b
    if type(typed) is SetList:
        if is_flat(a) and is_flat(b):
            return set(map(_hashable, a)) == set(map(_hashable, b))
        return all(contains(b, item) for item in a) and all(contains(a, item) for item in b)
    if type(typed) is MapList:
        theirs = {typed.key_of(item): item for item in b}
        return all((key := typed.key_of(item)) in theirs and equals(item, theirs[key]) for item in a)
    return all(map(equals, a, b))


def contains(items: list[Any], wanted: Any) -> bool:
    """``wanted in items``."""
    kind = type(wanted)
    if kind is str or kind is bytes:
        return wanted in items
    return any(equals(item, wanted) for item in items)


def add_lists(a: list[Any], b: list[Any]) -> list[Any]:
    """``a + b``: a set gets the new items of `b`; in a map, items of `b` replace those with the same key."""
    if type(a) is SetList:
        both = [*a, *b]
        alike = is_flat(both) and bool not in set(map(type, both))
        return SetList(dict.fromkeys(both) if alike else _united(a, b))
    if type(a) is MapList:
        merged = {a.key_of(item): item for item in a}
        merged.update({a.key_of(item): item for item in b})
        return MapList(merged.values(), a.keys)
    return [*a, *b]


def _united(a: list[Any], b: list[Any]) -> list[Any]:
    result = list(a)
    for item in b:
        if not contains(result, item):
            result.append(item)
    return result


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1. EvalError for values without an order."""
    kind, other = type(a), type(b)
    comparable = (kind in _NUMBERS and other in _NUMBERS) or (
        kind is other and kind in (str, bytes, bool, Timestamp, Duration)
    )
    if not comparable:
        raise no_overload()
    if kind is not other and (kind is float or other is float):
        a, b = as_double(a), as_double(b)  # as cel-go: by what a double can hold
    return -1 if a < b else int(a > b)


def size(value: Any) -> int:
    """The length of a string, in code points, or of bytes, a list or a map."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise no_overload()


def no_overload(name: str = "") -> EvalError:
    return EvalError(f"no such overload: {name}" if name else "no such overload")


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
}


def type_name(value: Any) -> str:
    """The name of a value's type, as ``type(x)`` compares it."""
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    if type(value) is Obj:
        return value.type_name
    if isinstance(value, list):
        return "list"
    if isinstance(value, dict):
        return "map"
    return str(getattr(value, "cel_type", type(value).__name__))
