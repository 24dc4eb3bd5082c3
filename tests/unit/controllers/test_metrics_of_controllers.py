"""The metrics of controllers have the names of client-go and controller-runtime."""

from __future__ import annotations

from typing import Any

import pytest
from fleet import Ship, ship
from prometheus_client.parser import text_string_to_metric_families

from oarlock import APIServer
from oarlock.codec.prometheus_text import metrics_text
from oarlock.controllers import Controller, MetricFamily, ObjectKey
from oarlock.controllers.metrics import BOUNDS_S, ControllerNumbers, QueueMetrics, controller_families
from oarlock.meta.metrics import Histogram, ended_families, summed_families
from oarlock.schema.types.declaring import HookError
from oarlock.testing import InMemory, VirtualClock


def test_every_number_is_on_the_page() -> None:
    waited = Histogram(BOUNDS_S)
    for seconds in (0.0, 0.002, 5_000.0):
        waited.add(seconds)
    queue = QueueMetrics(adds=7, retries=2, refused=1, waited=waited)
    numbers = ControllerNumbers(
        name="ships",
        concurrency=4,
        active=2,
        results={"success": 5, "error": 2},
        terminal_errors=1,
        timeouts=1,
        depth=3,
        unfinished_s=2.5,
        longest_s=2.0,
        queue=queue,
        leading=True,
    )
    text = metrics_text(controller_families([numbers])).decode()
    found = {
        (one.name, *sorted(one.labels.values())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    assert found["workqueue_depth", "ships"] == 3
    assert found["workqueue_adds_total", "ships"] == 7
    assert found["workqueue_retries_total", "ships"] == 2
    assert found["oarlock_workqueue_refused_total", "ships"] == 1
    assert found["workqueue_unfinished_work_seconds", "ships"] == 2.5
    assert found["workqueue_longest_running_processor_seconds", "ships"] == 2
    assert found["workqueue_queue_duration_seconds_count", "ships"] == 3
    assert found["workqueue_queue_duration_seconds_bucket", "0.01", "ships"] == 2
    assert found["workqueue_work_duration_seconds_count", "ships"] == 0
    assert found["controller_runtime_reconcile_total", "error", "ships"] == 2
    assert found["controller_runtime_reconcile_total", "requeue_after", "ships"] == 0
    assert found["controller_runtime_reconcile_errors_total", "ships"] == 2
    assert found["controller_runtime_terminal_reconcile_errors_total", "ships"] == 1
    assert found["controller_runtime_reconcile_timeouts_total", "ships"] == 1
    assert found["controller_runtime_max_concurrent_reconciles", "ships"] == 4
    assert found["controller_runtime_active_workers", "ships"] == 2
    assert found["leader_election_master_status", "ships"] == 1
    assert controller_families([]) == ()


def test_the_numbers_of_several_processes_are_summed_by_controller() -> None:
    def numbers(name: str, success: int, leading: bool | None, longest_s: float) -> ControllerNumbers:
        waited = Histogram(BOUNDS_S)
        waited.add(success)
        queue = QueueMetrics(adds=success, waited=waited)
        return ControllerNumbers(name, 2, 1, {"success": success}, 0, 0, 3, 1.0, longest_s, queue, leading)

    one = controller_families([numbers("ships", 1, False, 2.0), numbers("boats", 5, None, 0.0)])
    other = controller_families([numbers("ships", 2, True, 1.0)])
    total = {family.name: family.samples for family in summed_families((*one, *other))}
    assert total["controller_runtime_reconcile_total"]["ships", "success"] == 3
    assert total["controller_runtime_reconcile_total"]["boats", "success"] == 5
    assert total["workqueue_depth"] == {("ships",): 6, ("boats",): 3}
    assert total["workqueue_longest_running_processor_seconds"]["ships",] == 2.0
    assert total["controller_runtime_max_concurrent_reconciles"]["ships",] == 4
    assert total["leader_election_master_status"] == {("ships",): 1}
    assert total["workqueue_adds_total"]["ships",] == 3
    waited = total["workqueue_queue_duration_seconds"]["ships",]
    assert isinstance(waited, tuple)
    assert (sum(waited[0]), waited[1]) == (2, 3.0)
    ended = {family.name: family.samples for family in ended_families(other)}
    assert ended["controller_runtime_reconcile_total"]["ships", "success"] == 2
    assert ended["workqueue_depth"] == ended["leader_election_master_status"] == {("ships",): 0}


class Ships(Controller[Ship]):
    async def reconcile(self, key: ObjectKey) -> None:
        return None


@pytest.mark.anyio
async def test_a_server_has_those_of_its_controllers_on_its_page() -> None:
    clock = VirtualClock()
    async with InMemory(APIServer(serve=[Ship], controllers=[Ships()]), clock=clock) as api:
        await api.client().create(ship("a"))
        await clock.run(1)
        page = (await api.get("/metrics")).body.decode()
        assert 'controller_runtime_reconcile_total{controller="ships",result="success"} 1.0' in page
        assert 'workqueue_adds_total{name="ships"} 1.0' in page


class Counting(Ships, name="counting"):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def metrics(self) -> list[MetricFamily]:
        if self.seen > 1:
            raise RuntimeError("lost count")
        names = {("a", 'b"\n'): 1.5}
        return [
            MetricFamily("ships_seen_total", "Ships.", {(): self.seen}, kind="counter"),
            MetricFamily("ship_depth", "How deep, in metres.", names, ("ship", "port")),
        ]

    async def reconcile(self, key: ObjectKey) -> None:
        self.seen += 1


@pytest.mark.anyio
async def test_what_a_controller_counts_itself_is_on_the_page(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    async with InMemory(APIServer(serve=[Ship], controllers=[Counting()]), clock=clock) as api:
        await api.client().create(ship("a"))
        await clock.run(1)
        page = (await api.get("/metrics")).body.decode()
        assert "# TYPE ships_seen_total counter\nships_seen_total 1.0\n" in page
        assert 'ship_depth{port="b\\"\\n",ship="a"} 1.5' in page
        await api.client().create(ship("b"))
        await clock.run(1)
        page = (await api.get("/metrics")).body.decode()
        assert "ships_seen" not in page
        assert 'controller_runtime_reconcile_total{controller="counting",result="success"} 2.0' in page
        assert "collecting its own metrics failed" in caplog.text


def test_own_metrics_of_several_processes_are_summed_and_only_counters_outlive_them() -> None:
    def family(name: str, *labels: str, **samples: float) -> MetricFamily:
        values = {(label,): number for label, number in samples.items()}
        return MetricFamily(name, "About.", values, labels, "counter" if name.endswith("_total") else "gauge")

    one, other = family("a_total", "x", p=1, q=2), family("a_total", "x", q=3, r=4)
    [total] = summed_families([one, other, family("a_total", "y", p=100)])
    assert (total.labels, total.samples) == (("x",), {("p",): 1, ("q",): 5, ("r",): 4})
    assert (one.samples, other.samples) == ({("p",): 1, ("q",): 2}, {("q",): 3, ("r",): 4})
    assert [left.name for left in ended_families([one, family("depth", "x", p=1)])] == ["a_total"]
    numbers = ControllerNumbers("n", 1, 0, {}, 0, 0, 0, 0.0, 0.0, QueueMetrics(), families=(one, one))
    assert controller_families([numbers, numbers])[-1].samples == {("p",): 4, ("q",): 8}


@pytest.mark.parametrize(
    ("name", "samples", "labels", "kind"),
    [
        ("a-b", {}, (), "gauge"),
        ("", {}, (), "gauge"),
        ("a\nb 1", {}, (), "gauge"),
        ("a", {}, ("le-x",), "gauge"),
        ("a", {}, (), "counter"),
        ("a_total", {}, (), "gauge"),
        ("a", {("x", "y"): 1.0}, ("one",), "gauge"),
        ("a", {(): 1.0}, ("one",), "gauge"),
    ],
)
def test_what_prometheus_would_not_read_is_refused(name: str, samples: Any, labels: Any, kind: Any) -> None:
    with pytest.raises(ValueError, match=r"name|values"):
        MetricFamily(name, "About.", samples, labels, kind)


def test_metrics_that_would_have_to_be_waited_for_are_refused() -> None:
    with pytest.raises(HookError, match=r"Waiting.metrics: is async \(write def metrics\(self\)\)"):

        class Waiting(Ships, name="waiting"):
            async def metrics(self) -> Any:
                return ()
