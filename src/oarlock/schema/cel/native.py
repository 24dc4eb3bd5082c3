"""Converts tree values to CEL values, with one function for each form of schema.

Compiled once per schema. None stays None: only lists and maps can contain it. A value that doesn't fit
its schema is an EvalError with Kubernetes' message. See also: `declared`, which chooses them.
Source: apiserver's UnstructuredToVal.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from oarlock.meta.times import DURATION_UNITS, TimeError, parse_rfc3339
from oarlock.schema.cel.problems import EvalError
from oarlock.schema.cel.values import Duration, MapList, Obj, SetList, Timestamp, as_double

ToCel = Callable[[Any], Any]

NO_ARRAY = "invalid data, expected an array for the provided schema with type=array"
NO_MAP = "invalid data, expected a map for the provided schema with type=object"

_part = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)").match
_MAX_DURATION = 2**63 - 1
_MIN_TIMESTAMP, _MAX_TIMESTAMP = -62135596800, 253402300799
_time = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII).fullmatch


def duration_from(text: str) -> Duration:
    """Go's ``time.ParseDuration``, exact to the nanosecond. ValueError for another text."""
    negative = text[:1] == "-"
    at = 1 if text[:1] in ("-", "+") and text else 0
    if text[at:] == "0":
        return Duration(0)
    if at >= len(text) or len(text) > 1000:
        raise ValueError(text)
    total = 0
    while at < len(text):
        match = _part(text, at)
        if match is None or not (match[1] or match[2]):
            raise ValueError(text)
        unit = DURATION_UNITS[match[3]]
        total += int(match[1] or "0") * unit
        if match[2]:
            total += int(match[2]) * unit // 10 ** len(match[2])
        at = match.end()
    if total > _MAX_DURATION:
        raise ValueError(text)
    return Duration(-total if negative else total)


def timestamp_from(text: str) -> Timestamp:
    """An RFC 3339 time of the years 1 to 9999. ValueError for another text."""
    match = _time(text)
    if match is None:
        raise ValueError(text)
    head = f"{text[:19].upper()}{match[8].upper()}"
    try:
        seconds = int(parse_rfc3339(head))
    except TimeError as error:
        raise ValueError(text) from error
    if not _MIN_TIMESTAMP <= seconds <= _MAX_TIMESTAMP:
        raise ValueError(text)
    zone, offset = match[8], 0
    if zone not in "Zz":
        offset = (int(zone[1:3]) * 60 + int(zone[4:6])) * (-1 if zone[0] == "-" else 1)
    return Timestamp(seconds * 1_000_000_000 + int(((match[7] or "") + "000000000")[:9]), offset)


def _date_or_time(text: str) -> Timestamp:
    return timestamp_from(text if len(text) > 10 else text + "T00:00:00Z")


def _bytes_of_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _read(value: Any, parse: Callable[[str], Any], what: str) -> Any:
    """What `parse`, which raises ValueError for a text it can't read, makes of a text."""
    if type(value) is str:
        try:
            return parse(value)
        except ValueError:
            pass
    raise EvalError(f"invalid data, expected {what}, got {value!r}")


def to_timestamp(value: Any) -> Any:
    return None if value is None else _read(value, _date_or_time, "a date or date-time")


def to_duration(value: Any) -> Any:
    return None if value is None else _read(value, duration_from, "a duration")


def to_bytes(value: Any) -> Any:
    return None if value is None else _read(value, _bytes_of_base64, "base64")


def to_double(value: Any) -> Any:
    if type(value) is float or value is None:
        return value
    if type(value) is int:
        return as_double(value)
    raise EvalError(f"invalid data, expected a number, got {value!r}")


def int_or_string(value: Any) -> Any:
    if type(value) is str or type(value) is int or value is None:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise EvalError("invalid data, expected XIntOrString value to be either a string or integer")


def _array(value: Any) -> list[Any]:
    if type(value) is not list:
        raise EvalError(NO_ARRAY)
    return value


def list_of(item: ToCel) -> ToCel:
    return lambda value: None if value is None else [item(element) for element in _array(value)]


def set_list(item: ToCel | None) -> ToCel:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        return SetList(_array(value) if item is None else map(item, _array(value)))

    return convert


def map_list(item: ToCel | None, keys: tuple[str, ...]) -> ToCel:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        return MapList(_array(value) if item is None else map(item, _array(value)), keys)

    return convert


def map_of(item: ToCel) -> ToCel:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise EvalError(NO_MAP)
        return {key: item(element) for key, element in value.items()}

    return convert


def obj_of(names: dict[str, str], converts: dict[str, ToCel], type_name: str) -> ToCel:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise EvalError(NO_MAP)
        obj = Obj(value, names, type_name)
        for name, inner in converts.items():
            if name in obj:
                obj[name] = inner(obj[name])
        return obj

    return convert
