"""Request, watch and store metrics, in plain lists and dicts that cost about a microsecond per request.

Counting happens on the event loop; `families` copies the numbers, so that they can be printed in a thread. Label values
come from the catalog or a fixed list, never from a client, so the number of series is bounded. Names and labels are
Kubernetes'. Source: k8s.io/apiserver ``endpoints/metrics``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Iterator
from typing import TypeVar

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState, RouteKind
from oarlock.meta.context import Clock, Target
from oarlock.meta.metrics import Histogram, MetricFamily, histogram_of, histograms
from oarlock.storage.backend import KEEP_TTL, KV, Backend, Page, Rev, WriteResult
from oarlock.storage.forwarding import ForwardingBackend

BOUNDS_S = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5),
    *(2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
"""Upper bounds of the histograms' buckets, in seconds; one more bucket has the rest."""

_SHORT_S = BOUNDS_S[0]
_PRINTED_BOUNDS = tuple(map(str, BOUNDS_S))

RequestLabels = tuple[str, str, str, str, str, str, str]
"""verb, group, version, resource, subresource, scope, dry_run."""

_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "dry_run", "component")
_STORE_LABELS = ("operation", "group", "resource")

_UNKNOWN_NAMES = (RouteKind.PATH, RouteKind.FORWARDED)
"""Here the names of groups and resources may be whatever a client spells."""

_VERBS = {"create": "POST", "update": "PUT"} | {
    verb: verb.upper()
    for verb in ("get", "list", "watch", "patch", "delete", "deletecollection", "post", "put", "head", "options")
}


class _Series:
    """The requests with one set of labels. `open` counts answers that are still open; None if there never was one."""

    __slots__ = ("codes", "durations", "open")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.durations = Histogram(BOUNDS_S)
        self.open: int | None = None

    def sent(self, status: int, seconds: float) -> None:
        """See `RequestSeries`."""
        codes, durations = self.codes, self.durations
        codes[status] = codes.get(status, 0) + 1
        if seconds <= _SHORT_S:  # nearly always
            durations.buckets[0] += 1
            durations.sum += seconds
        else:
            durations.add(seconds)

    def began(self, status: int) -> None:
        """Count it at the beginning: a watch may last for an hour."""
        self.codes[status] = self.codes.get(status, 0) + 1
        self.open = (self.open or 0) + 1

    def ended(self, whole: bool) -> None:
        self.open = (self.open or 0) - 1


class RequestMetrics:
    """Counts requests. `own_paths` are the non-resource paths with series of their own."""

    def __init__(self, own_paths: frozenset[str] = frozenset()) -> None:
        self._own_paths = own_paths
        self._series: dict[RequestLabels, _Series] = {}

    def observe(self, state: RequestState, response: Response) -> None:
        """Count a request when its answer, which begins now, has been sent or cut (``state.sent``)."""
        route = state.route
        series: _Series | None = None if route is None else route.series
        if series is None:
            series = self._series_of(state)
            if route is not None:
                route.series = series
        if response.stream is None:
            state.series, state.status = series, response.status
        else:
            series.began(response.status)
            response.on_sent(series.ended)

    def _series_of(self, state: RequestState) -> _Series:
        target, route = state.target, state.route
        dry_run = "All" if state.request.query and "dryRun=" in state.request.query else ""
        verb = _VERBS.get(target.verb, "other")
        if route is not None and route.kind not in _UNKNOWN_NAMES:
            name = target.subresource
            if route.kind is RouteKind.CONNECTION:
                verb = "CONNECT"
            labels = (verb, target.group, target.version, target.resource, name, _scope(target), dry_run)
        else:
            path = state.request.path
            labels = (verb, "", "", "", path if path in self._own_paths else "", "", "")
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Series()
        return series

    def families(self) -> Iterator[MetricFamily]:
        """Requests and how long they took, as metrics."""
        codes = {
            (*labels, "apiserver", str(code)): count
            for labels, series in self._series.items()
            for code, count in series.codes.items()
        }
        about = "Requests by verb, dry run, group, version, resource, scope and response code."
        yield MetricFamily("apiserver_request_total", about, codes, (*_LABELS, "code"), "counter")
        times = {
            (*labels, "apiserver"): series.durations for labels, series in self._series.items() if labels[0] != "WATCH"
        }
        name, about = "apiserver_request_duration_seconds", "Response latency in seconds, watches left out."
        yield histogram_of(name, about, _LABELS, times, _PRINTED_BOUNDS)

    def open_families(self) -> Iterator[MetricFamily]:
        """Answers that are still open, as a metric."""
        found: dict[tuple[str, ...], float] = {}
        for (*labels, _), series in self._series.items():
            if series.open is not None:
                shown = (*labels, "apiserver")
                found[shown] = found.get(shown, 0) + series.open
        name, about = "apiserver_longrunning_requests", "Watches and other answers that go on."
        yield MetricFamily(name, about, found, (*_LABELS[:6], "component"), across="sum")


