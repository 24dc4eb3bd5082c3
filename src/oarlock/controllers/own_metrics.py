"""`MetricFamily`: a metric that a controller counts itself. Must not know: how it is printed.

Source: the Prometheus data model. See also: `metrics`, what is counted of every controller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from oarlock.meta.dataclass import dataclass

__all__ = ["MetricFamily", "summed_families"]

_is_name = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*").fullmatch


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric by `labels`: `samples` have a number for each tuple of their values.

    A ``counter`` only grows, and its name ends with ``_total``; anything else is a ``gauge``. Of several processes the
    numbers are added. Raises ValueError for what Prometheus wouldn't read.
    """

    name: str
    about: str
    samples: Mapping[Any, float]
    labels: tuple[str, ...] = ()
    kind: Literal["counter", "gauge"] = "gauge"

    def __post_init__(self) -> None:
        wrong = [name for name in (self.name, *self.labels) if not _is_name(name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no name of a metric or label: letters, digits and _, no digit first")
        if (self.kind == "counter") != self.name.endswith("_total"):
            raise ValueError(f"{self.name}: the names of counters end with _total, and those of gauges don't")
        for values in self.samples:
            if len(values) != len(self.labels):
                raise ValueError(f"{self.name}: {values} has {len(values)} values for {len(self.labels)} labels")


def summed_families(every: Iterable[MetricFamily]) -> tuple[MetricFamily, ...]:
    """Those of one name as one. With other labels or of another kind than the first, one is left out."""
    total: dict[str, MetricFamily] = {}
    for metrics in every:
        first = total.setdefault(metrics.name, metrics)
        if first is not metrics and (first.labels, first.kind) == (metrics.labels, metrics.kind):
            samples = dict(first.samples)
            for values, number in metrics.samples.items():
                samples[values] = samples.get(values, 0) + number
            total[metrics.name] = MetricFamily(metrics.name, first.about, samples, metrics.labels, metrics.kind)
    return tuple(total.values())
