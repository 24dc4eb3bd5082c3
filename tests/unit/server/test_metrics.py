"""What is counted, and how the page of it reads."""

from __future__ import annotations

import re
from functools import partial

import pytest

from oarlock.endpoints.http import Request, Response, Unsent
from oarlock.endpoints.request_state import RequestState, RouteKind
from oarlock.meta.context import Peer, Target
from oarlock.server.filters.fairness import MaxInFlight
from oarlock.server.metrics.counts import RequestMetrics, StoreMetrics, TimedBackend
from oarlock.server.metrics.page import (
    MetricsPage,
    in_flight_families,
    object_families,
    unsent_families,
    watch_event_families,
)
from oarlock.server.pages.health import Health, HealthCheck, always
from oarlock.storage.memory import MemoryBackend

pytestmark = pytest.mark.anyio

FLUNDER = Target("get", "wardle.example.com", "v1", "flunders", namespace="default", name="f1")


class Clock:
    def __init__(self) -> None:
        self.ticks = 0.0

    def now(self) -> float:
        return 1_800_000_000.0

    def monotonic(self) -> float:
        self.ticks += 0.03
        return self.ticks


class Known:
    """A route that leads to a resource."""

    kind = RouteKind.RESOURCE
    series = None


def exchange(target: Target, path: str = "/x", query: str = "", known: bool = True) -> RequestState:
    async def body() -> bytes:
        return b""

    x = RequestState(Request("GET", path, query, {}, [], Peer("127.0.0.1", 1), body, 0.0), Clock())
    x.target = target
    x.route = Known() if known else None
    return x


async def page(requests: RequestMetrics, store: StoreMetrics | None = None, unsent: Unsent | None = None) -> str:
    collectors = (
        requests.families,
        partial(in_flight_families, MaxInFlight()),
        partial(unsent_families, unsent or Unsent()),
        requests.open_families,
        partial(watch_event_families, {("wardle.example.com", "v1", "flunders"): 7}),
        (store or StoreMetrics()).families,
        partial(object_families, {("wardle.example.com", "flunders"): 3}),
    )
    response = await MetricsPage(collectors, Health([])).respond("/metrics")
    assert response is not None
    assert isinstance(response.body, bytes)
    return response.body.decode()


def answer(metrics: RequestMetrics, x: RequestState, status: int) -> None:
    response = Response(status, [])
    response.on_sent(x.sent)
    metrics.observe(x, response)
    response.sent(True)


async def test_a_request_is_counted_when_its_answer_has_been_sent_or_cut() -> None:
    metrics = RequestMetrics()
    for whole in (True, False):
        x, response = exchange(FLUNDER), Response(200, [])
        response.on_sent(x.sent)
        metrics.observe(x, response)
        before = sum(next(iter(metrics.families())).samples.values())
        for _ in range(100):
            x.clock.monotonic()
        response.sent(whole)
        total, durations = metrics.families()
        assert sum(total.samples.values()) == before + 1
        [(_, seconds)] = durations.samples.values()
        assert seconds > 3.0 * (before + 1)


async def test_requests_are_counted_under_the_names_dashboards_use() -> None:
    metrics = RequestMetrics()
    answer(metrics, exchange(FLUNDER), 200)
    answer(metrics, exchange(FLUNDER), 404)
    answer(metrics, exchange(Target("create", "g", "v1", "things"), query="dryRun=All"), 201)
    text = await page(metrics)
    labels = 'group="wardle.example.com",resource="flunders",scope="resource",subresource="",verb="GET",version="v1"'
    assert count(text, "apiserver_request_total", labels, 'code="200"') == 1
    assert count(text, "apiserver_request_total", labels, 'code="404"', 'component="apiserver"') == 1
    assert count(text, "apiserver_request_total", 'verb="POST"', 'dry_run="All"', 'scope="resource"') == 1
    assert count(text, "apiserver_request_duration_seconds_bucket", labels, 'le="0.025"') == 0
    assert count(text, "apiserver_request_duration_seconds_bucket", labels, 'le="0.05"') == 2
    assert count(text, "apiserver_request_duration_seconds_bucket", labels, 'le="+Inf"') == 2
    assert count(text, "apiserver_request_duration_seconds_count", labels) == 2
    assert count(text, "apiserver_current_inflight_requests", 'request_kind="mutating"') == 0
    assert count(text, "apiserver_watch_events_total", 'resource="flunders"') == 7
    assert count(text, "apiserver_storage_objects", 'resource="flunders.wardle.example.com"') == 3
    assert "process_resident_memory_bytes " in text


