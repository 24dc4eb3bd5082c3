"""Taint eviction: pods that don't tolerate a NoExecute taint of their node are deleted. `eviction_s` says when.

Source: k8s.io/kubernetes ``pkg/controller/tainteviction``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, rfc3339
from oarlock_cluster.controllers.acting import TreeController
from oarlock_cluster.controllers.node_lifecycle import pods_by_node
from oarlock_cluster.scheduling.matching import tolerated
from oarlock_cluster.shapes import is_terminating

__all__ = ["TaintEviction", "disruption", "eviction_s"]


def eviction_s(taints: Sequence[ReadOnlyTree], tolerations: Sequence[ReadOnlyTree]) -> float | None:
    """After how long a pod with these tolerations is evicted; None for never."""
    times: list[float] = []
    for taint in taints:
        first = next((toleration for toleration in tolerations if tolerated(taint, [toleration])), None)
        if first is None:
            return 0.0
        if first.get("tolerationSeconds") is not None:
            times.append(max(0, first["tolerationSeconds"]))
    return min(times, default=None)


def disruption(pod: ReadOnlyTree, reason: str, message: str, now: float) -> dict[str, Any]:
    """The condition of a pod that is taken away by somebody."""
    return {
        "type": "DisruptionTarget",
        "observedGeneration": pod["metadata"].get("generation", 0),
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(now),
    }


@dataclass(frozen=True)
class _PlannedEviction:
    """When a pod is to be evicted: later taints and tolerations of an end don't change it."""

    uid: str
    at: float


def _spec_changed(old: Any, new: Any) -> bool:
    return old is None or new is None or old["spec"] != new["spec"]


def _taints_changed(old: Any, new: Any) -> bool:
    return old is None or new is None or old["spec"].get("taints") != new["spec"].get("taints")


class TaintEviction(
    TreeController[dict[str, Any]],
    of="v1/Pod",
    name="taint-eviction-controller",
    concurrency=8,
    when=_spec_changed,
    watches=[Watched("v1/Node", to="_on_node", when=_taints_changed)],
):
    """Evicts pods from nodes with NoExecute taints."""

    def __init__(self) -> None:
        super().__init__()
        self._planned: dict[ObjectKey, _PlannedEviction] = {}

    def _on_node(self, node: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        for pod in self._index("v1/Pod", "node", pods_by_node, node["metadata"]["name"]):
            yield pod["metadata"]["namespace"], pod["metadata"]["name"]

    async def reconcile(self, key: ObjectKey) -> Result | None:
        pod = self.informer.get(key.name, key.namespace)
        node = self.informers["v1/Node"].get((pod or {}).get("spec", {}).get("nodeName") or "")
        taints = [
            present
            for present in ((node or {}).get("spec") or {}).get("taints") or ()
            if present["effect"] == "NoExecute"
        ]
        if pod is None:
            metadata = {"name": key.name, "namespace": key.namespace}
            self._cancel(key, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
            return None
        if is_terminating(pod):
            return None
        uid, now = pod["metadata"]["uid"], self._now()
        wait_s = eviction_s(taints, pod["spec"].get("tolerations") or ()) if taints else None
        plan = self._planned.get(key)
        if wait_s is None:
            self._cancel(key, pod)
            return None
        if plan is None or plan.uid != uid:
            plan = self._planned[key] = _PlannedEviction(uid, now + wait_s)
        elif not wait_s and plan.at > now:
            self._cancel(key, pod)
            plan = self._planned[key] = _PlannedEviction(uid, now)
        if plan.at > now:
            return Result(plan.at - now)
        await self._evict(pod)
        self._planned.pop(key, None)
        return None

    def _cancel(self, key: ObjectKey, pod: ReadOnlyTree) -> None:
        if self._planned.pop(key, None) is not None:
            self.events.normal(pod, "TaintManagerEviction", f"Cancelling deletion of Pod {key}", action="")

    async def _evict(self, pod: ReadOnlyTree) -> None:
        metadata = pod["metadata"]
        text = f"Marking for deletion Pod {metadata['namespace']}/{metadata['name']}"
        self.events.normal(pod, "TaintManagerEviction", text, action="")
        message = "Taint manager: deleting due to NoExecute taint"
        condition = disruption(pod, "DeletionByTaintManager", message, self._now())
        await self._patch("v1/Pod", pod, {"status": {"conditions": [condition]}}, "status")
        try:
            await self.client.delete("v1/Pod", metadata["name"], namespace=metadata["namespace"])
        except errors.NotFound:
            pass