def _scope(target: Target) -> str:
    if target.name or target.verb == "create":
        return "resource"
    return "namespace" if target.namespace else "cluster"


class StoreMetrics:
    """Durations of store calls by (operation, group, resource), and the number of failures."""

    def __init__(self) -> None:
        self._durations: defaultdict[tuple[str, str, str], Histogram] = histograms(BOUNDS_S)
        self._failed: dict[tuple[str, str, str], int] = {}

    def add(self, operation: str, key: str, seconds: float, *, failed: bool = False) -> None:
        """`key` is the key or range of the call: ``/registry/{group}/{resource}/…``."""
        parts = key.split("/", 4)
        labels = (operation, parts[2], parts[3]) if len(parts) > 3 and parts[1] == "registry" else (operation, "", "")
        self._durations[labels].add(seconds)
        if failed:
            self._failed[labels] = self._failed.get(labels, 0) + 1

    def families(self) -> Iterator[MetricFamily]:
        """What has been counted, as metrics."""
        about, name = "How long the store took, in seconds.", "etcd_request_duration_seconds"
        yield histogram_of(name, about, _STORE_LABELS, self._durations, _PRINTED_BOUNDS)
        calls = {labels: times.count for labels, times in self._durations.items()}
        yield MetricFamily("etcd_requests_total", "Calls of the store.", calls, _STORE_LABELS, "counter")
        name, about = "etcd_request_errors_total", "Calls of the store that failed."
        yield MetricFamily(name, about, dict(self._failed), _STORE_LABELS, "counter")


T = TypeVar("T")


class TimedBackend(ForwardingBackend):
    """Passes every call on. Only reads and writes for clients' requests are measured."""

    def __init__(self, inner: Backend, metrics: StoreMetrics, clock: Clock) -> None:
        super().__init__(inner)
        self._metrics = metrics
        self._monotonic = clock.monotonic

    async def _timed(self, operation: str, key: str, call: Awaitable[T]) -> T:
        began = self._monotonic()
        try:
            result = await call
        except Exception:
            self._metrics.add(operation, key, self._monotonic() - began, failed=True)
            raise
        self._metrics.add(operation, key, self._monotonic() - began)
        return result

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        return await self._timed("get", key, self._inner.get(key, rev=rev))

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        return await self._timed("list", start, self._inner.list(start, end, rev=rev, limit=limit))

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        # as `_timed`, without its coroutine
        operation, began = "update" if expect else "create", self._monotonic()
        try:
            result = await self._inner.put(key, value, expect=expect, ttl_ms=ttl_ms)
        except Exception:
            self._metrics.add(operation, key, self._monotonic() - began, failed=True)
            raise
        self._metrics.add(operation, key, self._monotonic() - began)
        return result

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        return await self._timed("delete", key, self._inner.delete(key, expect=expect))
