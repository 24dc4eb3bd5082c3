"""What nodes use: looked up when somebody asks, kept nowhere."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from oarlock import Context, ObjectMeta, VirtualCollection, errors

from ..api.v1beta1.node_metrics import NodeMetrics
from ..usage import of_node
from .cluster import WINDOW, Cluster


class Nodes(VirtualCollection[NodeMetrics]):
    """Read-only: get and list are written, so get and list are served."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def get(self, name: str, ctx: Context) -> NodeMetrics | None:
        client = self._cluster.client
        try:
            node = await client.get("v1/Node", name)
        except errors.NotFound:
            return None
        pods = [pod async for pod in client.list("v1/Pod", field_selector=f"spec.nodeName={name}")]
        return metrics_of(node, pods, ctx)

    async def list(self, ctx: Context) -> list[NodeMetrics]:
        client = self._cluster.client
        by_node = defaultdict(list)
        async for pod in client.list("v1/Pod"):
            by_node[pod["spec"].get("nodeName", "")].append(pod)
        return [metrics_of(node, by_node[node["metadata"]["name"]], ctx) async for node in client.list("v1/Node")]


def metrics_of(node: dict[str, Any], pods: list[Any], ctx: Context) -> NodeMetrics:
    now = datetime.fromtimestamp(int(ctx.clock.now()), UTC)
    metadata = node["metadata"]
    return NodeMetrics(
        metadata=ObjectMeta(name=metadata["name"], labels=metadata.get("labels") or {}, creation_timestamp=now),
        timestamp=now,
        window=WINDOW,
        usage=of_node(pods),
    )
