"""Times and durations in Kubernetes' formats. There is no clock here: every function takes the time as an argument.

Times are seconds since the epoch, UTC, as `float`; durations are seconds. See also: `context.Clock`.
Source: RFC 3339; k8s.io/apimachinery ``meta/v1`` Time and MicroTime, ``util/duration``; Go's ``time.ParseDuration``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from oarlock.meta.go.gotext import quote


class TimeError(ValueError):
    """The text isn't a time or duration. The message is Go's."""


def go_seconds(seconds: int) -> float:
    """So many seconds as Go's ``time.Duration`` has them: beyond 292 years they wrap around.

    A sum of such a duration and a time of today is always a time that can be written.
    """
    return ((seconds * 10**9 + 2**63) % 2**64 - 2**63) / 10**9


def rfc3339(epoch_seconds: float) -> str:
    """``2006-01-02T15:04:05Z``; fractions are cut off. ValueError outside the years 1 to 9999."""
    return _second(int(epoch_seconds // 1))


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    # all writes in one second need the same text, several times each
    return _utc(seconds).isoformat()[:19] + "Z"


def rfc3339_micro(epoch_seconds: float) -> str:
    """``2006-01-02T15:04:05.000000Z``, always with six digits (``MicroTime``)."""
    seconds, micros = divmod(round(epoch_seconds * 1_000_000), 1_000_000)
    return f"{_second(seconds)[:19]}.{micros:06d}Z"


def _utc(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError) as error:
        raise TimeError(f"the time {seconds} is outside of the years 1 to 9999") from error


# Reading times ------------------------------------------------------------------------------------

_SECONDS_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"


class _Element(NamedTuple):
    layout: str
    pattern: re.Pattern[str]
    name: str = ""
    low: int = 0
    high: int = 0


def _number(layout: str, name: str, low: int, high: int, pattern: str = "[0-9]{2}") -> _Element:
    return _Element(layout, re.compile(pattern), name, low, high)


def _literal(text: str) -> _Element:
    return _Element(text, re.compile(re.escape(text)))


_DATE_AND_TIME = (
    _number("2006", "year", 0, 9999, "[0-9]{4}"),
    _literal("-"),
    _number("01", "month", 1, 12),
    _literal("-"),
    _number("02", "day", 1, 31),
    _literal("T"),
    _number("15", "hour", 0, 23, "[0-9]{1,2}"),
    _literal(":"),
    _number("04", "minute", 0, 59),
    _literal(":"),
    _number("05", "second", 0, 59),
)
_any_fraction = re.compile(r"[.,]([0-9]+)").match
_micro_fraction = re.compile(r"\.([0-9]{6})(?![0-9])").match
_zone = re.compile(r"Z|([+-])([0-9]{2}):([0-9]{2})").match
_as_servers_write = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?!24)[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z").fullmatch
# without an hour 24, which Python takes for midnight since 3.14
_on_any_month = re.compile(
    r"[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{6})?Z"
).fullmatch
"""A time as servers write it, on a day that every month has."""
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_rfc3339(text: str) -> float:
    """Parse a time with any offset and fraction. Raises TimeError with Go's wording."""
    return _parsed(text, _SECONDS_LAYOUT)


def parse_rfc3339_micro(text: str) -> float:
    """Parse a ``MicroTime``, which must have six digits of fraction. Raises TimeError."""
    return _parsed(text, _MICRO_LAYOUT)


def is_rfc3339(text: str) -> bool:
    """Whether `parse_rfc3339` can parse it."""
    return _on_any_month(text) is not None or _is_time(text, _SECONDS_LAYOUT)


def is_rfc3339_micro(text: str) -> bool:
    """Whether `parse_rfc3339_micro` can parse it."""
    return _is_time(text, _MICRO_LAYOUT)


def _is_time(text: str, layout: str) -> bool:
    usual = _on_any_month(text)
    if usual is not None and (usual[1] or layout is _SECONDS_LAYOUT):
        return True
    try:
        _parsed(text, layout)
    except TimeError:
        return False
    return True


def _parsed(text: str, layout: str) -> float:
    usual = _as_servers_write(text)
    if usual is not None and (usual[1] or layout is _SECONDS_LAYOUT):
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            pass  # a day that isn't: the other way finds the words
    return _parse(text, layout)