def count(text: str, name: str, *labels: str) -> float:
    """The value of the only sample with this name and all of these labels, whatever their order."""
    wanted = {label for group in labels for label in re.findall(r'[a-z_]+="[^"]*"', group)}
    values = [
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith(name + "{") and wanted <= set(re.findall(r'[a-z_]+="[^"]*"', line))
    ]
    assert len(values) == 1, (name, labels, values)
    return values[0]


async def test_clients_cannot_make_series() -> None:
    metrics = RequestMetrics(frozenset({"/livez"}))
    for i in range(50):
        answer(metrics, exchange(Target(f"m{i}", path=f"/p{i}"), f"/p{i}", known=False), 404)
        answer(metrics, exchange(Target("get", "g", "v1", f"r{i}"), f"/q{i}", known=False), 404)
        answer(metrics, exchange(FLUNDER, query=f"dryRun={i}"), 400)
    answer(metrics, exchange(Target("get", path="/livez"), "/livez", known=False), 200)
    assert len({labels[:-1] for labels in next(iter(metrics.families())).samples}) == 4
    text = await page(metrics)
    assert count(text, "apiserver_request_total", 'subresource="/livez"', 'code="200"') == 1
    assert count(text, "apiserver_request_total", 'verb="other"', 'code="404"') == 50


async def test_an_open_watch_is_a_gauge_until_it_ends() -> None:
    metrics = RequestMetrics()
    response = Response(200, [], stream=lambda stream: None)
    metrics.observe(exchange(Target("watch", "g", "v1", "things")), response)
    assert count(await page(metrics), "apiserver_longrunning_requests", 'verb="WATCH"', 'scope="cluster"') == 1
    response.sent(False)
    text = await page(metrics)
    assert count(text, "apiserver_longrunning_requests", 'verb="WATCH"') == 0
    assert count(text, "apiserver_request_total", 'verb="WATCH"', 'code="200"') == 1
    assert 'apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="g"' not in text


async def test_what_is_kept_for_slow_readers_is_a_gauge_and_those_who_were_cut_are_counted() -> None:
    unsent = Unsent()
    unsent.add(12_345)
    for reason in ("slow", "budget", "slow"):
        unsent.count_cut(reason)
    text = await page(RequestMetrics(), unsent=unsent)
    assert "oarlock_unsent_bytes 12345.0" in text
    assert count(text, "oarlock_slow_readers_cut_total", 'reason="slow"') == 2
    assert count(text, "oarlock_slow_readers_cut_total", 'reason="budget"') == 1


async def test_the_time_the_store_takes_is_counted_by_resource() -> None:
    clock = Clock()
    store = StoreMetrics()
    backend = TimedBackend(MemoryBackend(clock), store, clock)
    await backend.start()
    key = "/registry/wardle.example.com/flunders/default/f1"
    made = await backend.put(key, b"{}", expect=0)
    await backend.put(key, b"{ }", expect=made.rev)
    await backend.get(key)
    await backend.list("/registry/wardle.example.com/flunders/", "/registry/wardle.example.com/flunders0")
    await backend.delete(key, expect=made.rev + 1)
    await backend.close()
    text = await page(RequestMetrics(), store)
    for operation in ("create", "update", "get", "list", "delete"):
        labels = f'operation="{operation}",group="wardle.example.com",resource="flunders"'
        assert count(text, "etcd_request_duration_seconds_count", labels) == 1
        assert count(text, "etcd_requests_total", labels) == 1


async def test_health_checks_are_series_once_they_have_been_made() -> None:
    async def fail() -> str:
        return "no"

    health = Health([HealthCheck("ping", always), HealthCheck("etcd", fail, ("readyz",))])

    async def slis() -> str:
        response = await MetricsPage((), health).respond("/metrics/slis")
        assert response is not None
        assert isinstance(response.body, bytes)
        return response.body.decode()

    assert "name=" not in await slis()
    for path in ("/readyz", "/livez", "/livez"):
        await health.respond(exchange(Target("get", path=path), path, known=False))
    text = await slis()
    assert count(text, "kubernetes_healthcheck", 'name="ping",type="livez"') == 1
    assert count(text, "kubernetes_healthcheck", 'name="etcd",type="readyz"') == 0
    assert count(text, "kubernetes_healthchecks_total", 'name="ping",status="success",type="livez"') == 2
    assert count(text, "kubernetes_healthchecks_total", 'name="etcd",status="error",type="readyz"') == 1
    assert await MetricsPage((), health).respond("/metrics/x") is None
