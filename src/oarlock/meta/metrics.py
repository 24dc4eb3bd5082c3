"""Metrics as Prometheus has them: `Histogram` counts, `MetricFamily` is what is shown of one metric at a moment.

Code that is called often counts in plain fields and in histograms, for a fraction of a microsecond. When ``/metrics``
is asked for, a collector makes families of them: copies, which a thread can print and processes can send one another.
Must not know: what is measured. Source: the Prometheus data model. See also: ``codec.prometheus_text``, which prints.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from oarlock.meta.dataclass import dataclass

Buckets = tuple[list[int], float]
"""The counts of a histogram's buckets, and the sum of what was measured."""

MetricValue = float | Buckets

Across = Literal["running", "sum", "most", "latest", "own"]
"""What a gauge of several processes is.

- ``running``: the sum; what an ended process had is gone.
- ``sum``, ``most``: the sum, the largest; 0 for a process that has ended.
- ``latest``: the largest, also of processes that have ended.
- ``own``: that of the process that is asked.
"""

_is_name = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*").fullmatch


class Histogram:
    """A histogram with the upper `bounds` of its buckets; one more bucket has the rest."""

    __slots__ = ("bounds", "buckets", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0

    @property
    def count(self) -> int:
        """How many values were added."""
        return sum(self.buckets)

    def add(self, value: float) -> None:
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def numbers(self, value: float = 0.0, count: int = 0) -> Buckets:
        """A copy, as if `value` had been added `count` times more."""
        buckets = self.buckets.copy()
        buckets[bisect_left(self.bounds, value)] += count
        return buckets, self.sum + value * count


def histograms(bounds: tuple[float, ...]) -> defaultdict[Any, Histogram]:
    """Histograms by the values of their labels, each made when it is first used."""
    return defaultdict(partial(Histogram, bounds))


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric with `labels`. `samples` has a number for each tuple of label values.

    - `kind`: a ``counter`` only grows, and its name ends with ``_total``; ``untyped`` is a counter with another name.
      Others are a ``gauge`` or a ``histogram``, whose buckets have the upper `bounds`, as they are printed.
    - `across`: how the numbers of several processes are combined. Only gauges use it; others are added. Raises
      ValueError for what Prometheus couldn't read.
    """

    name: str
    about: str
    samples: Mapping[Any, MetricValue]
    labels: tuple[str, ...] = ()
    kind: Literal["counter", "gauge", "histogram", "untyped"] = "gauge"
    bounds: tuple[str, ...] = ()
    across: Across = "running"

    def __post_init__(self) -> None:
        wrong = [name for name in (self.name, *self.labels) if not _is_name(name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no name of a metric or label: letters, digits and _, no digit first")
        if (self.kind == "counter") != self.name.endswith("_total"):
            raise ValueError(f"{self.name}: the names of counters end with _total, and those of gauges don't")
        for values in self.samples:
            if len(values) != len(self.labels):
                raise ValueError(f"{self.name}: {values} has {len(values)} values for {len(self.labels)} labels")


Collector = Callable[[], Iterable[MetricFamily]]
"""Makes families of what one part of a process has counted. Called in the event loop, when metrics are asked for."""


def histogram_of(
    name: str,
    about: str,
    labels: tuple[str, ...],
    series: Mapping[Any, Histogram | Buckets],
    bounds: tuple[float, ...] | tuple[str, ...],
) -> MetricFamily:
    """A histogram by the values of `labels`; `bounds` are printed as short as they can be unless they are texts."""
    samples = {values: times.numbers() if isinstance(times, Histogram) else times for values, times in series.items()}
    printed = tuple(bound if isinstance(bound, str) else f"{bound:g}" for bound in bounds)
    return MetricFamily(name, about, samples, labels, "histogram", printed)


def summed_families(every: Iterable[MetricFamily]) -> tuple[MetricFamily, ...]:
    """The families, with those of one name summed. One whose labels or kind differ from the first is left out."""
    total: dict[str, MetricFamily] = {}
    for family in every:
        first = total.get(family.name)
        if first is None:
            total[family.name] = family
            continue
        if (first.labels, first.kind) != (family.labels, family.kind) or first.across == "own":
            continue
        add = _largest if first.kind == "gauge" and first.across in ("most", "latest") else _sum
        samples = dict(first.samples)
        for values, number in family.samples.items():
            samples[values] = add(samples[values], number) if values in samples else number
        total[family.name] = replace(first, samples=samples)
    return tuple(total.values())


def ended_families(every: Iterable[MetricFamily]) -> tuple[MetricFamily, ...]:
    """What a process that has ended leaves: what it counted, without what it measured."""
    left: list[MetricFamily] = []
    for family in every:
        if family.kind != "gauge" or family.across == "latest":
            left.append(family)
        elif family.across in ("sum", "most"):
            left.append(replace(family, samples=dict.fromkeys(family.samples, 0)))
    return tuple(left)


def _sum(left: MetricValue, right: MetricValue) -> MetricValue:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return [a + b for a, b in zip(left[0], right[0], strict=True)], left[1] + right[1]
    assert not isinstance(left, tuple)
    assert not isinstance(right, tuple)
    return left + right


def _largest(left: Any, right: Any) -> MetricValue:
    largest: MetricValue = max(left, right)
    return largest
