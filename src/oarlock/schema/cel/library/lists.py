"""Functions on lists, on lists as sets, and on optional values.

See also: `values`, for equality and order. Source: cel-go extensions lists version 3, sets and optional types;
Kubernetes' lists library (sum, min, max, isSorted, indexOf, lastIndexOf).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from oarlock.schema.cel.problems import EvalError, OverBudget
from oarlock.schema.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    Duration,
    Optional,
    Timestamp,
    UInt,
    compare,
    contains,
    equals,
    no_overload,
)

MAX_RANGE = 1_000_000
MAX_FLATTEN = 64


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise no_overload()
    return value


def _is_sorted(value: Any) -> bool:
    items = _items(value)
    return all(compare(a, b) <= 0 for a, b in pairwise(items))


def _sum(value: Any) -> Any:
    items = _items(value)
    if not items:
        return 0
    kind = type(items[0])
    if any(type(item) is not kind for item in items):
        raise no_overload()
    if kind is float:
        total = 0.0
        for item in items:
            total += item
        return total
    if kind is Duration:
        return Duration(_bounded(sum(item.ns for item in items), INT_MIN, INT_MAX))
    if kind is int:
        return _bounded(sum(items), INT_MIN, INT_MAX)
    if kind is UInt:
        return UInt(_bounded(sum(items), 0, UINT_MAX))
    raise no_overload()


def _bounded(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise EvalError("integer overflow")
    return value


def _extreme(name: str, sign: int) -> Callable[[Any], Any]:
    def extreme(value: Any) -> Any:
        items = _items(value)
        if not items:
            raise EvalError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if compare(item, best) * sign > 0:
                best = item
        return best

    return extreme


def _index_of(value: Any, element: Any) -> int:
    for at, item in enumerate(_items(value)):
        if equals(item, element):
            return at
    return -1


def _last_index_of(value: Any, item: Any) -> int:
    items = _items(value)
    for at in range(len(items) - 1, -1, -1):
        if equals(items[at], item):
            return at
    return -1


def _slice(value: Any, start: Any, end: Any) -> list[Any]:
    items = _items(value)
    if type(start) is not int or type(end) is not int:
        raise no_overload()
    if start < 0 or end < 0:
        raise EvalError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvalError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise EvalError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(value: Any, depth: Any = 1) -> list[Any]:
    if type(depth) is not int:
        raise no_overload()
    if depth < 0:
        raise EvalError("level must be non-negative")
    result: list[Any] = []
    _flatten_into(result, _items(value), min(depth, MAX_FLATTEN))
    return result


def _flatten_into(result: list[Any], items: list[Any], depth: int) -> None:
    for item in items:
        if depth and isinstance(item, list):
            _flatten_into(result, item, depth - 1)
        else:
            result.append(item)


def _range(count: Any) -> list[int]:
    if type(count) is not int:
        raise no_overload()
    if count > MAX_RANGE:
        raise OverBudget("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def _distinct(value: Any) -> list[Any]:
    items = _items(value)
    if all(type(item) is str for item in items):
        return list(dict.fromkeys(items))
    result: list[Any] = []
    for item in items:
        if not contains(result, item):
            result.append(item)
    return result


_ordered = cmp_to_key(compare)


def _sort(value: Any) -> list[Any]:
    return _sort_by(value, value)


def _sort_by(value: Any, keys: Any) -> list[Any]:
    items = _items(value)
    if len(_items(keys)) != len(items):
        raise no_overload()
    if items and any(type(key) is not type(keys[0]) for key in keys):
        raise EvalError("list elements must have the same type")
    order = sorted(range(len(items)), key=lambda at: _ordered(keys[at]))
    return [items[at] for at in order]


def _sets_contains(value: Any, others: Any) -> bool:
    items = _items(value)
    return all(contains(items, item) for item in _items(others))


def _sets_intersects(a: Any, b: Any) -> bool:
    others = _items(b)
    return any(contains(others, item) for item in _items(a))


# optional values ----------------------------------------------------------------------------------


def _optional(value: Any) -> Optional:
    if type(value) is not Optional:
        raise no_overload()
    return value


_YEAR_ONE = Timestamp(-62135596800 * 10**9)


def _is_zero(value: Any) -> bool:
    if value == Duration(0) or value == _YEAR_ONE:
        return True
    return value is None or (isinstance(value, bool | int | float | str | bytes | list | dict) and not value)


def _value(value: Any) -> Any:
    optional = _optional(value)
    if not optional.present:
        raise EvalError("optional.none() dereference")
    return optional.value


def _at(index: int) -> Callable[[Any], Optional]:
    def item(value: Any) -> Optional:
        items = _items(value)
        return Optional(True, items[index]) if items else NONE

    return item


def _unwrap(value: Any) -> list[Any]:
    return [item.value for item in map(_optional, _items(value)) if item.present]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "isSorted": _is_sorted,
    "sum": _sum,
    "sum.duration": lambda value: _sum(value) or Duration(0),
    "min": _extreme("min", -1),
    "max": _extreme("max", 1),
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "slice": _slice,
    "flatten": _flatten,
    "lists.range": _range,
    "distinct": _distinct,
    "reverse": lambda value: _items(value)[::-1],
    "sort": _sort,
    "@sortByAssociatedKeys": _sort_by,
    "sets.contains": _sets_contains,
    "sets.intersects": _sets_intersects,
    "sets.equivalent": lambda a, b: _sets_contains(a, b) and _sets_contains(b, a),
    "optional.of": lambda value: Optional(True, value),
    "optional.ofNonZeroValue": lambda value: NONE if _is_zero(value) else Optional(True, value),
    "optional.none": lambda: NONE,
    "first": _at(0),
    "last": _at(-1),
    "optional.unwrap": _unwrap,
    "unwrapOpt": _unwrap,
    "hasValue": lambda value: _optional(value).present,
    "value": _value,
}
