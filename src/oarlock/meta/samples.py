"""`Samples`: a histogram, as Prometheus has them. Must not know: what is measured, how it is shown."""

from __future__ import annotations

from bisect import bisect_left

__all__ = ["Samples"]


class Samples:
    """A histogram with the upper `bounds` of its buckets; one more bucket has the rest."""

    __slots__ = ("bounds", "buckets", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add_many(self, value: float, count: int) -> None:
        """Add `value` so many times."""
        self.buckets[bisect_left(self.bounds, value)] += count
        self.sum += value * count

    def copy(self) -> Samples:
        copied = Samples(self.bounds)
        copied.buckets, copied.sum = self.buckets.copy(), self.sum
        return copied
