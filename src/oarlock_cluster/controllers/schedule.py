"""`Schedule`: when a CronJob is due: five fields, ``@hourly`` and the like, ``@every``, in a time zone.

Source: github.com/robfig/cron v3, in behaviour. What can't be read was refused by the server.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

__all__ = ["Schedule", "most_recent"]

_MONTHS = {name.lower(): at for at, name in enumerate(calendar.month_abbr) if name}
_DAYS = {name.lower(): (at + 1) % 7 for at, name in enumerate(calendar.day_abbr)}
_FIELDS: Sequence[tuple[int, int, dict[str, int]]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
MANY = 100
LONGEST_YEARS = 5


@dataclass(frozen=True)
class Schedule:
    """Times by minute, hour, day, month and weekday; or a fixed distance, `every_s`."""

    fields: tuple[frozenset[int], ...] = ()
    either_day: bool = False
    """Whether a day that fits one of both fields for days is enough."""
    zone: tzinfo = UTC
    every_s: float = 0.0

    @classmethod
    def of(cls, text: str, zone: str = "") -> Schedule:
        """Raises ValueError or KeyError if it can't be read."""
        where: tzinfo = ZoneInfo(zone) if zone else UTC
        if text.startswith(("TZ=", "CRON_TZ=")):
            name, _, text = text.partition(" ")
            where = ZoneInfo(name.partition("=")[2])
        text = text.strip()
        if text.startswith("@every "):
            parts = re.findall(r"([\d.]+)(h|ms|us|µs|ns|m|s)", text)
            return cls(every_s=max(1.0, float(int(sum(float(value) * _UNITS[unit] for value, unit in parts)))))
        words = _WORDS.get(text, text).split()
        fields = tuple(_field(word, *kind) for word, kind in zip(words, _FIELDS, strict=True))
        either = not any(word[0] in "*?" for word in (words[2], words[4]))
        return cls(fields, either, where)

    def next(self, after: float) -> float | None:
        """The first time after one, in seconds since the epoch; None if there is none for years."""
        if self.every_s:
            return int(after) + self.every_s
        at = datetime.fromtimestamp(int(after) // 60 * 60 + 60, self.zone)
        last = at.year + LONGEST_YEARS
        minutes, hours, _, months, _ = self.fields
        while at.year <= last:
            if at.month not in months:
                at = self._midnight(at.replace(day=1, hour=0, minute=0) + timedelta(days=32), day=1)
            elif not self._on_day(at):
                at = self._midnight(at + timedelta(days=1))
            elif at.hour not in hours:
                at = self._later(at, 3600 - at.minute * 60)
            elif at.minute not in minutes:
                at = self._later(at, 60)
            else:
                return at.timestamp()
        return None

    def _on_day(self, at: datetime) -> bool:
        by_day, by_weekday = at.day in self.fields[2], at.isoweekday() % 7 in self.fields[4]
        return by_day or by_weekday if self.either_day else by_day and by_weekday

    def _midnight(self, at: datetime, day: int = 0) -> datetime:
        return datetime(at.year, at.month, day or at.day, tzinfo=self.zone)

    def _later(self, at: datetime, seconds: float) -> datetime:
        return datetime.fromtimestamp(at.timestamp() + seconds, self.zone)


def _field(text: str, least: int, most: int, names: dict[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for part in text.lower().split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if first in ("*", "?"):
            begin, end = least, most
        else:
            begin = names.get(first) if first in names else int(first)  # type: ignore[assignment]
            end = begin if not step else most
            if last:
                end = names[last] if last in names else int(last)
        found.update(range(begin, end + 1, int(step or 1)))
    return frozenset(found)


def most_recent(schedule: Schedule, earliest: float, now: float) -> tuple[float | None, bool]:
    """The last time that is due, and whether too many before it were missed."""
    first = schedule.next(earliest)
    if first is None or first > now:
        return None, False
    second = schedule.next(first)
    if second is None or second > now:
        return first, False
    between = max(1, round(second - first))
    missed = int((now - first) // between) + 1
    at: float | None = schedule.next(first + max(0, missed - 2) * between)
    recent = first
    while at is not None and at <= now:
        recent, at = at, schedule.next(at)
    return recent, missed > MANY
