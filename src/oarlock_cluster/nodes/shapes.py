"""Node objects: those that are made, what a node reports of itself, and its lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oarlock.extend import Tree, rfc3339

__all__ = ["CAPACITY", "lease_of", "new_nodes", "node_status", "nodes_of"]

CAPACITY = {"cpu": "32", "memory": "256Gi", "pods": "110"}
LEASE_S = 40

_CONDITIONS = (
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
)


def _node(name: str, capacity: Mapping[str, Any], labels: Mapping[str, str], spec: Mapping[str, Any]) -> Tree:
    own = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **labels}},
        "spec": dict(spec),
        "status": {"capacity": dict(capacity), "allocatable": dict(capacity)},
    }


def new_nodes(count: int, name: str = "node-{}", first: int = 0) -> list[Tree]:
    """So many equal nodes, each in a zone of three."""
    zones = [{"topology.kubernetes.io/zone": f"z{at % 3}"} for at in range(count)]
    return [_node(name.format(at), CAPACITY, labels, {}) for at, labels in enumerate(zones, first)]


def nodes_of(tree: Mapping[str, Any]) -> list[Tree]:
    """The ``nodes`` of a file: ``name``, ``count``, ``capacity``, ``labels`` and ``taints``."""
    nodes = []
    for each in tree.get("nodes") or ():
        count = each.get("count")
        names = [each["name"]] if count is None else [f"{each['name']}-{at}" for at in range(count)]
        spec = {"taints": each["taints"]} if each.get("taints") else {}
        capacity = {**CAPACITY, **(each.get("capacity") or {})}
        nodes += [_node(name, capacity, each.get("labels") or {}, spec) for name in names]
    return nodes


def node_status(node: Tree, now: float) -> Tree:
    """What a node that works reports, as kwok's ``node-initialize``."""
    status = node.get("status") or {}
    before = {each["type"]: each for each in status.get("conditions") or ()}
    time = rfc3339(now)
    conditions = []
    for kind, flag, reason, message in _CONDITIONS:
        old = before.get(kind) or {}
        since = old.get("lastTransitionTime") if old.get("status") == flag else None
        condition = {"type": kind, "status": flag, "reason": reason, "message": message}
        conditions.append({**condition, "lastHeartbeatTime": time, "lastTransitionTime": since or time})
    programs = ("containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion")
    info = dict.fromkeys(programs, "kwok-0.8.0")
    blank = dict.fromkeys(("bootID", "machineID", "osImage", "systemUUID"), "")
    return {
        "phase": "Running",
        "conditions": conditions,
        "addresses": status.get("addresses") or [{"type": "InternalIP", "address": "127.0.0.1"}],
        "capacity": status.get("capacity") or CAPACITY,
        "allocatable": status.get("allocatable") or status.get("capacity") or CAPACITY,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux", **info, **blank, **_given(status)},
    }


def _given(status: Tree) -> Tree:
    return {name: value for name, value in (status.get("nodeInfo") or {}).items() if value}


def lease_of(node: Tree, renewed: str) -> Tree:
    """The lease by which a node says that it lives."""
    name = node["metadata"]["name"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"].get("uid", "")}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_S, "renewTime": renewed},
    }
