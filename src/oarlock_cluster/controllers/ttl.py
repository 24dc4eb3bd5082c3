"""TTL: how long kubelets may keep Secrets and ConfigMaps, by the number of nodes, as an annotation of each.

Source: k8s.io/kubernetes ``pkg/controller/ttl``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oarlock.controllers import ObjectKey, Watched
from oarlock.extend import ReadOnlyTree
from oarlock_cluster.controllers.acting import TreeController

__all__ = ["NodeTTL", "next_step"]

ANNOTATION = "node.alpha.kubernetes.io/ttl"
_STEPS = ((0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, 2**31, 300))
"""From how many nodes, to how many, and the seconds then. They overlap, so that a single node changes little."""


def next_step(step: int, nodes: int) -> int:
    """The step for so many nodes, coming from another."""
    while nodes > _STEPS[step][1]:
        step += 1
    while nodes < _STEPS[step][0]:
        step -= 1
    return step


def _came_or_went(old: Any, new: Any) -> bool:
    return old is None or new is None


class NodeTTL(
    TreeController[dict[str, Any]],
    of="v1/Node",
    name="ttl-controller",
    watches=[Watched("v1/Node", to="_all", when=_came_or_went)],
):
    """Annotates nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._step = 0

    def _all(self, node: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        """All nodes when the step changes, else none besides the node itself."""
        before, self._step = self._step, next_step(self._step, len(self.informer))
        return [("", other["metadata"]["name"]) for other in self.informer] if before != self._step else []

    async def reconcile(self, key: ObjectKey) -> None:
        node = self.informer.get(key.name)
        seconds = str(_STEPS[self._step][2])
        if node is not None and (node["metadata"].get("annotations") or {}).get(ANNOTATION) != seconds:
            await self._patch("v1/Node", node, {"metadata": {"annotations": {ANNOTATION: seconds}}})
