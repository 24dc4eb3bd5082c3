"""``apiserver_flowcontrol_*``: what is counted of requests that begin at once, wait, and are refused."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from oarlock.codec.prometheus_text import metrics_text
from oarlock.meta.context import Target, User
from oarlock.meta.metrics import MetricFamily, ended_families, summed_families
from oarlock.policy.fairness.engine import Fairness
from oarlock.policy.fairness.level import Flow, Ticket
from oarlock.policy.fairness.metrics import fairness_families
from oarlock.policy.fairness.work import NARROW, Work


def printed(families: Iterable[MetricFamily]) -> set[str]:
    return set(metrics_text(families).decode().splitlines())


def busy() -> Fairness:
    """Ten seats for everybody: one wide request, nine narrow ones, one that waits."""
    time = [0.0]
    fairness = Fairness(0, lambda: time[0])
    user, target = User("alice", groups=("system:authenticated",)), Target("get", "", "v1", "pods", namespace="a")
    flow = fairness.flow_of(("alice",), user, target, "")
    flow.level.limit = 10
    tickets = [arrived(flow, Work(4)), *(arrived(flow, NARROW) for _ in range(7))]
    tickets[-1].wake = lambda: None
    time[0] = 0.3
    flow.level.leave(tickets[1])
    return fairness


def arrived(flow: Flow, work: Work) -> Ticket:
    ticket = flow.level.arrive(flow, work)
    assert ticket is not None
    return ticket


LABELS = '{flow_schema="global-default",priority_level="global-default"}'


def test_every_request_is_counted_once() -> None:
    lines = printed(fairness_families(busy()))
    assert f"apiserver_flowcontrol_dispatched_requests_total{LABELS} 8.0" in lines
    assert f"apiserver_flowcontrol_current_executing_requests{LABELS} 7.0" in lines
    assert f"apiserver_flowcontrol_current_executing_seats{LABELS} 10.0" in lines
    assert f"apiserver_flowcontrol_current_inqueue_requests{LABELS} 0.0" in lines
    waited = 'request_wait_duration_seconds_bucket{execute="true",flow_schema="global-default",le='
    assert f'apiserver_flowcontrol_{waited}"0",priority_level="global-default"}} 7.0' in lines
    assert f'apiserver_flowcontrol_{waited}"0.5",priority_level="global-default"}} 8.0' in lines
    assert f"apiserver_flowcontrol_work_estimated_seats_count{LABELS} 8.0" in lines
    assert f"apiserver_flowcontrol_work_estimated_seats_sum{LABELS} 11.0" in lines
    assert f"apiserver_flowcontrol_request_queue_length_after_enqueue_count{LABELS} 8.0" in lines


def test_processes_are_summed_and_one_that_ended_only_counted() -> None:
    families = tuple(fairness_families(busy()))
    copied = msgspec.msgpack.decode(msgspec.msgpack.encode(families), type=tuple[MetricFamily, ...])
    assert copied == families
    lines = printed(summed_families((*families, *copied, *ended_families(copied))))
    assert f"apiserver_flowcontrol_dispatched_requests_total{LABELS} 24.0" in lines
    assert f"apiserver_flowcontrol_current_executing_requests{LABELS} 14.0" in lines
    assert f"apiserver_flowcontrol_work_estimated_seats_sum{LABELS} 33.0" in lines
