"""What the scheduler knows: pods with their requests, nodes with what is used of them, volumes and namespaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from oarlock.extend import Tree
from oarlock_cluster.scheduling.resources import ResourceAmounts, amounts, pod_requests

__all__ = ["SCORED", "ClusterState", "HostPort", "NodeState", "PodState", "finished", "host_ports_conflict"]

HostPort = tuple[str, str, int]
"""Address, protocol and port."""

_ANY = "0.0.0.0"
SCORED = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""The resources by which nodes are compared, with what a pod counts for that requests nothing."""


def finished(pod: Mapping[str, Any]) -> bool:
    """Whether the pod runs no more, and so takes nothing of its node."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def host_ports_conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Whether one of the wanted ports is used, at the same address or at all of them."""
    taken = list(used)
    return any(
        protocol == other_protocol and port == other_port and (_ANY in (address, other) or address == other)
        for address, protocol, port in wanted
        for other, other_protocol, other_port in taken
    )


class PodState:
    """A pod, and what the scheduler derives of it once."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        metadata = tree["metadata"]
        self.name: str = metadata["name"]
        self.namespace: str = metadata.get("namespace") or ""
        self.uid: str = metadata.get("uid") or f"{self.namespace}/{self.name}"
        self.labels: Mapping[str, str] = metadata.get("labels") or {}
        self.terminating = bool(metadata.get("deletionTimestamp"))
        self.spec: Tree = tree.get("spec") or {}
        self.status: Tree = tree.get("status") or {}
        self.priority: int = self.spec.get("priority") or 0
        self.node: str = self.spec.get("nodeName") or ""

    @cached_property
    def requests(self) -> ResourceAmounts:
        return pod_requests(self.tree)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        containers = [*(self.spec.get("containers") or ())]
        containers += [each for each in self.spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
        return tuple(
            (port.get("hostIP") or _ANY, port.get("protocol") or "TCP", port["hostPort"])
            for container in containers
            for port in container.get("ports") or ()
            if port.get("hostPort")
        )

    @cached_property
    def tolerations(self) -> list[Tree]:
        return list(self.spec.get("tolerations") or ())

    @cached_property
    def claims(self) -> tuple[str, ...]:
        """The names of its PersistentVolumeClaims, also of those made for ephemeral volumes."""
        names = []
        for volume in self.spec.get("volumes") or ():
            if volume.get("persistentVolumeClaim"):
                names.append(volume["persistentVolumeClaim"]["claimName"])
            elif volume.get("ephemeral"):
                names.append(f"{self.name}-{volume['name']}")
        return tuple(names)

    @cached_property
    def controller(self) -> str:
        """The uid of the object that controls it; empty if none does."""
        for owner in self.tree["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                return str(owner.get("uid") or "")
        return ""

    def affinity_terms(self, kind: str, *, required: bool = True) -> list[Tree]:
        """Terms of ``podAffinity`` or ``podAntiAffinity``; the preferred ones are with their weights."""
        wanted = "required" if required else "preferred"
        affinity = (self.spec.get("affinity") or {}).get(kind) or {}
        return list(affinity.get(f"{wanted}DuringSchedulingIgnoredDuringExecution") or ())

    @cached_property
    def anti_affinity(self) -> list[Tree]:
        """The required terms of its ``podAntiAffinity``."""
        return self.affinity_terms("podAntiAffinity")


class NodeState:
    """A node, and the pods on it with the sum of what they take."""

    def __init__(self, tree: Tree, pods: Iterable[PodState] = ()) -> None:
        self.pods: dict[str, PodState] = {}
        self.used: Counter[str] = Counter()
        self.idle: Counter[str] = Counter()
        """How many pods request nothing of a resource."""
        self.of_controller: Counter[str] = Counter()
        """How many pods each controller has here that aren't being deleted."""
        self.shunning: dict[str, PodState] = {}
        """The pods with required anti-affinity."""
        self.ports: Counter[HostPort] = Counter()
        self.update(tree)
        for pod in pods:
            self.add(pod)

    def update(self, tree: Tree) -> None:
        """The node as it is now."""
        self.tree = tree
        self.name: str = tree["metadata"]["name"]
        self.labels: Mapping[str, str] = tree["metadata"].get("labels") or {}
        spec, status = tree.get("spec") or {}, tree.get("status") or {}
        self.taints: list[Tree] = list(spec.get("taints") or ())
        self.unschedulable = bool(spec.get("unschedulable"))
        self.allocatable: ResourceAmounts = amounts(status.get("allocatable"))

    def add(self, pod: PodState) -> None:
        """Count a pod in; the state of it that was there before is counted out."""
        self.remove(pod.uid)
        self.pods[pod.uid] = pod
        self._count(pod, 1)
        if pod.anti_affinity:
            self.shunning[pod.uid] = pod

    def remove(self, uid: str) -> None:
        """Count a pod out, if it is here."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._count(pod, -1)
            self.shunning.pop(uid, None)

    def _count(self, pod: PodState, sign: int) -> None:
        requests = pod.requests
        for name, value in requests.items():
            self.used[name] += sign * value
        for name in SCORED:
            if not requests.get(name):
                self.idle[name] += sign
        if pod.controller and not pod.terminating:
            self.of_controller[pod.controller] += sign
            if not self.of_controller[pod.controller]:
                del self.of_controller[pod.controller]
        for port in pod.host_ports:
            self.ports[port] += sign
            if not self.ports[port]:
                del self.ports[port]

    def copy(self, *, without: Iterable[str] = (), and_also: Iterable[PodState] = ()) -> NodeState:
        """The node as it would be without some pods and with others."""
        left_out = set(without)
        return NodeState(self.tree, [*(pod for uid, pod in self.pods.items() if uid not in left_out), *and_also])


@dataclass
class ClusterState:
    """All nodes, and the objects that filters look at beside them."""

    nodes: dict[str, NodeState] = field(default_factory=dict)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    claims: dict[tuple[str, str], Tree] = field(default_factory=dict)
    volumes: dict[str, Tree] = field(default_factory=dict)
    classes: dict[str, Tree] = field(default_factory=dict)
    resource_claims: dict[tuple[str, str], Tree] = field(default_factory=dict)
    device_classes: dict[str, Tree] = field(default_factory=dict)
    nominated: dict[str, PodState] = field(default_factory=dict)
    """Pods that wait for a node that is being cleared for them, by uid."""

    def with_node(self, node: NodeState) -> ClusterState:
        """The same with another state of one node."""
        return replace(self, nodes={**self.nodes, node.name: node})

    def nominated_to(self, node: str) -> Iterator[PodState]:
        """The pods that a node is being cleared for."""
        return (pod for pod in self.nominated.values() if pod.status.get("nominatedNodeName") == node)
