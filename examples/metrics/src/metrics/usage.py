"""What pods and nodes use. Here it is worked out of what a pod asks for; yours is measured by kubelets.

A pod that runs uses half of what its containers request, or what its annotations ``usage/cpu`` and ``usage/memory``
say of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from oarlock import format_quantity, parse_quantity

from .api.v1beta1.node_metrics import Usage
from .api.v1beta1.pod_metrics import ContainerMetrics

Tree = Mapping[str, Any]
HALF = Decimal("0.5")
LEAST = {"cpu": "1m", "memory": "4Mi"}
OF_A_NODE = {"cpu": "100m", "memory": "512Mi"}
"""What a node uses beside its pods."""


class Amount(NamedTuple):
    """CPUs and bytes."""

    cpu: Decimal
    memory: Decimal

    @classmethod
    def read(cls, resources: Mapping[str, Any]) -> Amount:
        return cls(parse_quantity(resources["cpu"]), parse_quantity(resources["memory"]))

    def plus(self, other: Amount) -> Amount:
        return Amount(self.cpu + other.cpu, self.memory + other.memory)

    def shown(self) -> Usage:
        return Usage(cpu=format_quantity(self.cpu), memory=format_quantity(int(self.memory), binary=True))


def of_container(pod: Tree, container: Tree) -> Amount:
    said = pod["metadata"].get("annotations") or {}
    requests = (container.get("resources") or {}).get("requests") or {}
    amounts = []
    for name, least in LEAST.items():
        if f"usage/{name}" in said:
            amounts.append(parse_quantity(said[f"usage/{name}"]))
        else:
            amounts.append(max(parse_quantity(requests.get(name, 0)) * HALF, parse_quantity(least)))
    return Amount(*amounts)


def of_pod(pod: Tree) -> list[ContainerMetrics]:
    """Of each container; nothing unless the pod runs."""
    if (pod.get("status") or {}).get("phase") != "Running":
        return []
    containers = pod["spec"]["containers"]
    return [ContainerMetrics(name=one["name"], usage=of_container(pod, one).shown()) for one in containers]


def of_node(pods: list[Tree]) -> Usage:
    """Of a node with these pods."""
    total = Amount.read(OF_A_NODE)
    for pod in pods:
        if (pod.get("status") or {}).get("phase") == "Running":
            for container in pod["spec"]["containers"]:
                total = total.plus(of_container(pod, container))
    return total.shown()
