"""`Demand`: how many seats a priority level could have used, over time."""

from __future__ import annotations

import math

from oarlock.meta.dataclass import dataclass

KEPT = 0.977
"""The part of the smoothed demand that outlasts a period: half of it is left after five minutes."""


@dataclass(frozen=True, slots=True)
class DemandFigures:
    """The demand of a period, in seats. `smoothed` rises at once and falls slowly."""

    most: int = 0
    average: float = 0.0
    deviation: float = 0.0
    smoothed: float = 0.0


class Demand:
    """Integrates a number of seats over time. `seats` is its present value; `most` its highest in this period.

    `integral` and `squares` are those of the seats and of their squares over the `elapsed_s` of this period; whoever
    changes `seats` adds to them before, with every request.
    """

    __slots__ = ("elapsed_s", "figures", "integral", "most", "seats", "squares")

    def __init__(self) -> None:
        self.seats = 0
        self.most = 0
        self.figures = DemandFigures()
        """Of the last period."""
        self.elapsed_s = 0.0
        self.integral = 0.0
        self.squares = 0.0

    def end_period(self) -> None:
        """Make the figures of the period that ends, and begin the next."""
        figures = self.figures
        if self.elapsed_s > 0:
            average = self.integral / self.elapsed_s
            deviation = math.sqrt(max(0.0, self.squares / self.elapsed_s - average * average))
            envelope = average + deviation
            smoothed = max(envelope, KEPT * figures.smoothed + (1 - KEPT) * envelope)
            figures = DemandFigures(self.most, average, deviation, smoothed)
        else:
            figures = DemandFigures(self.most, figures.average, figures.deviation, figures.smoothed)
        self.figures = figures
        self.most = self.seats
        self.elapsed_s = self.integral = self.squares = 0.0
