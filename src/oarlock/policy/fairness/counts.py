"""What is counted of the requests of a flow schema on its priority level, for metrics.

See also: `metrics`, which has them by name.
"""

from __future__ import annotations

from oarlock.meta.metrics import Buckets, Histogram

WAIT_BOUNDS_S = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
SEAT_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0)
LENGTH_BOUNDS = (0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)


class Refusal:
    """Why a request was refused, in Kubernetes' words."""

    NO_SEATS = "concurrency-limit"
    QUEUE_FULL = "queue-full"
    TIME_OUT = "time-out"
    CANCELLED = "cancelled"


class FlowCounts:
    """The counts of one schema on one level.

    A request that begins at once on one seat only adds to `at_once`: what it adds to the histograms follows from that,
    and `waited`, `seats` and `lengths` do without it.
    """

    __slots__ = ("at_once", "dispatched", "executed", "given_up", "lengths", "refused", "seats", "waited", "watched")

    def __init__(self) -> None:
        self.at_once = 0
        self.dispatched = 0
        self.refused: dict[str, int] = {}
        self.waited = Histogram(WAIT_BOUNDS_S)
        self.given_up = Histogram(WAIT_BOUNDS_S)
        self.executed = Histogram(WAIT_BOUNDS_S)
        self.watched = Histogram(WAIT_BOUNDS_S)
        self.seats = Histogram(SEAT_BOUNDS)
        self.lengths = Histogram(LENGTH_BOUNDS)

    def refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def histograms(self) -> dict[tuple[str, ...], Buckets]:
        """Copies of those that aren't empty, by metric and further label, with what follows from `at_once`."""
        found = {
            ("request_wait_duration_seconds", "true"): self.waited.numbers(0.0, self.at_once),
            ("request_wait_duration_seconds", "false"): self.given_up.numbers(),
            ("request_execution_seconds", "regular"): self.executed.numbers(),
            ("request_execution_seconds", "watch"): self.watched.numbers(),
            ("work_estimated_seats",): self.seats.numbers(1.0, self.at_once),
            ("request_queue_length_after_enqueue",): self.lengths.numbers(1.0, self.at_once),
        }
        return {series: numbers for series, numbers in found.items() if any(numbers[0])}
