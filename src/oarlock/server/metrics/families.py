"""Metrics of what a server has at the moment: requests in progress, unsent bytes, watch events, objects, health.

Must not know: how metrics are printed. Source: k8s.io/apiserver ``endpoints/metrics``; KEP-3466 for health checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from oarlock.endpoints.unsent import Unsent
from oarlock.meta.metrics import MetricFamily
from oarlock.server.pages.health import Probe

__all__ = [
    "RequestLimit",
    "Verdicts",
    "in_flight_families",
    "object_families",
    "unsent_families",
    "verdict_families",
    "watch_event_families",
]

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
