"""Metrics in the Prometheus text format 0.0.4. May be called in a thread; loaded by the first page, for its library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import generate_latest
from prometheus_client.core import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from oarlock.meta.metrics import MetricFamily


def metrics_text(families: Iterable[MetricFamily]) -> bytes:
    """The text of `families`, in their order."""
    return collected_text(_Families(families))


def collected_text(*collectors: Collector) -> bytes:
    """The text of what prometheus_client's own collectors tell."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, families: Iterable[MetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            yield _metric(family)


def _metric(family: MetricFamily) -> Metric:
    name = family.name.removesuffix("_total") if family.kind == "counter" else family.name
    metric = Metric(name, family.about, "unknown" if family.kind == "untyped" else family.kind)
    bounds = (*family.bounds, "+Inf")
    for values, number in family.samples.items():
        labels = dict(zip(family.labels, values, strict=True))
        if not isinstance(number, tuple):
            metric.add_sample(family.name, labels, number)
            continue
        buckets, amount = number
        below = 0
        for bound, count in zip(bounds, buckets, strict=True):
            below += count
            metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, below)
        metric.add_sample(f"{name}_count", labels, below)
        metric.add_sample(f"{name}_sum", labels, amount)
    return metric
