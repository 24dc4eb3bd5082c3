"""What pods use: looked up when somebody asks, kept nowhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from oarlock import Context, ObjectMeta, VirtualCollection, errors

from ..api.v1beta1.pod_metrics import PodMetrics
from ..usage import of_pod
from .cluster import WINDOW, Cluster


class Pods(VirtualCollection[PodMetrics]):
    """Read-only. A pod that doesn't run has no metrics."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def get(self, name: str, ctx: Context) -> PodMetrics | None:
        try:
            pod = await self._cluster.client.get("v1/Pod", name, namespace=ctx.target.namespace)
        except errors.NotFound:
            return None
        return metrics_of(pod, ctx)

    async def list(self, ctx: Context) -> list[PodMetrics]:
        pods = self._cluster.client.list("v1/Pod", namespace=ctx.target.namespace)
        found = [metrics_of(pod, ctx) async for pod in pods]
        return [metrics for metrics in found if metrics is not None]


def metrics_of(pod: dict[str, Any], ctx: Context) -> PodMetrics | None:
    containers = of_pod(pod)
    if not containers:
        return None
    now = datetime.fromtimestamp(int(ctx.clock.now()), UTC)
    metadata = pod["metadata"]
    return PodMetrics(
        metadata=ObjectMeta(
            name=metadata["name"],
            namespace=metadata["namespace"],
            labels=metadata.get("labels") or {},
            creation_timestamp=now,
        ),
        timestamp=now,
        window=WINDOW,
        containers=containers,
    )
