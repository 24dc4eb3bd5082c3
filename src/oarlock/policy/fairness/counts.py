"""What is counted of the requests of a flow schema on its priority level, for metrics.

See also: ``server.fairness_metrics``, which prints it.
"""

from __future__ import annotations

from oarlock.meta.samples import Samples

__all__ = ["LENGTH_BOUNDS", "SEAT_BOUNDS", "WAIT_BOUNDS_S", "FlowCounts", "Refusal"]

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
    and `waited`, `seats` and `lengths` do without it until they are copied.
    """

    __slots__ = ("at_once", "dispatched", "executed", "given_up", "lengths", "refused", "seats", "waited", "watched")

    def __init__(self) -> None:
        self.at_once = 0
        self.dispatched = 0
        self.refused: dict[str, int] = {}
        self.waited = Samples(WAIT_BOUNDS_S)
        self.given_up = Samples(WAIT_BOUNDS_S)
        self.executed = Samples(WAIT_BOUNDS_S)
        self.watched = Samples(WAIT_BOUNDS_S)
        self.seats = Samples(SEAT_BOUNDS)
        self.lengths = Samples(LENGTH_BOUNDS)

    def refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def copy(self) -> FlowCounts:
        """These counts, with what follows from `at_once`."""
        copied = FlowCounts()
        copied.dispatched = self.dispatched + self.at_once
        copied.refused = dict(self.refused)
        for name in ("waited", "given_up", "executed", "watched", "seats", "lengths"):
            setattr(copied, name, getattr(self, name).copy())
        if self.at_once:
            copied.waited.add_many(0.0, self.at_once)
            copied.seats.add_many(1.0, self.at_once)
            copied.lengths.add_many(1.0, self.at_once)
        return copied
