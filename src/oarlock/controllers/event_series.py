"""`EventCorrelator`: many events of one kind become one event with a count, and who tells too many is not heard.

Its sizes and times are client-go's: an object is told about 25 times at once, then once in five minutes; more than ten
different notes of a kind within ten minutes become one note. Source: client-go ``tools/record``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import field, replace
from typing import Any, Generic, TypeVar

from oarlock.controllers.running.work_queue import RetryBucket
from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass

__all__ = ["MAX_NOTE_BYTES", "EventCorrelator", "EventFacts", "RepeatedEvent"]

V = TypeVar("V")

MAX_REMEMBERED = 4_096
"""How many objects, kinds of events and series are remembered."""

BURST = 25
REFILL_S = 300.0
SIMILAR = 10
SIMILAR_S = 600.0
SERIES_S = 360.0
"""After so long without another of its kind, an event begins a new series."""

MAX_NOTE_BYTES = 1_024
"""How long a note may be."""

COMBINED = "(combined from similar events): "


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What happened, to what. `regarding` and `related` are references to objects, as trees."""

    type: str
    reason: str
    action: str
    note: str
    controller: str
    regarding: dict[str, Any]
    related: dict[str, Any] | None = None

    def about(self) -> Hashable:
        """Which object it is about, as seen by which controller."""
        regarding = self.regarding
        return (
            self.controller,
            regarding.get("kind"),
            regarding.get("namespace"),
            regarding.get("name"),
            regarding.get("uid"),
        )

    def similar(self) -> Hashable:
        """What is the same for events that differ in their notes only."""
        return (self.about(), self.type, self.reason, self.action)


@dataclass(slots=True)
class RepeatedEvent:
    """Events that are reported as one. `name` is that of the event on the server, empty until there is one."""

    facts: EventFacts
    first_epoch_s: float
    last_epoch_s: float
    last_s: float
    count: int = 1
    name: str = ""


@dataclass(slots=True)
class _Notes:
    """The notes of similar events, and when the first of them came."""

    since_s: float
    notes: set[str] = field(default_factory=set)


class _Recent(Generic[V]):
    """The values that were used last, a bounded number of them."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Hashable, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > MAX_REMEMBERED:
            self._values.popitem(last=False)


class EventCorrelator:
    """Remembers what was told."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: _Recent[RetryBucket] = _Recent()
        self._notes: _Recent[_Notes] = _Recent()
        self._series: _Recent[RepeatedEvent] = _Recent()

    def admit(self, facts: EventFacts) -> bool:
        """Whether it may be told: not too many of one object."""
        about = facts.about()
        bucket = self._buckets.get(about)
        if bucket is None:
            bucket = RetryBucket(self._clock, per_s=1 / REFILL_S, burst=BURST)
            self._buckets.put(about, bucket)
        return bucket.take()

    def correlate(self, facts: EventFacts) -> RepeatedEvent:
        """The series that it belongs to, counted in it; one with a count of 1 is new."""
        now, epoch = self._clock.monotonic(), self._clock.now()
        note = facts.note
        if self._differ_too_much(facts, now):
            note = COMBINED
            combined = (COMBINED + facts.note).encode()[:MAX_NOTE_BYTES].decode(errors="ignore")
            facts = replace(facts, note=combined)
        key = (facts.similar(), note)
        series = self._series.get(key)
        if series is None or now - series.last_s > SERIES_S:
            series = RepeatedEvent(facts, epoch, epoch, now)
            self._series.put(key, series)
            return series
        series.count += 1
        series.last_s, series.last_epoch_s, series.facts = now, epoch, facts
        return series

    def _differ_too_much(self, facts: EventFacts, now: float) -> bool:
        """Whether there were too many different notes of its kind, so that all others are told as one."""
        similar = facts.similar()
        notes = self._notes.get(similar)
        if notes is None or now - notes.since_s > SIMILAR_S:
            notes = _Notes(now)
            self._notes.put(similar, notes)
        if facts.note in notes.notes:
            return False
        if len(notes.notes) >= SIMILAR:
            return True
        notes.notes.add(facts.note)
        return False
