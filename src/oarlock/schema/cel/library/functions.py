"""Implementations of functions and operators: the standard ones here, the rest in the modules beside.

Functions are chosen by name; those with several overloads inspect their arguments, whose types may be
dyn. Must not know: syntax, cost. See also: `library.text`, `library.lists`, `library.nets`, `library.kinds`.
Source: cel-spec "Functions"; error texts are cel-go's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from oarlock.schema.cel.library import authz, kinds, lists, nets, text
from oarlock.schema.cel.library.text import double_text, duration_text, timestamp_text
from oarlock.schema.cel.native import duration_from, timestamp_from
from oarlock.schema.cel.problems import EvalError, OverBudget
from oarlock.schema.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    add_lists,
    as_double,
    compare,
    contains,
    equals,
    no_overload,
    size,
    to_key,
    type_name,
)

_OFFSET = re.compile(r"([+-]?)(\d{1,2}):(\d\d)", re.ASCII).fullmatch
_NAME = re.compile(r"[A-Za-z]+(?:[/_+-][A-Za-z0-9_+-]+)*").fullmatch


def _zone(name: str) -> tzinfo:
    match = _OFFSET(name)
    try:
        if match is not None:
            minutes = int(match[2]) * 60 + int(match[3])
            return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
        if name == "UTC" or not name:
            return UTC
        if _NAME(name) is not None and len(name) < 64:
            return ZoneInfo(name)
    except (ValueError, OSError) as error:
        raise EvalError(f"unknown time zone {name[:64]}") from error
    except KeyError as error:
        raise EvalError(f"unknown time zone {name[:64]}") from error
    raise EvalError(f"unknown time zone {name[:64]}")


def _moment(value: Timestamp, zone: str) -> datetime:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value.ns // 1000)
    try:
        return moment.astimezone(_zone(zone))
    except OverflowError as error:
        raise EvalError("timestamp overflow") from error


def _of_timestamp(part: Callable[[datetime], int]) -> Callable[..., int]:
    def read(value: Any, zone: str = "UTC") -> int:
        if type(value) is not Timestamp or type(zone) is not str:
            raise no_overload()
        return part(_moment(value, zone))

    return read


def _toward_zero(value: int, unit: int) -> int:
    return value // unit if value >= 0 else -(-value // unit)


def _of_either(part: Callable[[datetime], int], unit: int) -> Callable[..., int]:
    of_timestamp = _of_timestamp(part)

    def read(value: Any, zone: str = "UTC") -> int:
        if type(value) is Duration:
            return _toward_zero(value.ns, unit)
        return of_timestamp(value, zone)

    return read


PARTS: dict[str, Callable[..., int]] = {
    "getFullYear": _of_timestamp(lambda moment: moment.year),
    "getMonth": _of_timestamp(lambda moment: moment.month - 1),
    "getDayOfYear": _of_timestamp(lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": _of_timestamp(lambda moment: moment.day - 1),
    "getDate": _of_timestamp(lambda moment: moment.day),
    "getDayOfWeek": _of_timestamp(lambda moment: moment.isoweekday() % 7),
    "getHours": _of_either(lambda moment: moment.hour, 3600 * 10**9),
    "getMinutes": _of_either(lambda moment: moment.minute, 60 * 10**9),
    "getSeconds": _of_either(lambda moment: moment.second, 10**9),
    "getMilliseconds": _of_either(lambda moment: moment.microsecond // 1000, 10**6),
}

MAX_ITEMS = 1_000_000
"""A list or a text that an expression builds may have so many items, or ten times as many characters."""

_MIN_NS, _MAX_NS = -62135596800 * 10**9, 253402300800 * 10**9 - 1


def _bounded(value: int, like: Any) -> Any:
    if type(like) is UInt:
        if not 0 <= value <= UINT_MAX:
            raise EvalError("unsigned integer overflow")
        return UInt(value)
    if not INT_MIN <= value <= INT_MAX:
        raise EvalError("integer overflow")
    return value


def _duration(ns: int) -> Duration:
    if not INT_MIN <= ns <= INT_MAX:
        raise EvalError("integer overflow")
    return Duration(ns)


def _timestamp(ns: int) -> Timestamp:
    if not _MIN_NS <= ns <= _MAX_NS:
        raise EvalError("timestamp overflow")
    return Timestamp(ns)


def _add(a: Any, b: Any) -> Any:
    kind, other = type(a), type(b)
    if kind is other:
        if kind is int or kind is UInt:
            return _bounded(int(a) + int(b), a)
        if kind is float:
            return a + b
        if kind is str or kind is bytes:
            if len(a) + len(b) > 10 * MAX_ITEMS:
                raise OverBudget("operation cancelled: actual cost limit exceeded")
            return a + b
        if kind is Duration:
            return _duration(a.ns + b.ns)
    if isinstance(a, list) and isinstance(b, list):
        if len(a) + len(b) > MAX_ITEMS:
            raise OverBudget("operation cancelled: actual cost limit exceeded")
        return add_lists(a, b)
    if {kind, other} == {Timestamp, Duration}:
        return _timestamp(a.ns + b.ns)
    return _floats(a, b, lambda x, y: x + y)


def _subtract(a: Any, b: Any) -> Any:
    kind, other = type(a), type(b)
    if kind is other:
        if kind is int or kind is UInt:
            return _bounded(int(a) - int(b), a)
        if kind is float:
            return a - b
        if kind is Duration or kind is Timestamp:
            return _duration(a.ns - b.ns)
    if kind is Timestamp and other is Duration:
        return _timestamp(a.ns - b.ns)
    return _floats(a, b, lambda x, y: x - y)


def _multiply(a: Any, b: Any) -> Any:
    if type(a) is type(b) and type(a) in (int, UInt):
        return _bounded(int(a) * int(b), a)
    return _floats(a, b, lambda x, y: x * y)


def _divide(a: Any, b: Any) -> Any:
    if type(a) is type(b) and type(a) in (int, UInt):
        if b == 0:
            raise EvalError("division by zero")
        quotient = abs(int(a)) // abs(int(b))
        return _bounded(quotient if (a < 0) is (b < 0) else -quotient, a)
    return _floats(a, b, _float_quotient)


def _float_quotient(a: float, b: float) -> float:
    if b:
        return a / b
    if not a or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _modulo(a: Any, b: Any) -> Any:
    if type(a) is not type(b) or type(a) not in (int, UInt):
        raise no_overload()
    if b == 0:
        raise EvalError("modulus by zero")
    rest = abs(int(a)) % abs(int(b))
    return _bounded(-rest if a < 0 else rest, a)


def _floats(a: Any, b: Any, combine: Callable[[float, float], float]) -> float:
    if type(a) is float and type(b) is float:
        return combine(a, b)
    raise no_overload()


def _negate(a: Any) -> Any:
    if type(a) is float:
        return -a
    if type(a) is not int:
        raise no_overload()
    return _bounded(-a, a)


def _not(a: Any) -> bool:
    if type(a) is not bool:
        raise no_overload()
    return not a


def _in(item: Any, container: Any) -> bool:
    if isinstance(container, list):
        return contains(container, item)
    if not isinstance(container, dict):
        raise no_overload()
    try:
        return to_key(item) in container
    except EvalError:
        return False


def _map_insert(entries: dict[Any, Any], *entry: Any) -> dict[Any, Any]:
    """Adds to the map in place, since only the macro has it."""
    new = {to_key(entry[0]): entry[1]} if len(entry) == 2 else entry[0]
    if not isinstance(entries, dict) or not isinstance(new, dict):
        raise no_overload()
    for key, value in new.items():
        if key in entries:
            raise EvalError(f"insert failed: key {key} already exists")
        entries[key] = value
    return entries


_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf(inity)?|nan)", re.I).fullmatch


def _parsed(text: str, low: int, high: int, overflow: str, function: str) -> int:
    if _INTEGER(text) is None or len(text) > 100:
        raise EvalError(f'strconv.{function}: parsing "{text[:100]}": invalid syntax')
    value = int(text)
    if not low <= value <= high:
        raise EvalError(overflow)
    return value


def _int(value: Any) -> int:
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is UInt:
        return int(_bounded(int(value), 0))
    if kind is float:
        if not -(2.0**63) < value < 2.0**63:
            raise EvalError("integer overflow")
        return int(value)
    if kind is str:
        return _parsed(value, INT_MIN, INT_MAX, "integer overflow", "ParseInt")
    if kind is Timestamp:
        return int(value.ns // 10**9)
    if kind is Duration:
        return int(value.ns)
    raise no_overload()


def _uint(value: Any) -> UInt:
    kind = type(value)
    if kind is UInt or kind is int:
        return UInt(_bounded(int(value), UInt()))
    if kind is float:
        if not 0 <= value < 2.0**64:
            raise EvalError("unsigned integer overflow")
        return UInt(int(value))
    if kind is str:
        return UInt(_parsed(value.removeprefix("+"), 0, UINT_MAX, "unsigned integer overflow", "ParseUint"))
    raise no_overload()


def _double(value: Any) -> float:
    kind = type(value)
    if kind is float or kind is int or kind is UInt:
        return as_double(value)
    if kind is str:
        if _DECIMAL(value) is None or len(value) > 2000:
            raise EvalError(f'strconv.ParseFloat: parsing "{value[:100]}": invalid syntax')
        return float(value)
    raise no_overload()


def _string(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is UInt:
        return str(int(value))
    if kind is float:
        return double_text(value)
    if kind is bytes:
        try:
            return str(value.decode())
        except UnicodeDecodeError as error:
            raise EvalError("invalid UTF-8 in bytes, cannot convert to string") from error
    if kind is Timestamp:
        return timestamp_text(value)
    if kind is Duration:
        return duration_text(value)
    if getattr(value, "cel_type", "") in ("net.IP", "net.CIDR"):
        return str(value)
    raise no_overload("string")


def _bytes(value: Any) -> bytes:
    if type(value) is str:
        return value.encode("utf-8", "surrogatepass")
    if type(value) is bytes:
        return value
    raise no_overload()


_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def _bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str and (value in _TRUE or value in _FALSE):
        return value in _TRUE
    raise EvalError(f"type conversion error from '{type_name(value)}' to 'bool'")


def _to_duration(value: Any) -> Duration:
    if type(value) is Duration:
        return value
    if type(value) is int:
        return _duration(value)
    if type(value) is not str:
        raise no_overload()
    try:
        return duration_from(value)
    except ValueError as error:
        raise EvalError(f'time: invalid duration "{str(value)[:100]}"') from error


def _to_timestamp(value: Any) -> Timestamp:
    if type(value) is Timestamp:
        return value
    if type(value) is int:
        return _timestamp(value * 10**9)
    if type(value) is not str:
        raise no_overload()
    try:
        return timestamp_from(value)
    except ValueError as error:
        raise EvalError(f'parsing time "{str(value)[:100]}": invalid timestamp') from error


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _modulo,
    "-_": _negate,
    "!_": _not,
    "_<_": lambda a, b: compare(a, b) < 0,
    "_<=_": lambda a, b: compare(a, b) <= 0,
    "_>_": lambda a, b: compare(a, b) > 0,
    "_>=_": lambda a, b: compare(a, b) >= 0,
    "_==_": equals,
    "@in": _in,
    "@not_strictly_false": lambda a: a,
    "cel.@mapInsert": _map_insert,
    "size": size,
    "type": lambda value: TypeValue(type_name(value)),
    "dyn": lambda value: value,
    "int": _int,
    "uint": _uint,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
    "bool": _bool,
    "duration": _to_duration,
    "timestamp": _to_timestamp,
    **PARTS,
    **text.FUNCTIONS,
    **lists.FUNCTIONS,
    **nets.FUNCTIONS,
    **kinds.FUNCTIONS,
    **authz.FUNCTIONS,
}
"""By name. ``CIDR.ip`` is the one function that shares its name with another of as many arguments."""


def _either(name: str, texts: Callable[..., Any], lists: Callable[..., Any]) -> None:
    def chosen(first: Any, second: Any, *place: Any) -> Any:
        if isinstance(first, str):
            return texts(first, second, *place)
        if place:  # only a text is searched from a place on
            raise no_overload()
        return lists(first, second)

    FUNCTIONS[name] = chosen


for _name in ("indexOf", "lastIndexOf"):
    _either(_name, text.FUNCTIONS[_name], lists.FUNCTIONS[_name])
