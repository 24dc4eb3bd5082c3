"""`AdmissionTimes`: a histogram of seconds. See also: `counts`, `policy_counts`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["MOST_NAMES", "OTHER", "AdmissionTimes"]

MOST_NAMES = 1000
"""How many names are counted: they come from objects of the API."""
OTHER = "other"
"""Stands for a name when `MOST_NAMES` others have been counted."""


class AdmissionTimes:
    """A histogram of seconds, with a bucket for each bound and one for the rest."""

    __slots__ = ("_bounds_s", "buckets", "sum_s")

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self._bounds_s = bounds_s
        self.buckets = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(self._bounds_s, seconds)] += 1
        self.sum_s += seconds
