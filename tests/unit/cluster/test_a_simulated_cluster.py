"""Pods are scheduled, run, crash and go on simulated nodes, on a real server in memory and a virtual clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cluster_kit import cluster_in_memory, pod_template

from oarlock import ControlPlane
from oarlock.extend import ConfigError
from oarlock.testing import InMemory, VirtualClock
from oarlock_cluster.nodes.kubelets import SimulatedNodes
from oarlock_cluster.nodes.shapes import new_nodes
from oarlock_cluster.simulation import nodes_part, scheduler_part
from oarlock_cluster.up import PARTS, SimulationOptions

PODS = "/api/v1/namespaces/default/pods"


def _pod(name: str, cpu: str = "1", **annotations: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu}}}
    sim = {f"sim/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "annotations": sim}, "spec": {"containers": [container]}}


def _conditions(pod: Any) -> dict[str, str]:
    return {each["type"]: each["status"] for each in pod["status"]["conditions"]}


async def _cluster(api: InMemory, clock: VirtualClock) -> None:
    await clock.run(1)
    for at in range(3):
        await api.patch(f"/api/v1/nodes/node-{at}", {"spec": {"taints": None}})
    await clock.run(1)


@pytest.mark.anyio
async def test_a_pod_is_scheduled_runs_and_goes() -> None:
    clock = VirtualClock(patient=True)
    parts = [scheduler_part(), nodes_part(new_nodes(3))]
    async with InMemory(ControlPlane(parts=parts), clock=clock) as api:
        await _cluster(api, clock)
        await api.post(PODS, _pod("a"))
        await api.post(PODS, _pod("big", "64"))
        await clock.run(2)
        a, big = (await api.get(f"{PODS}/a")).json, (await api.get(f"{PODS}/big")).json
        assert (a["status"]["phase"], _conditions(a)["Ready"]) == ("Running", "True")
        assert big["status"]["conditions"][0]["message"].startswith("0/3 nodes are available: 3 Insufficient cpu.")
        events = (await api.get("/api/v1/namespaces/default/events")).json["items"]
        assert {each["reason"] for each in events} == {"Scheduled", "FailedScheduling"}
        await api.delete(f"{PODS}/a")
        await clock.run(1)
        assert (await api.get(f"{PODS}/a")).status == 404


@pytest.mark.anyio
async def test_a_crash_loop_backs_off_and_a_slow_start_gets_ready() -> None:
    clock = VirtualClock(patient=True)
    parts = [scheduler_part(), nodes_part(new_nodes(3))]
    async with InMemory(ControlPlane(parts=parts), clock=clock) as api:
        await _cluster(api, clock)
        await api.post(PODS, _pod("crash", crash="137", reason="OOMKilled", run_s="2"))
        await api.post(PODS, _pod("slow", start_s="2", ready_after_s="5"))
        await clock.run(4)
        slow = (await api.get(f"{PODS}/slow")).json
        assert (slow["status"]["phase"], _conditions(slow)["Ready"]) == ("Running", "False")
        await clock.run(40)
        slow, crash = (await api.get(f"{PODS}/slow")).json, (await api.get(f"{PODS}/crash")).json
        ready = next(each for each in slow["status"]["conditions"] if each["type"] == "Ready")
        assert ready["status"] == "True"
        assert not ready.get("reason")
        status = crash["status"]["containerStatuses"][0]
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status["lastState"]["terminated"]["reason"] == "OOMKilled"
        assert status["restartCount"] == 2


@pytest.mark.anyio
async def test_a_node_that_is_away_reports_nothing() -> None:
    clock = VirtualClock(patient=True)
    nodes = SimulatedNodes(new_nodes(1))
    async with InMemory(ControlPlane(parts=[nodes_part(nodes)]), clock=clock) as api:
        await clock.run(1)
        nodes.stop("node-0")
        pod = _pod("a")
        pod["spec"] |= {"nodeName": "node-0"}
        await api.post(PODS, pod)
        await clock.run(30)
        assert (await api.get(f"{PODS}/a")).json["status"]["phase"] == "Pending"
        nodes.start("node-0")
        await clock.run(1)
        assert (await api.get(f"{PODS}/a")).json["status"]["phase"] == "Running"


NODES = """
nodes:
- {name: big, capacity: {cpu: 64}, labels: {size: big}}
- {name: small, count: 2, taints: [{key: small, effect: NoSchedule}]}
behaviours:
- {selector: {matchLabels: {app: slow}}, ready-after-s: 20}
"""


@pytest.mark.anyio
async def test_flags_make_nodes_of_a_file_with_the_behaviour_of_their_pods(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(NODES)
    async with cluster_in_memory(PARTS.parts(SimulationOptions(nodes=str(file)))) as cluster:
        spec = {"selector": {"matchLabels": {"app": "slow"}}, "template": pod_template("slow")}
        await cluster.create("deployments", "slow", spec)
        begin = cluster.clock.now()
        await cluster.until_status("deployments", "slow", readyReplicas=1)
        assert 20 <= cluster.clock.now() - begin < 25
        [pod] = await cluster.all("pods")
        assert pod["spec"]["nodeName"] == "big"
        assert {each["metadata"]["name"] for each in await cluster.all("nodes")} == {"big", "small-0", "small-1"}


def test_a_file_of_nodes_that_cant_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--nodes=.*missing.*: write a number, or a YAML file with nodes"):
        PARTS.parts(SimulationOptions(nodes=str(tmp_path / "missing.yaml")))


@pytest.mark.anyio
@pytest.mark.parametrize(("nodes", "status"), [("1", 200), ("0", 404)])
async def test_the_metrics_api_is_served_where_there_are_nodes_from_the_start(nodes: str, status: int) -> None:
    async with cluster_in_memory(PARTS.parts(SimulationOptions(nodes=nodes))) as cluster:
        assert (await cluster.api.get("/apis/metrics.k8s.io/v1beta1/pods")).status == status