def _parse(text: str, layout: str) -> float:
    numbers: dict[str, int] = {}
    out_of_range = ""
    position = 0
    for element in _DATE_AND_TIME:
        match = element.pattern.match(text, position)
        if match is None:
            raise _cannot(text, layout, position, element.layout)
        position = match.end()
        if element.name:
            numbers[element.name] = number = int(match[0])
            if not element.low <= number <= element.high:
                raise TimeError(f"parsing time {quote(text)}: {element.name} out of range")
    fraction = (_micro_fraction if layout is _MICRO_LAYOUT else _any_fraction)(text, position)
    if fraction is not None:
        position = fraction.end()
    elif layout is _MICRO_LAYOUT:
        raise _cannot(text, layout, position, ".000000")
    zone = _zone(text, position)
    if zone is None:
        raise _cannot(text, layout, position, "Z07:00")
    if zone.end() < len(text):
        raise TimeError(f"parsing time {quote(text)}: extra text: {quote(text[zone.end() :])}")
    offset = 0
    if zone[1]:
        hours, minutes = int(zone[2]), int(zone[3])
        if hours > 24 or minutes > 60:
            out_of_range = "time zone offset hour" if hours > 24 else "time zone offset minute"
        offset = (hours * 3600 + minutes * 60) * (-1 if zone[1] == "-" else 1)
    year, month, day = numbers["year"], numbers["month"], numbers["day"]
    if day > _DAYS[month - 1] + (month == 2 and _is_leap(year)):
        out_of_range = out_of_range or "day"
    if out_of_range:
        raise TimeError(f"parsing time {quote(text)}: {out_of_range} out of range")
    seconds = numbers["hour"] * 3600 + numbers["minute"] * 60 + numbers["second"] - offset
    whole = _days_since_epoch(year, month, day) * 86400 + seconds
    return whole + (float(f"0.{fraction[1]}") if fraction is not None else 0.0)


def _cannot(text: str, layout: str, position: int, element: str) -> TimeError:
    rest = quote(text[position:])
    return TimeError(f"parsing time {quote(text)} as {quote(layout)}: cannot parse {rest} as {quote(element)}")


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days_since_epoch(year: int, month: int, day: int) -> int:
    # `datetime` has no year 0, which RFC 3339 and Go have: the days are computed here, in years that begin in March.
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


# Durations ----------------------------------------------------------------------------------------

DURATION_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
}
"""The units of Go\'s durations, in nanoseconds."""

_step = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)", re.DOTALL).match
_MAX_NANOSECONDS = 2**63 - 1


def parse_go_duration(text: str) -> float:
    """Parse ``1h2m0.5s``, ``-300ms``, ``0``: seconds. Raises TimeError with Go's wording."""
    negative = text.startswith("-")
    position = 1 if text[:1] in ("-", "+") and text else 0
    if text[position:] == "0":
        return 0.0
    if position == len(text) or len(text) > 1000:
        raise TimeError(f"time: invalid duration {quote(text)}")
    total = 0
    while position < len(text):
        match = _step(text, position)
        assert match is not None  # every part of the pattern may be empty
        whole, fraction, unit = match[1], match[2] or "", match[3]
        if not whole and fraction in ("", "."):
            raise TimeError(f"time: invalid duration {quote(text)}")
        if not unit:
            raise TimeError(f"time: missing unit in duration {quote(text)}")
        scale = DURATION_UNITS.get(unit)
        if scale is None:
            raise TimeError(f"time: unknown unit {quote(unit)} in duration {quote(text)}")
        total += int(whole or "0") * scale
        digits = fraction[1:]
        if digits:
            total += int(digits) * scale // 10 ** len(digits)
        if total > _MAX_NANOSECONDS + negative:
            raise TimeError(f"time: invalid duration {quote(text)}")
        position = match.end()
    return (-total if negative else total) / 1e9


def go_duration(seconds: float) -> str:
    """A duration as Go writes it, to microseconds: ``1m2.5s``, ``512.3ms``; not negative."""
    micros = round(seconds * 1_000_000)
    if micros < 1_000_000:
        return f"{micros / 1000:.3f}".rstrip("0").rstrip(".") + "ms" if micros >= 1000 else f"{micros}µs"
    whole, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(whole, 60)
    text = f"{rest / 1_000_000:.6f}".rstrip("0").rstrip(".") + "s"
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if whole else "") + text


def _invalid_or_zero(seconds: float) -> str | None:
    # Clock skew between machines: up to two seconds in the future count as now.
    if seconds <= -2:
        return "<invalid>"
    return "0s" if seconds <= -1 else None


def human_duration(seconds: float) -> str:
    """An age with at most two units, as kubectl's AGE column: ``5m30s``, ``3d4h``, ``2y40d``."""
    early = _invalid_or_zero(seconds)
    if early is not None:
        return early
    total = int(seconds)
    if total < 120:
        return f"{total}s"
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if minutes < 10:
        return _pair(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
