"""Why a pod fits on no node, in kube-scheduler's words."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock_cluster.scheduling.fit import Victims, find_nodes, find_victims
from oarlock_cluster.scheduling.resources import pod_requests
from oarlock_cluster.scheduling.state import ClusterState, NodeState, PodState

HELPLESS = (
    "no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
)
NO_VICTIMS = (
    "no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
)


def pod(name: str = "p", *, labels: Any = None, node: str = "", container: Any = None, **spec: Any) -> PodState:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    return PodState(
        {"metadata": metadata, "spec": {"containers": [{"name": "c", **(container or {})}], "nodeName": node, **spec}}
    )


def requests(**amounts: str) -> dict[str, Any]:
    return {"resources": {"requests": amounts}}


def cluster(*pods: PodState, **spec: Any) -> ClusterState:
    nodes = {}
    for at in range(3):
        name = f"node-{at}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{at}"}
        status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
        tree = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
        nodes[name] = NodeState(tree, [each for each in pods if each.node == name])
    return ClusterState(nodes=nodes)


def anti(key: str = "kubernetes.io/hostname") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "a"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def named(*names: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def near() -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


ONE_EACH = [pod(f"a{at}", labels={"app": "a"}, node=f"node-{at}") for at in range(3)]
PORT = {"ports": [{"hostPort": 80, "containerPort": 80}]}
WITH_PORTS = [pod(f"w{at}", node=f"node-{at}", container=PORT) for at in range(3)]
SPREAD = {
    "topologyKey": "kubernetes.io/hostname",
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "a"}},
}


@pytest.mark.parametrize(
    ("wanted", "state", "reason", "preemption"),
    [
        (pod(container=requests(cpu="64")), cluster(), "3 Insufficient cpu", HELPLESS),
        (
            pod(container=requests(cpu="64", memory="1Ti")),
            cluster(),
            "3 Insufficient cpu, 3 Insufficient memory",
            HELPLESS,
        ),
        (pod(nodeSelector={"no": "where"}), cluster(), "3 node(s) didn't match Pod's node affinity/selector", HELPLESS),
        (pod(), cluster(unschedulable=True), "3 node(s) were unschedulable", HELPLESS),
        (
            pod(),
            cluster(taints=[{"key": "k", "effect": "NoSchedule"}]),
            "3 node(s) had untolerated taint(s)",
            HELPLESS,
        ),
        (
            pod(affinity=named("elsewhere")),
            cluster(unschedulable=True),
            "3 node(s) didn't satisfy plugin(s) [NodeAffinity]",
            HELPLESS,
        ),
        (pod(affinity=named("node-0", "node-1")), cluster(), "pod affinity terms conflict", HELPLESS),
        (pod(affinity=near()), cluster(), "3 node(s) didn't match pod affinity rules", HELPLESS),
        (
            pod(affinity=anti(), labels={"app": "a"}),
            cluster(*ONE_EACH),
            "3 node(s) didn't match pod anti-affinity rules",
            NO_VICTIMS,
        ),
        (
            pod(container=PORT),
            cluster(*WITH_PORTS),
            "3 node(s) didn't have free ports for the requested pod ports",
            NO_VICTIMS,
        ),
        (
            pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]),
            cluster(),
            'persistentvolumeclaim "missing" not found',
            "not found",
        ),
        (
            pod(topologySpreadConstraints=[{**SPREAD, "topologyKey": "rack"}]),
            cluster(),
            "3 node(s) didn't match pod topology spread constraints (missing required label)",
            HELPLESS,
        ),
        (
            pod(container=requests(cpu="64"), preemptionPolicy="Never"),
            cluster(),
            "3 Insufficient cpu",
            "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.",
        ),
    ],
)
def test_a_pod_that_fits_nowhere_is_told_why(
    wanted: PodState, state: ClusterState, reason: str, preemption: str
) -> None:
    fit = find_nodes(wanted, state)
    assert fit.nodes == []
    said = find_victims(wanted, fit, state)
    assert said == preemption
    assert fit.message(preemption) == f"0/3 nodes are available: {reason}. {preemption}"


def test_a_claim_is_bound_once_its_annotation_says_so() -> None:
    volume = {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}}}
    metadata = {"name": "c", "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    state = cluster()
    state.volumes = {"v": volume}
    state.claims = {("default", "c"): {"metadata": metadata, "spec": {"volumeName": "v"}}}
    wanted = pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    assert len(find_nodes(wanted, state).nodes) == 3


def test_spread_leaves_the_emptiest_domain() -> None:
    wanted = pod(labels={"app": "a"}, topologySpreadConstraints=[SPREAD])
    fit = find_nodes(wanted, cluster(*ONE_EACH[:2]))
    assert [node.name for node in fit.nodes] == ["node-2"]


def test_the_least_important_pods_make_room() -> None:
    pods = [
        pod(f"p{at}", node=f"node-{at}", container=requests(cpu="4"), priority=priority)
        for at, priority in enumerate((5, 1, 50))
    ]
    wanted = pod("high", container=requests(cpu="3"), priority=10)
    state = cluster(*pods)
    found = find_victims(wanted, find_nodes(wanted, state), state)
    assert isinstance(found, Victims)
    assert (found.node, [victim.name for victim in found.pods]) == ("node-1", ["p1"])


def test_a_sidecar_runs_beside_what_comes_after_it() -> None:
    tree = {
        "spec": {
            "containers": [requests(cpu="1")],
            "initContainers": [
                {**requests(cpu="500m"), "restartPolicy": "Always"},
                requests(cpu="2"),
            ],
            "overhead": {"cpu": "100m"},
        }
    }
    assert pod_requests(tree) == {"cpu": 2600}
