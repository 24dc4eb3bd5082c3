"""The text of ``/metrics``. Runs in a thread, so that a page of thousands of series blocks nobody.

Must not know: how anything is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from oarlock.codec.prometheus_text import collected_text, metrics_text
from oarlock.meta.metrics import MetricFamily
from oarlock.server.metrics.processes import WorkerProcess, process_families

__all__ = ["metrics_page", "metrics_text"]


def metrics_page(families: Sequence[MetricFamily], workers: Sequence[WorkerProcess]) -> bytes:
    """The text of `families`, and of what is known of the process, or of each of `workers`."""
    if not workers:
        return metrics_text(families) + generate_latest(_process())
    return metrics_text(families) + collected_text(_Processes(workers)) + metrics_text(process_families(workers))


@lru_cache(maxsize=1)
def _process() -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry


class _Processes(Collector):
    """What the system tells of each process, under the names of prometheus_client, with a label that says which."""

    def __init__(self, workers: Sequence[WorkerProcess]) -> None:
        self._workers = workers

    def collect(self) -> Iterator[Metric]:
        yield from PlatformCollector(registry=None).collect()
        families: dict[str, Metric] = {}
        for worker in self._workers:
            for family in ProcessCollector(pid=partial(int, worker.pid), registry=None).collect():
                labelled = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    labelled.add_sample(sample.name, {**sample.labels, "worker": worker.name}, sample.value)
        yield from families.values()
