"""The numbers of controllers, in plain fields that cost well under a microsecond a key.

Names and labels, which `exposition` prints, are those of client-go's work queue and of controller-runtime, so that
dashboards for them fit. Must not know: how they are printed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from oarlock.controllers.own_metrics import MetricFamily, summed_families
from oarlock.meta.dataclass import dataclass

__all__ = ["BOUNDS_S", "ControllerNumbers", "Durations", "QueueMetrics", "ended_numbers", "summed_numbers"]

BOUNDS_S = tuple(10.0**exponent for exponent in range(-8, 4))
"""Upper bounds of the histograms' buckets, in seconds; one more bucket has the rest. client-go's."""


@dataclass(slots=True)
class Durations:
    """A histogram of durations and their sum, in seconds."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def copy(self) -> Durations:
        return Durations(self.buckets.copy(), self.sum_s)


@dataclass(slots=True)
class QueueMetrics:
    """What a work queue counts. `refused` are keys for which there was no room."""

    adds: int = 0
    retries: int = 0
    refused: int = 0
    waited: Durations = field(default_factory=Durations)
    worked: Durations = field(default_factory=Durations)

    def copy(self) -> QueueMetrics:
        return QueueMetrics(self.adds, self.retries, self.refused, self.waited.copy(), self.worked.copy())


@dataclass(frozen=True, slots=True)
class ControllerNumbers:
    """A copy of the numbers of one controller.

    `results` counts reconciles by ``success``, ``requeue_after`` and ``error``. `leading` is None without an election.
    `families` are what it counts itself.
    """

    name: str
    concurrency: int
    active: int
    results: dict[str, int]
    terminal_errors: int
    timeouts: int
    depth: int
    unfinished_s: float
    longest_s: float
    queue: QueueMetrics
    leading: bool | None = None
    families: tuple[MetricFamily, ...] = ()


def ended_numbers(numbers: Sequence[ControllerNumbers]) -> tuple[ControllerNumbers, ...]:
    """What was counted by controllers that have ended, without what was measured."""
    return tuple(
        replace(
            one,
            active=0,
            depth=0,
            unfinished_s=0.0,
            longest_s=0.0,
            concurrency=0,
            leading=None if one.leading is None else False,
            families=tuple(family for family in one.families if family.kind == "counter"),
        )
        for one in numbers
    )


def summed_numbers(every: Iterable[ControllerNumbers]) -> tuple[ControllerNumbers, ...]:
    """The numbers of several processes by controller. It leads if it does in one of them."""
    total: dict[str, ControllerNumbers] = {}
    for one in every:
        total[one.name] = _sum(total[one.name], one) if one.name in total else one
    return tuple(total.values())


def _sum(one: ControllerNumbers, other: ControllerNumbers) -> ControllerNumbers:
    queues = one.queue, other.queue
    leads = [each.leading for each in (one, other) if each.leading is not None]
    return ControllerNumbers(
        name=one.name,
        concurrency=one.concurrency + other.concurrency,
        active=one.active + other.active,
        results=dict(Counter(one.results) + Counter(other.results)),
        terminal_errors=one.terminal_errors + other.terminal_errors,
        timeouts=one.timeouts + other.timeouts,
        depth=one.depth + other.depth,
        unfinished_s=one.unfinished_s + other.unfinished_s,
        longest_s=max(one.longest_s, other.longest_s),
        queue=QueueMetrics(
            adds=sum(each.adds for each in queues),
            retries=sum(each.retries for each in queues),
            refused=sum(each.refused for each in queues),
            waited=_sum_of_durations(*(each.waited for each in queues)),
            worked=_sum_of_durations(*(each.worked for each in queues)),
        ),
        leading=any(leads) if leads else None,
        families=summed_families((*one.families, *other.families)),
    )


def _sum_of_durations(one: Durations, other: Durations) -> Durations:
    pairs = zip(one.buckets, other.buckets, strict=True)
    return Durations([a + b for a, b in pairs], one.sum_s + other.sum_s)
