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
            controller,
            active=0,
            depth=0,
            unfinished_s=0.0,
            longest_s=0.0,
            concurrency=0,
            leading=None if controller.leading is None else False,
            families=tuple(family for family in controller.families if family.kind == "counter"),
        )
        for controller in numbers
    )


def summed_numbers(every: Iterable[ControllerNumbers]) -> tuple[ControllerNumbers, ...]:
    """The numbers of several processes by controller. It leads if it does in one of them."""
    total: dict[str, ControllerNumbers] = {}
    for numbers in every:
        total[numbers.name] = _sum(total[numbers.name], numbers) if numbers.name in total else numbers
    return tuple(total.values())


def _sum(left: ControllerNumbers, right: ControllerNumbers) -> ControllerNumbers:
    queues = left.queue, right.queue
    leads = [controller.leading for controller in (left, right) if controller.leading is not None]
    return ControllerNumbers(
        name=left.name,
        concurrency=left.concurrency + right.concurrency,
        active=left.active + right.active,
        results=dict(Counter(left.results) + Counter(right.results)),
        terminal_errors=left.terminal_errors + right.terminal_errors,
        timeouts=left.timeouts + right.timeouts,
        depth=left.depth + right.depth,
        unfinished_s=left.unfinished_s + right.unfinished_s,
        longest_s=max(left.longest_s, right.longest_s),
        queue=QueueMetrics(
            adds=sum(queue.adds for queue in queues),
            retries=sum(queue.retries for queue in queues),
            refused=sum(queue.refused for queue in queues),
            waited=_sum_of_durations(*(queue.waited for queue in queues)),
            worked=_sum_of_durations(*(queue.worked for queue in queues)),
        ),
        leading=any(leads) if leads else None,
        families=summed_families((*left.families, *right.families)),
    )


def _sum_of_durations(left: Durations, right: Durations) -> Durations:
    pairs = zip(left.buckets, right.buckets, strict=True)
    return Durations([a + b for a, b in pairs], left.sum_s + right.sum_s)
