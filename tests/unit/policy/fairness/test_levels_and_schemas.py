"""Which schema a request has, which hand a flow is dealt, and how seats are divided among levels."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta.context import Target, User
from oarlock.policy.fairness import builtin
from oarlock.policy.fairness.borrowing import SeatClaim, divide
from oarlock.policy.fairness.engine import Fairness
from oarlock.policy.fairness.level import Flow
from oarlock.policy.fairness.settings import bits_of_hand, flow_number, hand
from oarlock.policy.fairness.work import NARROW, Work, list_work, write_work

ALICE = User("alice", groups=("system:authenticated",))
PODS = Target("get", "", "v1", "pods", namespace="default")


def flow(fairness: Fairness, user: User, target: Target) -> Flow:
    return fairness.flow_of((user.name, target), user, target, target.path)


@pytest.fixture
def fairness() -> Fairness:
    return Fairness(600, lambda: 0.0)


def test_nominal_seats_are_those_of_kubernetes(fairness: Fairness) -> None:
    assert {name: level.limits.nominal for name, level in fairness.levels.items()} == {
        "exempt": 0,
        "catch-all": 13,
        "system": 74,
        "node-high": 98,
        "leader-election": 25,
        "workload-high": 98,
        "workload-low": 245,
        "global-default": 49,
    }
    assert fairness.levels["workload-low"].limits.minimum == 245 - 221
    assert fairness.levels["global-default"].most_seats == 8


@pytest.mark.parametrize(
    ("user", "target", "schema"),
    [
        (User("a", groups=("system:masters", "system:authenticated")), PODS, "exempt"),
        (ALICE, Target("get", path="/readyz"), "probes"),
        (ALICE, Target("get", path="/readyz/ping"), "probes"),
        (ALICE, Target("get", path="/readyzz"), "global-default"),
        (ALICE, PODS, "global-default"),
        (User("system:serviceaccount:a:b", groups=("system:serviceaccounts",)), PODS, "service-accounts"),
        (User("system:serviceaccount:kube-system:b"), PODS, "kube-system-service-accounts"),
        (User("system:serviceaccount:kube-systemd:b", groups=("system:authenticated",)), PODS, "global-default"),
        (User("system:node:n", groups=("system:nodes",)), Target("get", resource="nodes"), "system-node-high"),
        (User("system:node:n", groups=("system:nodes",)), PODS, "system-nodes"),
        (User("system:kube-scheduler"), PODS, "kube-scheduler"),
        (
            User("system:kube-scheduler"),
            Target("update", "coordination.k8s.io", resource="leases", namespace="a"),
            "system-leader-election",
        ),
        (User("nobody"), PODS, "catch-all"),
    ],
)
def test_the_first_schema_that_matches_counts(fairness: Fairness, user: User, target: Target, schema: str) -> None:
    assert flow(fairness, user, target).schema.name == schema


def test_flows_are_told_apart_as_their_schema_says(fairness: Fairness) -> None:
    assert flow(fairness, ALICE, PODS).distinguisher == "alice"
    assert flow(fairness, User("system:kube-scheduler"), PODS).distinguisher == "default"
    assert flow(fairness, ALICE, PODS).hand == hand(flow_number("global-default", "alice"), 128, 6)


def test_what_is_broken_is_left_out_and_the_mandatory_is_there(
    fairness: Fairness, caplog: pytest.LogCaptureFixture
) -> None:
    broken: list[dict[str, Any]] = [
        {"kind": "PriorityLevelConfiguration", "metadata": {"name": "a"}, "spec": {"type": "Limited"}},
        {"kind": "PriorityLevelConfiguration", "metadata": {"name": "b"}},
    ]
    fairness.configure(broken, [{"kind": "FlowSchema", "metadata": {"name": "c"}, "spec": {"rules": 7}}])
    assert set(fairness.levels) == {"exempt", "catch-all"}
    assert flow(fairness, ALICE, PODS).schema.name == "catch-all"
    assert "PriorityLevelConfiguration a is ignored: spec.limited must not be empty" in caplog.text


@given(
    path=st.sampled_from(
        [
            *(("metadata",), ("metadata", "name"), ("metadata", "uid"), ("spec",)),
            *(("spec", "type"), ("spec", "limited"), ("spec", "limited", "nominalConcurrencyShares")),
            *(("spec", "limited", "lendablePercent"), ("spec", "limited", "limitResponse")),
            *(("spec", "matchingPrecedence"), ("spec", "rules"), ("spec", "rules", 0), ("spec", "distinguisherMethod")),
            *(("spec", "rules", 0, "subjects", 0), ("spec", "rules", 0, "subjects", 0, "kind")),
            *(("spec", "rules", 0, "resourceRules"), ("spec", "rules", 0, "nonResourceRules", 0)),
        ]
    ),
    value=st.sampled_from([None, [], {}, [[]], [{"name": []}], "x", 10**400, -1, True, {"name": 7}, {"type": []}]),
)
def test_whatever_a_cluster_says_configures_or_is_left_out(path: tuple[Any, ...], value: Any) -> None:
    fairness = Fairness(600, lambda: 0.0)
    for tree in (*builtin.SUGGESTED_LEVELS, *builtin.SUGGESTED_SCHEMAS):
        spoilt = copy.deepcopy(tree)
        place: Any = spoilt
        for step in path[:-1]:
            place = place.get(step) if isinstance(place, dict) else place[step] if isinstance(place, list) else None
        if isinstance(place, dict) or (isinstance(place, list) and place):
            place[path[-1]] = value
        is_level = tree["kind"] == "PriorityLevelConfiguration"
        fairness.configure([spoilt] if is_level else [], [] if is_level else [spoilt])
        assert flow(fairness, ALICE, PODS).level.limit >= 0


def test_a_level_that_is_removed_ends_with_its_last_request(fairness: Fairness) -> None:
    used = flow(fairness, ALICE, PODS)
    ticket = used.level.arrive(used, NARROW)
    assert ticket is not None
    fairness.configure([], [])
    assert fairness.levels["global-default"].is_leaving
    assert flow(fairness, ALICE, PODS).schema.name == "catch-all"
    used.level.leave(ticket)
    fairness.rebalance()
    assert "global-default" not in fairness.levels


def test_a_busy_level_borrows_and_gives_back() -> None:
    time = [0.0]
    fairness = Fairness(600, lambda: time[0])
    busy = flow(fairness, ALICE, PODS)
    tickets = [busy.level.arrive(busy, NARROW) for _ in range(250)]
    for _ in range(3):
        time[0] += 10
        fairness.rebalance()
    assert busy.level.limit >= 250
    assert sum(level.limit for level in fairness.levels.values()) <= 602 + len(fairness.levels)
    assert all(level.limit >= level.limits.minimum for level in fairness.levels.values())
    for ticket in tickets:
        assert ticket is not None
        busy.level.leave(ticket)
    for _ in range(400):
        time[0] += 10
        fairness.rebalance()
    assert busy.level.limit < 100


@given(number=st.integers(0, 2**64 - 1), queues=st.integers(1, 512), size=st.integers(1, 15))
def test_a_hand_has_different_cards(number: int, queues: int, size: int) -> None:
    size = min(size, queues)
    dealt = hand(number, queues, size)
    assert len(set(dealt)) == size
    assert all(0 <= card < queues for card in dealt)


def test_bits_of_a_hand() -> None:
    assert bits_of_hand(128, 6) <= 60 < bits_of_hand(512, 8)
    assert bits_of_hand(10_000_000, 9_999_999) == 61


@given(
    total=st.floats(0, 1000),
    bounds=st.lists(
        st.tuples(st.floats(0, 100), st.floats(0, 100), st.floats(0, 200)).map(
            lambda three: SeatClaim(three[0], three[0] + three[1], max(three[0], three[2]))
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_seats_are_divided_within_bounds_and_all_of_them(total: float, bounds: list[SeatClaim]) -> None:
    parts, _ = divide(total, bounds)
    assert all(one.least - 1e-6 <= part <= one.most + 1e-6 for one, part in zip(bounds, parts, strict=True))
    possible = min(max(total, sum(one.least for one in bounds)), sum(one.most for one in bounds))
    assert sum(parts) == pytest.approx(possible, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "watch", "seats"),
    [
        ([], False, 8),
        ([("limit", "250")], False, 3),
        ([("limit", "250"), ("labelSelector", "a=b")], False, 8),
        ([("limit", "x")], False, 8),
        ([], True, 8),
        ([("resourceVersion", "0")], True, 8),
        ([("resourceVersion", "7")], True, 1),
        ([("resourceVersion", "7"), ("sendInitialEvents", "true")], True, 8),
        ([("sendInitialEvents", "false")], True, 1),
    ],
)
def test_the_seats_of_lists_and_watches(options: list[tuple[str, str]], watch: bool, seats: int) -> None:
    assert list_work(1000, options, 8, watch=watch, named=False) == Work(seats)
    assert list_work(1000, options, 8, watch=watch, named=True) is NARROW


def test_the_seats_of_writes() -> None:
    assert write_work(9, 10) is NARROW
    assert write_work(25, 10) == Work(1, 3, 0.005)
    assert write_work(400, 10) == Work(1, 10, 0.02)
