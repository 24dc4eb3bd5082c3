"""The numbers of controllers, in plain fields that cost well under a microsecond a key.

Names and labels are those of client-go's work queue and of controller-runtime, so that dashboards for them fit. Must
not know: how they are printed. Source: client-go ``util/workqueue/metrics.go``, ``tools/leaderelection/metrics.go``;
controller-runtime ``pkg/internal/controller/metrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from oarlock.meta.dataclass import dataclass
from oarlock.meta.metrics import Across, Histogram, MetricFamily, histogram_of, summed_families

BOUNDS_S = tuple(10.0**exponent for exponent in range(-8, 4))
"""Upper bounds of the histograms' buckets, in seconds; one more bucket has the rest. client-go's."""


def _durations() -> Histogram:
    return Histogram(BOUNDS_S)


@dataclass(slots=True)
class QueueMetrics:
    """What a work queue counts. `refused` are keys for which there was no room."""

    adds: int = 0
    retries: int = 0
    refused: int = 0
    waited: Histogram = field(default_factory=_durations)
    worked: Histogram = field(default_factory=_durations)


@dataclass(frozen=True, slots=True)
class ControllerNumbers:
    """The counters of one controller at one moment.

    `results` counts reconciles by ``success``, ``requeue_after`` and ``error``. `leading` is None without an election.
    `families` are the controller's own metrics.
    """

    name: str
    concurrency: int
    active: int
    results: dict[str, int]
    terminal_errors: int
    timeouts: int
    depth: int
    unfinished_s: float
    longest_s: float
    queue: QueueMetrics
    leading: bool | None = None
    families: tuple[MetricFamily, ...] = ()


def controller_families(every: Sequence[ControllerNumbers]) -> tuple[MetricFamily, ...]:
    """Their metrics; the numbers of controllers of one name are added."""
    return summed_families(_families(every)) if every else ()


def _families(every: Sequence[ControllerNumbers]) -> Iterator[MetricFamily]:
    for name, about, measure, across in _QUEUE_GAUGES:
        for controller in every:
            yield MetricFamily(name, about, {(controller.name,): measure(controller)}, ("name",), across=across)
    for name, about, count in _QUEUE_COUNTERS:
        for controller in every:
            yield MetricFamily(name, about, {(controller.name,): count(controller)}, ("name",), "counter")
    for name, about, times in _QUEUE_TIMES:
        for controller in every:
            yield histogram_of(name, about, ("name",), {(controller.name,): times(controller)}, BOUNDS_S)
    for controller in every:
        results = {(controller.name, result): controller.results.get(result, 0) for result in _RESULTS}
        name, about = "controller_runtime_reconcile_total", "Reconciles by their result."
        yield MetricFamily(name, about, results, ("controller", "result"), "counter")
    for name, about, count in _COUNTERS:
        for controller in every:
            yield MetricFamily(name, about, {(controller.name,): count(controller)}, ("controller",), "counter")
    for name, about, count in _GAUGES:
        for controller in every:
            yield MetricFamily(name, about, {(controller.name,): count(controller)}, ("controller",), across="sum")
    name, about = "leader_election_master_status", "1 while this process leads."
    for controller in every:
        if controller.leading is not None:
            yield MetricFamily(name, about, {(controller.name,): int(controller.leading)}, ("name",), across="most")
    for controller in every:
        yield from controller.families


_RESULTS = ("success", "requeue_after", "error")
_Count = Callable[[ControllerNumbers], int]

_QUEUE_GAUGES: tuple[tuple[str, str, Callable[[ControllerNumbers], float], Across], ...] = (
    ("workqueue_depth", "Keys that wait for a worker.", lambda n: n.depth, "sum"),
    ("workqueue_unfinished_work_seconds", "How long keys in progress take.", lambda n: n.unfinished_s, "sum"),
    ("workqueue_longest_running_processor_seconds", "How long the slowest has.", lambda n: n.longest_s, "most"),
)
_QUEUE_COUNTERS: tuple[tuple[str, str, _Count], ...] = (
    ("workqueue_adds_total", "Keys added.", lambda n: n.queue.adds),
    ("workqueue_retries_total", "Keys added after a failure.", lambda n: n.queue.retries),
    ("oarlock_workqueue_refused_total", "Keys without room.", lambda n: n.queue.refused),
)
_QUEUE_TIMES: tuple[tuple[str, str, Callable[[ControllerNumbers], Histogram]], ...] = (
    ("workqueue_queue_duration_seconds", "How long keys waited, in seconds.", lambda n: n.queue.waited),
    ("workqueue_work_duration_seconds", "How long reconciles took, in seconds.", lambda n: n.queue.worked),
)
_RUNTIME = "controller_runtime"
_COUNTERS: tuple[tuple[str, str, _Count], ...] = (
    (f"{_RUNTIME}_reconcile_errors_total", "Reconciles that failed.", lambda n: n.results.get("error", 0)),
    (f"{_RUNTIME}_terminal_reconcile_errors_total", "Reconciles that failed for good.", lambda n: n.terminal_errors),
    (f"{_RUNTIME}_reconcile_timeouts_total", "Reconciles cancelled at their timeout.", lambda n: n.timeouts),
)
_GAUGES: tuple[tuple[str, str, _Count], ...] = (
    (f"{_RUNTIME}_max_concurrent_reconciles", "How many there may be at a time.", lambda n: n.concurrency),
    (f"{_RUNTIME}_active_workers", "How many there are now.", lambda n: n.active),
)
