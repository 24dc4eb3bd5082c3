"""Collection of pods that nobody will take away: of nodes that are gone, ended in great numbers, never scheduled.

`to_collect` says which. Source: k8s.io/kubernetes ``pkg/controller/podgc``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from oarlock import Informer, errors
from oarlock.client import Client
from oarlock.extend import ReadOnlyTree, TimerClock, Tree
from oarlock_cluster.controllers.taint_eviction import disruption
from oarlock_cluster.shapes import condition_of, created, is_terminating, phase_of
from oarlock_cluster.waiting import paced

__all__ = ["PodCollector", "to_collect"]

PERIOD_S = 20.0
QUARANTINE_S = 40.0
MOST_ENDED = 12_500

_ENDED = ("Succeeded", "Failed")


def to_collect(
    pods: Sequence[ReadOnlyTree], nodes: Mapping[str, ReadOnlyTree], gone: frozenset[str], most_ended: int = MOST_ENDED
) -> Iterator[tuple[ReadOnlyTree, bool] | None]:
    """The pods to delete, and whether their node is gone; None for one that stays.

    `gone` are nodes that have been away for long enough.
    """
    ended = []
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if phase_of(pod) in _ENDED:
            ended.append(pod)
        if node in gone:
            yield pod, True
        elif is_terminating(pod) and (not node or _is_out_of_service(nodes.get(node))):
            yield pod, False
        else:
            yield None
    ended.sort(
        key=lambda pod: ((pod["status"].get("reason") or "") != "Evicted", created(pod), pod["metadata"]["name"])
    )
    yield from ((pod, False) for pod in ended[: max(0, len(ended) - most_ended)])


def _is_out_of_service(node: ReadOnlyTree | None) -> bool:
    if node is None or (condition_of(node, "Ready") or {}).get("status") == "True":
        return False
    return any(taint["key"] == "node.kubernetes.io/out-of-service" for taint in node["spec"].get("taints") or ())


class PodCollector:
    """Looks at all pods every twenty seconds."""

    def __init__(self) -> None:
        self._missed: dict[str, float] = {}
        """Since when a node that has pods isn't there."""

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Collect until cancelled."""
        pods: Informer[Tree] = client.informer("v1/Pod")
        nodes: Informer[Tree] = client.informer("v1/Node")
        async with AsyncExitStack() as stack:
            for informer in (pods, nodes):
                await stack.enter_async_context(informer)
                await informer.synced()
            while True:
                await self._collect(client, clock, list(pods), {node["metadata"]["name"]: node for node in nodes})
                await clock.sleep(PERIOD_S)

    async def _collect(
        self, client: Client, clock: TimerClock, pods: Sequence[Tree], nodes: Mapping[str, ReadOnlyTree]
    ) -> None:
        now = clock.now()
        missing = {name for pod in pods if (name := pod["spec"].get("nodeName")) and name not in nodes}
        self._missed = {name: self._missed.get(name, now) for name in missing}
        gone = frozenset(name for name, since in self._missed.items() if now - since >= QUARANTINE_S)
        for found in await paced(to_collect(pods, nodes, gone), every=64):
            if found is not None:
                await self._delete(client, found[0], now, found[1])

    async def _delete(self, client: Client, pod: ReadOnlyTree, now: float, of_lost_node: bool) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        status: dict[str, Any] = {"phase": "Failed"}
        if of_lost_node:
            status["conditions"] = [disruption(pod, "DeletionByPodGC", "PodGC: node no longer exists", now)]
        try:
            if phase_of(pod) not in _ENDED:
                patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
                await client.patch("v1/Pod", name, patch, type="strategic", namespace=namespace, subresource="status")
            await client.delete("v1/Pod", name, namespace=namespace, grace_period_s=0)
        except (errors.NotFound, errors.Conflict):
            pass
