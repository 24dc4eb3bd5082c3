"""Nodes that are not ready get taints; their pods are evicted unless they tolerate that, or collected with the node."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_kit import ClusterInMemory, cluster_in_memory

from oarlock_cluster.controllers.node_lifecycle import desired_taints, eviction_pause_s
from oarlock_cluster.controllers.pod_gc import to_collect
from oarlock_cluster.controllers.taint_eviction import eviction_s
from oarlock_cluster.controllers.ttl import next_step
from oarlock_cluster.nodes.kubelets import SimulatedNodes
from oarlock_cluster.nodes.shapes import new_nodes
from oarlock_cluster.simulation import nodes_part
from oarlock_cluster.workloads import workloads_part

EPOCH_S = 1_767_225_600.0
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def node(*taints: tuple[str, str], unschedulable: bool = False, **conditions: str) -> dict[str, Any]:
    shown = [{"type": kind, "status": status} for kind, status in conditions.items()]
    spec = {"taints": [{"key": key, "effect": effect} for key, effect in taints], "unschedulable": unschedulable}
    return {"metadata": {"name": "n1"}, "spec": spec, "status": {"conditions": shown}}


@pytest.mark.parametrize(
    ("given", "evicts", "expected"),
    [
        (node(Ready="True"), False, []),
        (node((NOT_READY, "NoSchedule"), ("k", "NoSchedule"), Ready="True"), False, [("k", "NoSchedule")]),
        (node(Ready="False"), True, [(NOT_READY, "NoExecute"), (NOT_READY, "NoSchedule")]),
        (node(Ready="False"), None, [(NOT_READY, "NoSchedule")]),
        (
            node((NOT_READY, "NoExecute"), Ready="Unknown"),
            None,
            [(UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")],
        ),
        (node(Ready="True", DiskPressure="True"), False, [("node.kubernetes.io/disk-pressure", "NoSchedule")]),
        (node(unschedulable=True, Ready="True"), False, [("node.kubernetes.io/unschedulable", "NoSchedule")]),
    ],
)
def test_taints_say_what_conditions_say(given: Any, evicts: bool | None, expected: list[tuple[str, str]]) -> None:
    assert [(one["key"], one["effect"]) for one in desired_taints(given, evicts, EPOCH_S)] == expected


def test_few_evictions_when_most_of_a_zone_is_lost() -> None:
    ready, lost = node(Ready="True"), node(Ready="False")
    assert eviction_pause_s([ready, lost]) == 10
    assert eviction_pause_s([ready] * 2 + [lost] * 5) is None
    assert eviction_pause_s([ready] * 20 + [lost] * 50) == 100


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], 0),
        ([{"operator": "Exists"}], None),
        ([{"key": "k", "operator": "Exists", "tolerationSeconds": 3}], 3),
        ([{"key": "k", "operator": "Exists", "tolerationSeconds": 3}, {"operator": "Exists"}], 3),
        ([{"operator": "Exists"}, {"key": "k", "operator": "Exists", "tolerationSeconds": 3}], None),
        ([{"key": "other", "operator": "Exists"}], 0),
    ],
)
def test_a_pod_stays_as_long_as_it_tolerates_the_taint(tolerations: list[Any], expected: float | None) -> None:
    assert eviction_s([{"key": "k", "effect": "NoExecute"}], tolerations) == expected


def pod(name: str, phase: str = "Running", on: str = "", going: bool = False, at: str = "0") -> dict[str, Any]:
    metadata = {"name": name, "creationTimestamp": f"2026-01-01T00:00:0{at}Z"}
    metadata |= {"deletionTimestamp": "2026-01-01T00:01:00Z"} if going else {}
    return {"metadata": metadata, "spec": {"nodeName": on}, "status": {"phase": phase}}


def test_pods_that_nobody_takes_away_are_collected() -> None:
    pods = [
        pod("lost", on="gone"),
        pod("runs", on="n1"),
        pod("never scheduled", going=True),
        pod("going", on="n1", going=True),
        pod("old", "Failed", "n1", at="1"),
        pod("new", "Succeeded", "n1", at="2"),
    ]
    found = to_collect(pods, {"n1": node(Ready="True")}, frozenset(["gone"]), most_ended=1)
    assert {each[0]["metadata"]["name"]: each[1] for each in found if each is not None} == {
        "lost": True,
        "never scheduled": False,
        "old": False,
    }


def test_the_ttl_grows_with_the_number_of_nodes() -> None:
    assert [next_step(0, count) for count in (100, 101, 700, 5000)] == [0, 1, 2, 4]
    assert next_step(1, 95) == 1
    assert next_step(1, 89) == 0


async def taints_of(cluster: ClusterInMemory, name: str) -> set[tuple[str, str]]:
    found = await cluster.get("nodes", name)
    return {(one["key"], one["effect"]) for one in found["spec"].get("taints") or ()}


@pytest.mark.anyio
async def test_a_node_that_goes_away_and_comes_back() -> None:
    nodes = SimulatedNodes(new_nodes(2))
    async with cluster_in_memory([workloads_part, nodes_part(nodes)]) as cluster:

        async def schedulable() -> bool:
            return not await taints_of(cluster, "node-0") | await taints_of(cluster, "node-1")

        await cluster.until(schedulable)
        labels = (await cluster.get("nodes", "node-0"))["metadata"]["labels"]
        assert labels["beta.kubernetes.io/os"] == "linux"
        container = {"name": "c", "image": "i:1"}
        await cluster.create("pods", "a", {"containers": [container], "nodeName": "node-0"})
        stays = {"operator": "Exists"}
        await cluster.create("pods", "b", {"containers": [container], "nodeName": "node-0", "tolerations": [stays]})
        await cluster.until_status("pods", "a", phase="Running")
        nodes.stop("node-0")
        since = cluster.clock.now()

        async def unreachable() -> bool:
            return await taints_of(cluster, "node-0") == {(UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")}

        await cluster.until(unreachable)
        assert 40 < cluster.clock.now() - since < 65
        pods = {one["metadata"]["name"]: one for one in await cluster.all("pods")}
        conditions = {one["type"]: one["status"] for one in pods["b"]["status"]["conditions"]}
        assert conditions["Ready"] == "False"
        await cluster.clock.run(290)
        assert not (await cluster.get("pods", "a"))["metadata"].get("deletionTimestamp")
        await cluster.clock.run(20)
        assert (await cluster.get("pods", "a"))["metadata"]["deletionTimestamp"]
        assert not (await cluster.get("pods", "b"))["metadata"].get("deletionTimestamp")
        nodes.start("node-0")
        await cluster.until(schedulable)
        reasons = {reason for reason, _ in await cluster.events()}
        assert {"RegisteredNode", "NodeNotReady", "TaintManagerEviction"} <= reasons


@pytest.mark.anyio
async def test_the_pods_of_a_node_that_was_removed_are_collected() -> None:
    async with cluster_in_memory() as cluster:
        await cluster.create("pods", "a", {"containers": [{"name": "c", "image": "i:1"}], "nodeName": "nowhere"})
        await cluster.clock.run(35)
        assert await cluster.get("pods", "a") is not None
        await cluster.until_count("pods", 0)
