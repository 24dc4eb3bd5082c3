"""The numbers of controllers, in plain fields that cost well under a microsecond a key.

Names and labels, which `exposition` prints, are those of client-go's work queue and of controller-runtime, so that
dashboards for them fit. Must not know: how they are printed.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

__all__ = ["BOUNDS_S", "ControllerNumbers", "Durations", "QueueMetrics"]

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
