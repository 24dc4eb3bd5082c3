"""A DaemonSet has a pod on each node that it is for, and rolls as many at once as it may."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_kit import cluster_in_memory, pod_template

from oarlock_cluster.controllers.daemon_set import desired, node_of, should_run
from oarlock_cluster.up import PARTS, SimulationOptions

NOW_S = 1_767_225_600.0


def _node(name: str, taints: Any = (), **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


def _pod(node: str, hash: str = "new", ready: bool = True, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}] if ready else []
    labels = {"controller-revision-hash": hash}
    return {
        "metadata": {
            "name": f"{node}-{hash}",
            "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions},
    }


def _daemon_set(rolling: Any = None, **spec: Any) -> dict[str, Any]:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling or {"maxUnavailable": 1, "maxSurge": 0}}
    template = pod_template("agent", **spec)
    return {"metadata": {"name": "agent"}, "spec": {"template": template, "updateStrategy": strategy}}


@pytest.mark.parametrize(
    ("taint", "runs"),
    [
        ({"key": "k", "effect": "NoSchedule"}, (False, True)),
        ({"key": "k", "effect": "NoExecute"}, (False, False)),
        ({"key": "k", "effect": "PreferNoSchedule"}, (True, True)),
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, (True, True)),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, (True, True)),
        ({"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}, (False, True)),
    ],
)
def test_taints_keep_pods_away_or_drive_them_off(taint: Any, runs: tuple[bool, bool]) -> None:
    assert should_run(_daemon_set(), _node("a", [taint])) == runs


def test_a_selector_chooses_nodes() -> None:
    daemon_set = _daemon_set(nodeSelector={"disk": "ssd"})
    assert should_run(daemon_set, _node("a", disk="ssd")) == (True, True)
    assert should_run(daemon_set, _node("a", disk="hdd")) == (False, False)


@pytest.mark.parametrize(
    ("pods", "rolling", "create", "delete"),
    [
        ([_pod("a"), _pod("b")], None, ["c"], []),
        ([_pod(at, "old") for at in "abc"], None, [], ["a-old"]),
        ([_pod("a", "old"), _pod("b", "old", ready=False), _pod("c", "old")], None, [], ["b-old"]),
        ([_pod(at, "old") for at in "abc"], {"maxUnavailable": "50%"}, [], ["a-old", "b-old"]),
        ([_pod(at, "old") for at in "abc"], {"maxSurge": 1, "maxUnavailable": 0}, ["a"], []),
        (
            [_pod("a", "old"), _pod("a"), _pod("b", "old"), _pod("c", "old")],
            {"maxSurge": 1, "maxUnavailable": 0},
            [],
            ["a-old"],
        ),
        ([_pod("a"), _pod("b"), _pod("c"), _pod("d")], None, [], []),
        (
            [_pod("a", "old", ready=False), _pod("b"), _pod("c"), _pod("d", "old")],
            {"maxSurge": 1, "maxUnavailable": 0},
            ["a"],
            [],
        ),
        ([*(_pod(at) for at in "abc"), _pod("d", "old")], {"maxSurge": 1, "maxUnavailable": 0}, [], ["d-old"]),
    ],
)
def test_what_is_to_be_done(pods: Any, rolling: Any, create: list[str], delete: list[str]) -> None:
    plan, _ = desired(_daemon_set(rolling), [_node(at) for at in "abc"], pods, "new", NOW_S)
    assert (plan.create, [pod["metadata"]["name"] for pod in plan.delete]) == (create, delete)


def test_the_status_counts_nodes() -> None:
    nodes = [_node("a"), _node("b"), _node("c", [{"key": "k", "effect": "NoSchedule"}])]
    pods = [_pod("a"), _pod("b", "old", ready=False), _pod("c")]
    assert desired(_daemon_set(), nodes, pods, "new", NOW_S)[1] == {
        "currentNumberScheduled": 2,
        "desiredNumberScheduled": 2,
        "numberMisscheduled": 1,
        "numberReady": 1,
        "numberAvailable": 1,
        "numberUnavailable": 1,
        "updatedNumberScheduled": 1,
        "observedGeneration": 0,
    }


@pytest.mark.anyio
async def test_each_node_gets_a_pod_and_a_new_template_is_rolled_out() -> None:
    async with cluster_in_memory(PARTS.parts(SimulationOptions(nodes="3"))) as cluster:
        spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": pod_template("agent")}
        await cluster.create("daemonsets", "agent", spec)
        await cluster.until_status("daemonsets", "agent", numberReady=3)
        pods = await cluster.all("pods")
        assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["node-0", "node-1", "node-2"]
        assert all(node_of({"spec": {**pod["spec"], "nodeName": ""}}) == pod["spec"]["nodeName"] for pod in pods)
        await cluster.patch("daemonsets", "agent", {"spec": {"template": pod_template("agent", "i:2")}})
        await cluster.until_status(
            "daemonsets", "agent", updatedNumberScheduled=3, numberAvailable=3, observedGeneration=2
        )
        [pod, *_] = await cluster.all("pods")
        await cluster.report(pod["metadata"]["name"], "Failed", ready=False)
        await cluster.until(lambda: _reasons(cluster))
        await cluster.until_status("daemonsets", "agent", numberReady=3)


async def _reasons(cluster: Any) -> bool:
    return "FailedDaemonPod" in {reason for reason, _ in await cluster.events()}
