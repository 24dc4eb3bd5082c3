"""metrics.k8s.io: what simulated pods and nodes use, worked out when it is asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

from oarlock import (
    Context,
    ListMap,
    Model,
    ObjectMeta,
    Quantity,
    Resource,
    VirtualCollection,
    format_quantity,
)
from oarlock.extend import Tree
from oarlock_cluster.nodes.behaviour import Usage
from oarlock_cluster.nodes.kubelets import SimulatedNodes

__all__ = ["NodeMetrics", "NodeUsages", "PodMetrics", "PodUsages"]

WINDOW = "10s"


class UsedResources(Model):
    """What is used."""

    cpu: Quantity
    memory: Quantity


class UsedByContainer(Model):
    """What a container uses."""

    name: str
    usage: UsedResources


class PodMetrics(Resource, group="metrics.k8s.io", version="v1beta1", plural="pods", singular="pod"):
    """What the containers of a pod used in the `window` before `timestamp`."""

    timestamp: datetime
    window: str
    containers: Annotated[list[UsedByContainer], ListMap("name")]


class NodeMetrics(
    Resource, group="metrics.k8s.io", version="v1beta1", plural="nodes", singular="node", scope="Cluster"
):
    """What a node used in the `window` before `timestamp`."""

    timestamp: datetime
    window: str
    usage: UsedResources


def _used(usages: Iterable[Usage]) -> UsedResources:
    every = [used for usage in usages for used in usage.values()]
    cpu = round(sum(1e6 * used.get("cpu", 0.0) for used in every))
    memory = round(sum(used.get("memory", 0.0) for used in every))
    return UsedResources(cpu=format_quantity(Decimal(cpu) / 1_000_000), memory=format_quantity(memory, binary=True))


def _metadata(tree: Tree, ctx: Context) -> tuple[ObjectMeta, datetime]:
    now = datetime.fromtimestamp(int(ctx.clock.now()), UTC)
    given = tree["metadata"]
    names = {"name": given["name"], "namespace": given.get("namespace") or ""}
    return ObjectMeta(**names, labels=given.get("labels") or {}, creation_timestamp=now), now


class PodUsages(VirtualCollection[PodMetrics]):
    """Pods that don't run have no metrics."""

    def __init__(self, nodes: SimulatedNodes) -> None:
        self._nodes = nodes

    async def get(self, name: str, ctx: Context) -> PodMetrics | None:
        return next((found for found in await self.list(ctx) if found.metadata.name == name), None)

    async def list(self, ctx: Context) -> list[PodMetrics]:
        found = []
        for pod, usage in self._nodes.usages():
            if ctx.target.namespace in ("", pod["metadata"]["namespace"]):
                metadata, now = _metadata(pod, ctx)
                containers = [UsedByContainer(name=name, usage=_used([{name: used}])) for name, used in usage.items()]
                found.append(PodMetrics(metadata=metadata, timestamp=now, window=WINDOW, containers=containers))
        return found


class NodeUsages(VirtualCollection[NodeMetrics]):
    """A node uses what its pods use."""

    def __init__(self, nodes: SimulatedNodes) -> None:
        self._nodes = nodes

    async def get(self, name: str, ctx: Context) -> NodeMetrics | None:
        return next((found for found in await self.list(ctx) if found.metadata.name == name), None)

    async def list(self, ctx: Context) -> list[NodeMetrics]:
        by_node: defaultdict[str, list[Any]] = defaultdict(list)
        for pod, usage in self._nodes.usages():
            by_node[pod["spec"]["nodeName"]].append(usage)
        found = []
        for node in self._nodes.working():
            metadata, now = _metadata(node, ctx)
            total = _used(by_node[metadata.name])
            found.append(NodeMetrics(metadata=metadata, timestamp=now, window=WINDOW, usage=total))
        return found
