"""``/metrics`` and ``/metrics/slis``: numbers are copied on the event loop and printed in a thread.

`exposition`, and prometheus_client, are imported by the first request, in that thread: it would be a tenth of the
server's start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from oarlock.endpoints.http import Response, Unsent
from oarlock.meta.metrics import Collector, MetricFamily
from oarlock.server.metrics.processes import WorkerProcess
from oarlock.server.pages.health import Health, Probe

Verdicts = dict[tuple[str, Probe], tuple[bool, int, int]]
"""By name and probe of a health check that has run: the last result, how often it passed, how often it failed."""


class RequestLimit(Protocol):
    """What knows how many requests are in progress."""

    @property
    def read_only(self) -> int: ...

    @property
    def mutating(self) -> int: ...


def in_flight_families(limit: RequestLimit) -> Iterator[MetricFamily]:
    """Requests in progress."""
    counts = {("readOnly",): limit.read_only, ("mutating",): limit.mutating}
    name = "apiserver_current_inflight_requests"
    yield MetricFamily(name, "Requests in progress.", counts, ("request_kind",), across="sum")


def unsent_families(unsent: Unsent) -> Iterator[MetricFamily]:
    """Bytes that wait for clients, and clients that were cut."""
    about = "Bytes kept for clients that haven't read them."
    yield MetricFamily("oarlock_unsent_bytes", about, {(): unsent.size}, across="sum")
    name, about = "oarlock_slow_readers_cut_total", "Answers and connections cut: too little was read."
    yield MetricFamily(name, about, {(reason,): count for reason, count in unsent.cut.items()}, ("reason",), "counter")


def watch_event_families(counts: Mapping[tuple[str, str, str], int]) -> Iterator[MetricFamily]:
    """Events that were sent, `counts` by group, version and resource."""
    name, labels = "apiserver_watch_events_total", ("group", "version", "resource")
    yield MetricFamily(name, "Events sent to watches.", dict(counts), labels, "counter")


def object_families(counts: Mapping[tuple[str, str], int]) -> Iterator[MetricFamily]:
    """Stored objects, `counts` by group and resource. Every process knows them all."""
    about = "Stored objects, known by the watch cache."
    named = {(f"{plural}.{group}" if group else plural,): count for (group, plural), count in counts.items()}
    yield MetricFamily("apiserver_storage_objects", about, named, ("resource",), across="own")
    yield MetricFamily("apiserver_resource_objects", about, dict(counts), ("group", "resource"), across="own")


def verdict_families(verdicts: Verdicts) -> Iterator[MetricFamily]:
    """The health checks as service level indicators."""
    last = {(name, probe): float(passed) for (name, probe), (passed, _, _) in verdicts.items()}
    about = "1 when the check last went well."
    yield MetricFamily("kubernetes_healthcheck", about, last, ("name", "type"))
    counts: dict[tuple[str, ...], float] = {}
    for (name, probe), (_, succeeded, failed) in verdicts.items():
        counts[name, "success", probe] = succeeded
        counts[name, "error", probe] = failed
    about = "How often the check was made."
    yield MetricFamily("kubernetes_healthchecks_total", about, counts, ("name", "status", "type"), "counter")


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class WorkersMetrics(Protocol):
    """The numbers of all processes of a server that has several."""

    def attach(self, families: Callable[[], tuple[MetricFamily, ...]], verdicts: Callable[[], Verdicts]) -> None:
        """Where the numbers of this process come from. Called once, in its event loop."""
        ...

    async def numbers(self) -> bytes:
        """The text of ``/metrics``."""
        ...

    async def verdicts(self) -> bytes:
        """The text of ``/metrics/slis``."""
        ...


class MetricsPage:
    """Answers `paths` with what `collectors` tell, in their order. With `workers`, for all processes."""

    paths = ("/metrics", "/metrics/slis")

    def __init__(self, collectors: Sequence[Collector], health: Health, workers: WorkersMetrics | None = None) -> None:
        self._collectors = collectors
        self._health = health
        self._workers = workers
        if workers is not None:
            workers.attach(self.families, self._verdicts)

    async def respond(self, path: str) -> Response | None:
        """The answer, or None for a path that isn't in `paths`."""
        if path not in self.paths:
            return None
        body = await (self._page(path) if self._workers is None else self._page_of_all(path, self._workers))
        return Response(200, [("content-type", CONTENT_TYPE)], body)

    async def _page(self, path: str) -> bytes:
        loop = asyncio.get_running_loop()
        if path == "/metrics":
            return await loop.run_in_executor(None, write_metrics, self.families())
        return await loop.run_in_executor(None, write_verdicts, self._verdicts())

    async def _page_of_all(self, path: str, workers: WorkersMetrics) -> bytes:
        return await (workers.numbers() if path == "/metrics" else workers.verdicts())

    def families(self) -> tuple[MetricFamily, ...]:
        """What is on the page of this process."""
        return tuple(family for collect in self._collectors for family in collect())

    def _verdicts(self) -> Verdicts:
        results = self._health.results.items()
        return {
            check: (result.last, result.succeeded, result.failed)
            for check, result in results
            if result.last is not None
        }


def write_metrics(families: Sequence[MetricFamily], workers: Sequence[WorkerProcess] = ()) -> bytes:
    """The text of ``/metrics``, for a server of one process or of `workers`. To be called in a thread."""
    from oarlock.server.metrics import exposition  # noqa: PLC0415 (imported by the first request)

    return exposition.metrics_page(families, workers)


def write_verdicts(verdicts: Verdicts) -> bytes:
    """The text of ``/metrics/slis``. To be called in a thread."""
    from oarlock.server.metrics import exposition  # noqa: PLC0415 (imported by the first request)

    return exposition.metrics_text(verdict_families(verdicts))
