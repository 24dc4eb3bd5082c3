"""The parts of times and durations: ``getHours``, ``getMonth`` and the rest.

A zone is an offset (``01:00``, ``-07:30``), ``UTC``, or a name of the time zone database.
See also: `functions`. Source: cel-spec "Timestamps and Durations".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from oarlock.schema.cel.problems import EvalError
from oarlock.schema.cel.values import Duration, Timestamp, no_overload

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
