"""The ``/metrics`` pages: the numbers of `metrics` in the Prometheus text format, written in a thread of its own.

The loop only copies the numbers; families, samples and text are made in the executor, where a page of thousands
of series delays nobody. Must not know: how anything is counted. Source: the Prometheus exposition format 0.0.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from oarlock.endpoints.http import Response
from oarlock.server.filters.max_in_flight import MaxInFlight
from oarlock.server.health import Health, Probe, Tally
from oarlock.server.metrics import BOUNDS_S, Histogram, RequestMetrics, RequestSnapshot, StoreMetrics

__all__ = ["MetricsPage", "Sources"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_LABELS = ["verb", "group", "version", "resource", "subresource", "scope"]
STORE_LABELS = ["operation", "group", "resource"]
_BOUNDS = [str(bound) for bound in BOUNDS_S] + ["+Inf"]

ByResource = dict[tuple[str, str], int]
ByGroupVersion = dict[tuple[str, str, str], int]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the numbers come from. `objects` counts stored objects by (group, resource), `watch_events` the
    events sent by (group, version, resource)."""

    requests: RequestMetrics
    store: StoreMetrics
    in_flight: MaxInFlight
    objects: Callable[[], ByResource]
    watch_events: Callable[[], ByGroupVersion]


class _Page(Collector):
    """The numbers at one moment, as families of samples."""

    def __init__(self, sources: Sources) -> None:
        self.requests: RequestSnapshot = sources.requests.snapshot()
        self.store, self.store_failed = sources.store.snapshot()
        self.in_flight = {"readOnly": sources.in_flight.read_only, "mutating": sources.in_flight.mutating}
        self.objects = dict(sources.objects())
        self.watch_events = dict(sources.watch_events())

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._watches()
        yield from self._stored()

    def _requests(self) -> Iterator[Metric]:
        total = CounterMetricFamily(
            "apiserver_request_total",
            "Requests by verb, dry run, group, version, resource, scope and response code.",
            labels=[*REQUEST_LABELS, "dry_run", "component", "code"],
        )
        for labels, codes in self.requests.codes.items():
            for code, count in codes.items():
                total.add_metric([*labels, "apiserver", str(code)], count)
        yield total
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Response latency in seconds, watches left out.",
            labels=[*REQUEST_LABELS, "dry_run", "component"],
        )
        for labels, histogram in self.requests.durations.items():
            if labels[0] != "WATCH":
                durations.add_metric([*labels, "apiserver"], _cumulative(histogram), histogram.sum_s)
        yield durations
        in_flight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests in progress.", labels=["request_kind"]
        )
        for kind, count in self.in_flight.items():
            in_flight.add_metric([kind], count)
        yield in_flight

    def _watches(self) -> Iterator[Metric]:
        running = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Watches that are open.", labels=[*REQUEST_LABELS, "component"]
        )
        for labels, count in self.requests.open_watches.items():
            running.add_metric([*labels[:6], "apiserver"], count)
        yield running
        events = CounterMetricFamily(
            "apiserver_watch_events_total", "Events sent to watches.", labels=["group", "version", "resource"]
        )
        for about, count in self.watch_events.items():
            events.add_metric(list(about), count)
        yield events

    def _stored(self) -> Iterator[Metric]:
        took = HistogramMetricFamily(
            "etcd_request_duration_seconds", "How long the store took, in seconds.", labels=STORE_LABELS
        )
        asked = CounterMetricFamily("etcd_requests_total", "Calls of the store.", labels=STORE_LABELS)
        for labels, histogram in self.store.items():
            took.add_metric(list(labels), _cumulative(histogram), histogram.sum_s)
            asked.add_metric(list(labels), sum(histogram.buckets))
        yield took
        yield asked
        failed = CounterMetricFamily(
            "etcd_request_errors_total", "Calls of the store that failed.", labels=STORE_LABELS
        )
        for labels, count in self.store_failed.items():
            failed.add_metric(list(labels), count)
        yield failed
        objects = GaugeMetricFamily(
            "apiserver_storage_objects", "Stored objects, known by the watch cache.", labels=["resource"]
        )
        known = GaugeMetricFamily(
            "apiserver_resource_objects", "Stored objects, known by the watch cache.", labels=["group", "resource"]
        )
        for (group, resource), count in self.objects.items():
            objects.add_metric([f"{resource}.{group}" if group else resource], count)
            known.add_metric([group, resource], count)
        yield objects
        yield known


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    below = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip(_BOUNDS, histogram.buckets, strict=True):
        below += count
        buckets.append((bound, below))
    return buckets


class _Checks(Collector):
    """The health checks as service level indicators (KEP-3466)."""

    def __init__(self, tallies: Mapping[tuple[str, Probe], Tally]) -> None:
        self._tallies = {labels: (one.last, one.succeeded, one.failed) for labels, one in tallies.items()}

    def collect(self) -> Iterator[Metric]:
        now = GaugeMetricFamily("kubernetes_healthcheck", "1 when the check last went well.", labels=["name", "type"])
        total = CounterMetricFamily(
            "kubernetes_healthchecks_total", "How often the check was made.", labels=["name", "status", "type"]
        )
        for (name, probe), (last, succeeded, failed) in self._tallies.items():
            if last is not None:
                now.add_metric([name, probe], last)
                total.add_metric([name, "success", probe], succeeded)
                total.add_metric([name, "error", probe], failed)
        yield now
        yield total


class MetricsPage:
    """Answers ``/metrics`` and ``/metrics/slis``."""

    paths = ("/metrics", "/metrics/slis")

    def __init__(self, sources: Sources, health: Health) -> None:
        self._sources = sources
        self._health = health
        process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=process)
        PlatformCollector(registry=process)
        GCCollector(registry=process)
        self._process = process

    async def respond(self, path: str) -> Response | None:
        """The answer, or None for a path that is none of `paths`."""
        if path == "/metrics":
            page: Collector = _Page(self._sources)
            more = [self._process]
        elif path == "/metrics/slis":
            page = _Checks(self._health.tallies)
            more = []
        else:
            return None
        body = await asyncio.get_running_loop().run_in_executor(None, _write, page, more)
        return Response(200, [("content-type", CONTENT_TYPE)], body)


def _write(page: Collector, more: list[CollectorRegistry]) -> bytes:
    counted = CollectorRegistry(auto_describe=False)
    counted.register(page)
    return b"".join(generate_latest(registry) for registry in (counted, *more))
