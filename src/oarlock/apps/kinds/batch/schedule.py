"""When a CronJob runs: whether its schedule and its time zone can be read.

Source: github.com/robfig/cron ``ParseStandard``, whose words Kubernetes repeats.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from typing import Final

from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.go.gotext import quote

__all__ = ["check_schedule", "check_time_zone"]

_FIELDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES: Final[tuple[dict[str, int], ...]] = (
    {},
    {},
    {},
    {name: number for number, name in enumerate(_MONTHS, 1)},
    {name: number for number, name in enumerate(_DAYS)},
)
_DESCRIPTORS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_PART: Final = r"(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION: Final = re.compile(f"[-+]?{_PART}({_PART})*")
_ZONE_PART: Final = re.compile(r"[A-Za-z\d_+\-]{1,14}|\.{1,2}", re.ASCII)
_LONGEST: Final = 512


class _Unreadable(Exception):
    """The text can't be read; it says why."""


def check_schedule(text: str, path: str) -> Iterator[FieldError]:
    """The errors in a schedule. It can't name a time zone; that is a field of its own."""
    try:
        _parse(text)
    except _Unreadable as problem:
        yield Invalid(path, text, str(problem))
    if "TZ" in text:
        yield Invalid(path, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")


def _parse(text: str) -> None:
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, _, text = text.partition(" ")
        name = zone.partition("=")[2]
        if not _is_zone(name):
            raise _Unreadable(f"provided bad location {name}: unknown time zone {name}")
        text = text.strip()
    if text.startswith("@"):
        _parse_descriptor(text)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise _Unreadable(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, (least, most), names in zip(fields, _FIELDS, _NAMES, strict=True):
        for part in field.split(","):
            if part:
                _parse_range(part, least, most, names)


def _parse_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith("@every "):
        raise _Unreadable(f"unrecognized descriptor: {text}")
    duration = text[len("@every ") :]
    if not _DURATION.fullmatch(duration) and duration not in ("0", "+0", "-0"):
        why = "missing unit in duration" if re.fullmatch(r"[-+]?\d+(\.\d*)?", duration) else "invalid duration"
        raise _Unreadable(f"failed to parse duration {text}: time: {why} {quote(duration)}")


def _parse_range(text: str, least: int, most: int, names: dict[str, int]) -> None:
    """One number, range, or ``*``, each with a step or without."""
    span, *steps = text.split("/")
    low, *highs = span.split("-")
    if low in ("*", "?"):
        start, end = least, most
    else:
        start = _number(low, names)
        if len(highs) > 1:
            raise _Unreadable(f"too many hyphens: {text}")
        end = _number(highs[0], names) if highs else start
    if len(steps) > 1:
        raise _Unreadable(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not highs:
        end = most
    if start < least:
        raise _Unreadable(f"beginning of range ({start}) below minimum ({least}): {text}")
    if end > most:
        raise _Unreadable(f"end of range ({end}) above maximum ({most}): {text}")
    if start > end:
        raise _Unreadable(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if not step:
        raise _Unreadable(f"step of range should be a positive number: {text}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[-+]?\d+", text, re.ASCII):
        raise _Unreadable(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if len(text) > 18:
        raise _Unreadable(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: value out of range")
    number = int(text)
    if number < 0:
        raise _Unreadable(f"negative number ({number}) not allowed: {text}")
    return number


def check_time_zone(name: str, path: str) -> Iterator[FieldError]:
    """The errors in the name of a time zone."""
    if not name:
        yield Invalid(path, name, "timeZone must be nil or non-empty string")
        return
    parts = name.split("/")
    for part in parts if len(name) <= _LONGEST else ("",):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            yield Invalid(path, name, f"unknown time zone {name}")
            return
    if name.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield Invalid(path, name, why)
    if name != "Local" and not _is_zone(name):
        yield Invalid(path, name, f"unknown time zone {name}")


def _is_zone(name: str) -> bool:
    if name in ("", "UTC", "Local"):
        return True
    if len(name) > _LONGEST or not all(_ZONE_PART.fullmatch(part) for part in name.split("/")):
        return False
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True
