"""`SeriesNumbers`: numbers by series, which processes can give one another and sum.

A series is the name of a metric, then the values of its labels. See also: `exposition`, which prints them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from oarlock.meta.dataclass import dataclass

__all__ = ["Buckets", "Series", "SeriesNumbers"]

Series = tuple[str, ...]
Buckets = tuple[list[int], float]
"""The counts of a histogram's buckets, and the sum of what was counted."""


@dataclass(frozen=True, slots=True)
class SeriesNumbers:
    """A copy of all counters, gauges and histograms."""

    counters: dict[Series, int] = field(default_factory=dict)
    gauges: dict[Series, float] = field(default_factory=dict)
    histograms: dict[Series, Buckets] = field(default_factory=dict)

    def counted(self) -> SeriesNumbers:
        """Without what was measured."""
        return SeriesNumbers(self.counters, {}, self.histograms)

    @classmethod
    def total(cls, every: Iterable[SeriesNumbers]) -> SeriesNumbers:
        """The sum of all, series by series."""
        total = cls()
        for numbers in every:
            for series, count in numbers.counters.items():
                total.counters[series] = total.counters.get(series, 0) + count
            for series, value in numbers.gauges.items():
                total.gauges[series] = total.gauges.get(series, 0.0) + value
            for series, (buckets, amount) in numbers.histograms.items():
                before, sum_before = total.histograms.get(series, ([0] * len(buckets), 0.0))
                pairs = zip(before, buckets, strict=True)
                total.histograms[series] = [a + b for a, b in pairs], sum_before + amount
        return total
