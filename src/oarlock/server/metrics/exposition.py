"""Metrics in the Prometheus text format, under Kubernetes' names.

Runs in a thread, so that a page of thousands of series blocks nobody.
Must not know: how anything is counted. Source: the Prometheus exposition format 0.0.4; k8s.io/apiserver
``endpoints/metrics``; KEP-3466 for health checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from oarlock.controllers.exposition import write_numbers
from oarlock.server.admission.families import admission_families
from oarlock.server.audit.counts import AuditCounts
from oarlock.server.authentication.families import authentication_families
from oarlock.server.authorization.families import access_families
from oarlock.server.fairness.families import fairness_families
from oarlock.server.metrics.counts import BOUNDS_S, Histogram, Numbers, Verdicts, WorkerProcess
from oarlock.server.metrics.reload_counts import ReloadCounts

__all__ = ["write"]

REQUEST_LABELS = ["verb", "group", "version", "resource", "subresource", "scope"]
STORE_LABELS = ["operation", "group", "resource"]
_BOUNDS = [str(bound) for bound in BOUNDS_S] + ["+Inf"]


def write(page: Numbers | Verdicts, workers: Sequence[WorkerProcess] = ()) -> bytes:
    """The text of a page; `Numbers` include those of the process, or of each of `workers`."""
    if not isinstance(page, Numbers):
        return _text(_Checks(page))
    processes = _text(_Processes(workers)) if workers else generate_latest(_process())
    return _text(_MetricsCollector(page)) + (write_numbers(page.controllers) if page.controllers else b"") + processes


def _text(collector: Collector) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


@lru_cache(maxsize=1)
def _process() -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry


class _MetricsCollector(Collector):
    """All metrics, as families of samples."""

    def __init__(self, page: Numbers) -> None:
        self._page = page

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._unsent()
        yield from self._watches()
        yield from self._stored()
        if self._page.encryption is not None:
            yield from _reloads(self._page.encryption, "encryption")
        yield from authentication_families(self._page.authentication)
        if self._page.authentication.reloads is not None:
            yield from _reloads(self._page.authentication.reloads, "authentication")
        if self._page.audit is not None:
            yield from _audit(self._page.audit)
        if self._page.fairness is not None:
            yield from fairness_families(self._page.fairness)
        if self._page.access is not None:
            yield from access_families(self._page.access)
        if self._page.admission is not None:
            yield from admission_families(self._page.admission)

    def _requests(self) -> Iterator[Metric]:
        total = CounterMetricFamily(
            "apiserver_request_total",
            "Requests by verb, dry run, group, version, resource, scope and response code.",
            labels=[*REQUEST_LABELS, "dry_run", "component", "code"],
        )
        for labels, codes in self._page.requests.codes.items():
            for code, count in codes.items():
                total.add_metric([*labels, "apiserver", str(code)], count)
        yield total
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Response latency in seconds, watches left out.",
            labels=[*REQUEST_LABELS, "dry_run", "component"],
        )
        for labels, histogram in self._page.requests.durations.items():
            if labels[0] != "WATCH":
                durations.add_metric([*labels, "apiserver"], _cumulative(histogram), histogram.sum_s)
        yield durations
        in_flight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests in progress.", labels=["request_kind"]
        )
        for kind, count in self._page.in_flight.items():
            in_flight.add_metric([kind], count)
        yield in_flight

    def _unsent(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "oarlock_unsent_bytes", "Bytes kept for clients that haven't read them.", self._page.unsent_bytes
        )
        cut = CounterMetricFamily(
            "oarlock_slow_readers_cut_total",
            "Answers and connections cut: too little was read.",
            labels=["reason"],
        )
        for reason, count in self._page.readers_cut.items():
            cut.add_metric([reason], count)
        yield cut

    def _watches(self) -> Iterator[Metric]:
        running = GaugeMetricFamily(
            "apiserver_longrunning_requests",
            "Watches and other answers that go on.",
            labels=[*REQUEST_LABELS, "component"],
        )
        for labels, count in self._page.requests.open_watches.items():
            running.add_metric([*labels[:6], "apiserver"], count)
        yield running
        events = CounterMetricFamily(
            "apiserver_watch_events_total", "Events sent to watches.", labels=["group", "version", "resource"]
        )
        for about, count in self._page.watch_events.items():
            events.add_metric(list(about), count)
        yield events

    def _stored(self) -> Iterator[Metric]:
        durations = HistogramMetricFamily(
            "etcd_request_duration_seconds", "How long the store took, in seconds.", labels=STORE_LABELS
        )
        calls = CounterMetricFamily("etcd_requests_total", "Calls of the store.", labels=STORE_LABELS)
        for labels, histogram in self._page.store.items():
            durations.add_metric(list(labels), _cumulative(histogram), histogram.sum_s)
            calls.add_metric(list(labels), sum(histogram.buckets))
        yield durations
        yield calls
        failures = CounterMetricFamily(
            "etcd_request_errors_total", "Calls of the store that failed.", labels=STORE_LABELS
        )
        for labels, count in self._page.store_failed.items():
            failures.add_metric(list(labels), count)
        yield failures
        objects = GaugeMetricFamily(
            "apiserver_storage_objects", "Stored objects, known by the watch cache.", labels=["resource"]
        )
        by_group = GaugeMetricFamily(
            "apiserver_resource_objects", "Stored objects, known by the watch cache.", labels=["group", "resource"]
        )
        for (group, resource), count in self._page.objects.items():
            objects.add_metric([f"{resource}.{group}" if group else resource], count)
            by_group.add_metric([group, resource], count)
        yield objects
        yield by_group


class _Processes(Collector):
    """What is known of each process, under the names of prometheus_client, with a label that says which."""

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
        yield from self._collections()
        restarts = CounterMetricFamily(
            "oarlock_worker_restarts_total", "How often the process of a worker was replaced.", labels=["worker"]
        )
        for worker in self._workers:
            if worker.collections:
                restarts.add_metric([worker.name], worker.restarts)
        yield restarts

    def _collections(self) -> Iterator[Metric]:
        for name, key, about in (
            ("python_gc_objects_collected", "collected", "Objects collected during gc"),
            ("python_gc_objects_uncollectable", "uncollectable", "Uncollectable objects found during GC"),
            ("python_gc_collections", "collections", "Number of times this generation was collected"),
        ):
            family = CounterMetricFamily(name, about, labels=["generation", "worker"])
            for worker in self._workers:
                for generation, numbers in enumerate(worker.collections):
                    family.add_metric([str(generation), worker.name], numbers[key])
            yield family


def _reloads(counts: ReloadCounts, subject: str) -> Iterator[Metric]:
    prefix, about = f"apiserver_{subject}_config_controller", f"reloads of the {subject} configuration"
    total = CounterMetricFamily(f"{prefix}_automatic_reloads_total", f"Automatic {about}.", labels=["status"])
    last = GaugeMetricFamily(
        f"{prefix}_automatic_reload_last_timestamp_seconds", f"When the last of the {about} was.", labels=["status"]
    )
    outcomes = {"success": (counts.succeeded, counts.succeeded_at), "failure": (counts.failed, counts.failed_at)}
    for status, (count, at) in outcomes.items():
        total.add_metric([status], count)
        if at:
            last.add_metric([status], at)
    info = GaugeMetricFamily(f"{prefix}_last_config_info", "The configuration in force.", labels=["hash"])
    info.add_metric([counts.digest], 1)
    yield from (total, last, info)
    if subject == "encryption":
        yield GaugeMetricFamily(
            "oarlock_encryption_objects_without_key",
            "Stored objects whose key the encryption configuration in force doesn't have, when it was last read.",
            counts.without_key,
        )


def _audit(counts: AuditCounts) -> Iterator[Metric]:
    prefix = "apiserver_audit"
    yield CounterMetricFamily(f"{prefix}_event_total", "Audit events given to the sinks.", counts.events)
    levels = CounterMetricFamily(f"{prefix}_level_total", "Requests by the policy's level.", labels=["level"])
    for level, count in counts.levels.items():
        levels.add_metric([level], count)
    errors = CounterMetricFamily(f"{prefix}_error_total", "Audit events that were lost.", labels=["plugin"])
    for plugin, count in counts.errors.items():
        errors.add_metric([plugin], count)
    yield from (levels, errors)
    yield CounterMetricFamily(
        f"{prefix}_requests_rejected_total", "Requests refused because they couldn't be recorded.", counts.rejected
    )


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    below = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip(_BOUNDS, histogram.buckets, strict=True):
        below += count
        buckets.append((bound, below))
    return buckets


class _Checks(Collector):
    """The health checks as service level indicators (KEP-3466)."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts

    def collect(self) -> Iterator[Metric]:
        now = GaugeMetricFamily("kubernetes_healthcheck", "1 when the check last went well.", labels=["name", "type"])
        total = CounterMetricFamily(
            "kubernetes_healthchecks_total", "How often the check was made.", labels=["name", "status", "type"]
        )
        for (name, probe), (last, succeeded, failed) in self._verdicts.items():
            now.add_metric([name, probe], last)
            total.add_metric([name, "success", probe], succeeded)
            total.add_metric([name, "error", probe], failed)
        yield now
        yield total
