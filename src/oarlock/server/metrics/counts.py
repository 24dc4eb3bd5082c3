"""Request, watch and store metrics, in plain lists and dicts that cost about a microsecond per request.

Counting happens on the event loop; `snapshot` copies the numbers, so that they can be printed in a thread. Label values
come from the catalog or a fixed list, never from a client, so the number of series is bounded. Names and labels are
Kubernetes'. Source: k8s.io/apiserver ``endpoints/metrics``. See also: `exposition`, which prints them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import field

from oarlock.controllers.metrics import ControllerNumbers
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState, RouteKind
from oarlock.meta.context import Target
from oarlock.meta.dataclass import dataclass
from oarlock.server.audit.counts import AuditCounts
from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.metrics.reload_counts import ReloadCounts
from oarlock.server.metrics.series import SeriesNumbers
from oarlock.server.pages.health import Probe

__all__ = [
    "BOUNDS_S",
    "ByGroupVersion",
    "ByResource",
    "Histogram",
    "Numbers",
    "RequestLabels",
    "RequestMetrics",
    "RequestSnapshot",
    "StoreMetrics",
    "Verdicts",
    "WorkerProcess",
]

BOUNDS_S = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5),
    *(2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
"""Upper bounds of the histograms' buckets, in seconds; one more bucket has the rest."""

_SHORT_S = BOUNDS_S[0]

RequestLabels = tuple[str, str, str, str, str, str, str]
"""verb, group, version, resource, subresource, scope, dry_run."""

ByResource = dict[tuple[str, str], int]
ByGroupVersion = dict[tuple[str, str, str], int]

Verdicts = dict[tuple[str, Probe], tuple[bool, int, int]]
"""By name and probe of a health check that has run: the last result, how often it passed, how often it failed."""

_UNKNOWN_NAMES = (RouteKind.PATH, RouteKind.FORWARDED)
"""Here the names of groups and resources may be whatever a client spells."""

_VERBS = {"create": "POST", "update": "PUT"} | {
    verb: verb.upper()
    for verb in ("get", "list", "watch", "patch", "delete", "deletecollection", "post", "put", "head", "options")
}


@dataclass(slots=True)
class Histogram:
    """A histogram of durations, and their sum, in seconds."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def copy(self) -> Histogram:
        return Histogram(self.buckets.copy(), self.sum_s)


class _Series:
    """The requests with one set of labels. `open` counts answers that are still open; None if there never was one."""

    __slots__ = ("codes", "durations", "open")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.durations = Histogram()
        self.open: int | None = None

    def sent(self, status: int, seconds: float) -> None:
        """See `RequestSeries`."""
        codes, durations = self.codes, self.durations
        codes[status] = codes.get(status, 0) + 1
        if seconds <= _SHORT_S:  # nearly always
            durations.buckets[0] += 1
            durations.sum_s += seconds
        else:
            durations.add(seconds)

    def began(self, status: int) -> None:
        """Count it at the beginning: a watch may last for an hour."""
        self.codes[status] = self.codes.get(status, 0) + 1
        self.open = (self.open or 0) + 1

    def ended(self, whole: bool) -> None:
        self.open = (self.open or 0) - 1


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """A copy of the request counters."""

    codes: dict[RequestLabels, dict[int, int]]
    durations: dict[RequestLabels, Histogram]
    open_watches: dict[RequestLabels, int]


class RequestMetrics:
    """Counts requests. `own_paths` are the non-resource paths with series of their own."""

    def __init__(self, own_paths: frozenset[str] = frozenset()) -> None:
        self._own_paths = own_paths
        self._series: dict[RequestLabels, _Series] = {}

    def observe(self, state: RequestState, response: Response) -> None:
        """Count a request when its answer, which begins now, has been sent or cut, as ``state.sent`` is told."""
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

    def snapshot(self) -> RequestSnapshot:
        return RequestSnapshot(
            {labels: dict(series.codes) for labels, series in self._series.items()},
            {labels: series.durations.copy() for labels, series in self._series.items()},
            {labels: series.open for labels, series in self._series.items() if series.open is not None},
        )


def _scope(target: Target) -> str:
    if target.name or target.verb == "create":
        return "resource"
    return "namespace" if target.namespace else "cluster"


class StoreMetrics:
    """Durations of store calls by (operation, group, resource), and the number of failures."""

    def __init__(self) -> None:
        self._durations: dict[tuple[str, str, str], Histogram] = {}
        self._failed: dict[tuple[str, str, str], int] = {}

    def add(self, operation: str, key: str, seconds: float, *, failed: bool = False) -> None:
        """`key` is the key or range of the call: ``/registry/{group}/{resource}/…``."""
        parts = key.split("/", 4)
        labels = (operation, parts[2], parts[3]) if len(parts) > 3 and parts[1] == "registry" else (operation, "", "")
        histogram = self._durations.get(labels)
        if histogram is None:
            histogram = self._durations[labels] = Histogram()
        histogram.add(seconds)
        if failed:
            self._failed[labels] = self._failed.get(labels, 0) + 1

    def snapshot(self) -> tuple[dict[tuple[str, str, str], Histogram], dict[tuple[str, str, str], int]]:
        return {labels: histogram.copy() for labels, histogram in self._durations.items()}, dict(self._failed)


@dataclass(frozen=True, slots=True)
class Numbers:
    """A copy of all numbers on ``/metrics``."""

    requests: RequestSnapshot
    store: dict[tuple[str, str, str], Histogram]
    store_failed: dict[tuple[str, str, str], int]
    in_flight: dict[str, int]
    unsent_bytes: int
    readers_cut: dict[str, int]
    objects: ByResource
    watch_events: ByGroupVersion
    encryption: ReloadCounts | None
    audit: AuditCounts | None = None
    controllers: tuple[ControllerNumbers, ...] = ()
    fairness: SeriesNumbers | None = None
    authentication: AuthenticationCounts = field(default_factory=AuthenticationCounts)
    access: SeriesNumbers | None = None
    admission: SeriesNumbers | None = None


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A process of a server that has several, as ``/metrics`` shows it.

    `collections` are Python's ``gc.get_stats()`` by generation, empty for a process that serves nothing.
    """

    name: str
    pid: int
    restarts: int = 0
    collections: tuple[dict[str, int], ...] = ()
