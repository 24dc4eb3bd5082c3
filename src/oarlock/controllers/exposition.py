"""The numbers of controllers as text for Prometheus, under the names of client-go and controller-runtime.

Must not know: how anything is counted. Source: client-go ``util/workqueue/metrics.go``, controller-runtime
``pkg/internal/controller/metrics``, client-go ``tools/leaderelection/metrics.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from oarlock.controllers.metrics import BOUNDS_S, ControllerNumbers, Durations
from oarlock.controllers.own_metrics import MetricFamily, summed_families

__all__ = ["write_numbers"]

_BOUNDS = [f"{bound:g}" for bound in BOUNDS_S] + ["+Inf"]


def write_numbers(numbers: Sequence[ControllerNumbers]) -> bytes:
    """The text of ``/metrics``, as far as it is of controllers. May be called in a thread."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ControllersCollector(numbers))
    return generate_latest(registry)


class _ControllersCollector(Collector):
    def __init__(self, numbers: Sequence[ControllerNumbers]) -> None:
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        yield from self._queues()
        yield from self._reconciles()
        led = [numbers for numbers in self._numbers if numbers.leading is not None]
        if led:
            status = GaugeMetricFamily("leader_election_master_status", "1 while this process leads.", labels=["name"])
            for numbers in led:
                status.add_metric([numbers.name], 1 if numbers.leading else 0)
            yield status
        for family in summed_families(family for numbers in self._numbers for family in numbers.families):
            yield _own(family)

    def _queues(self) -> Iterator[Metric]:
        numbers = self._numbers
        for name, about, values in (
            ("depth", "Keys that wait for a worker.", [controller.depth for controller in numbers]),
            (
                "unfinished_work_seconds",
                "How long keys in progress take.",
                [o.unfinished_s for o in numbers],
            ),
            ("longest_running_processor_seconds", "How long the slowest has.", [o.longest_s for o in numbers]),
        ):
            gauge = GaugeMetricFamily(f"workqueue_{name}", about, labels=["name"])
            for controller, value in zip(numbers, values, strict=True):
                gauge.add_metric([controller.name], value)
            yield gauge
        for name, about, values in (
            ("workqueue_adds_total", "Keys added.", [controller.queue.adds for controller in numbers]),
            (
                "workqueue_retries_total",
                "Keys added after a failure.",
                [controller.queue.retries for controller in numbers],
            ),
            (
                "oarlock_workqueue_refused_total",
                "Keys without room.",
                [controller.queue.refused for controller in numbers],
            ),
        ):
            yield self._counter(name, about, "name", values)
        for name, about, durations in (
            (
                "queue_duration",
                "How long keys waited, in seconds.",
                [controller.queue.waited for controller in numbers],
            ),
            (
                "work_duration",
                "How long reconciles took, in seconds.",
                [controller.queue.worked for controller in numbers],
            ),
        ):
            histogram = HistogramMetricFamily(f"workqueue_{name}_seconds", about, labels=["name"])
            for controller, duration in zip(numbers, durations, strict=True):
                histogram.add_metric([controller.name], _cumulative(duration), duration.sum_s)
            yield histogram

    def _reconciles(self) -> Iterator[Metric]:
        numbers, prefix = self._numbers, "controller_runtime"
        total = CounterMetricFamily(
            f"{prefix}_reconcile_total", "Reconciles by their result.", labels=["controller", "result"]
        )
        for controller in numbers:
            for result in ("success", "requeue_after", "error"):
                total.add_metric([controller.name, result], controller.results.get(result, 0))
        yield total
        errors = [controller.results.get("error", 0) for controller in numbers]
        yield self._counter(f"{prefix}_reconcile_errors_total", "Reconciles that failed.", "controller", errors)
        terminal = [controller.terminal_errors for controller in numbers]
        about = "Reconciles that failed for good."
        yield self._counter(f"{prefix}_terminal_reconcile_errors_total", about, "controller", terminal)
        timeouts = [controller.timeouts for controller in numbers]
        about = "Reconciles cancelled at their timeout."
        yield self._counter(f"{prefix}_reconcile_timeouts_total", about, "controller", timeouts)
        for name, about, values in (
            (
                "max_concurrent_reconciles",
                "How many there may be at a time.",
                [controller.concurrency for controller in numbers],
            ),
            ("active_workers", "How many there are now.", [controller.active for controller in numbers]),
        ):
            gauge = GaugeMetricFamily(f"{prefix}_{name}", about, labels=["controller"])
            for controller, value in zip(numbers, values, strict=True):
                gauge.add_metric([controller.name], value)
            yield gauge

    def _counter(self, name: str, about: str, label: str, values: Sequence[int]) -> Metric:
        counter = CounterMetricFamily(name, about, labels=[label])
        for controller, value in zip(self._numbers, values, strict=True):
            counter.add_metric([controller.name], value)
        return counter


def _own(family: MetricFamily) -> Metric:
    made = (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(
        family.name, family.about, labels=family.labels
    )
    for values, number in family.samples.items():
        made.add_metric(values, number)
    return made


def _cumulative(durations: Durations) -> list[tuple[str, float]]:
    below = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip(_BOUNDS, durations.buckets, strict=True):
        below += count
        buckets.append((bound, below))
    return buckets
