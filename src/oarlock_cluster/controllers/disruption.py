"""PodDisruptionBudget: how many of the pods that it selects may be evicted now. `status_of` says so.

Source: k8s.io/kubernetes ``pkg/controller/disruption``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, Tree
from oarlock_cluster.controllers.acting import TreeController, namespace_of
from oarlock_cluster.shapes import (
    controller_of,
    is_ready,
    is_terminating,
    labels_of,
    scaled_value,
    selector_of,
    set_condition,
    time_of,
)

__all__ = ["Budgets", "failed_status", "go_text", "status_of"]

PODS = "v1/Pod"
DELETION_S = 120.0
"""How long an eviction counts whose pod isn't being deleted yet."""
_SIZED = {
    "Deployment": "apps/v1/Deployment",
    "ReplicaSet": "apps/v1/ReplicaSet",
    "StatefulSet": "apps/v1/StatefulSet",
    "ReplicationController": "v1/ReplicationController",
}


def status_of(budget: ReadOnlyTree, pods: Sequence[ReadOnlyTree], scale: int, now: float) -> Tree:
    """The status. `scale` is how many pods their controllers want together."""
    spec, before = budget["spec"], budget.get("status") or {}
    generation = budget["metadata"].get("generation", 0)
    expected = scale
    if spec.get("maxUnavailable") is not None:
        wanted = max(0, scale - scaled_value(spec["maxUnavailable"], scale, up=True))
    elif isinstance(spec.get("minAvailable"), str):
        wanted = scaled_value(spec["minAvailable"], scale, up=True)
    else:
        expected, wanted = len(pods), spec.get("minAvailable") or 0
    staying = {pod["metadata"]["name"]: pod for pod in pods if not is_terminating(pod)}
    evicted = {
        name: time
        for name, time in (before.get("disruptedPods") or {}).items()
        if name in staying and (time_of(time) or 0.0) + DELETION_S > now
    }
    healthy = sum(is_ready(pod) for name, pod in staying.items() if name not in evicted)
    allowed = max(0, healthy - wanted) if expected > 0 else 0
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": generation,
    }
    status: Tree = {
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": generation,
        "conditions": set_condition(before.get("conditions") or (), condition, now),
    }
    return {**status, "disruptedPods": evicted} if evicted else status


def failed_status(budget: ReadOnlyTree, why: str, now: float) -> Tree:
    """The status of a budget whose pods can't be counted: nothing may be evicted."""
    before = budget.get("status") or {}
    condition: Tree = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": why}
    if before.get("observedGeneration"):
        condition["observedGeneration"] = before["observedGeneration"]
    conditions = set_condition(before.get("conditions") or (), condition, now)
    return {**_NOTHING, **before, "disruptionsAllowed": 0, "conditions": conditions}


_NOTHING: Tree = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


class _NoScale(Exception):
    """Why it can't be told how many pods are wanted; the text says so."""


class Budgets(
    TreeController[dict[str, Any]],
    of="policy/v1/PodDisruptionBudget",
    name="controllermanager",
    watches=[
        Watched(PODS, to="_of_pod"),
        *(Watched(kind, to="_in_namespace") for kind in _SIZED.values()),
    ],
):
    """Counts the pods of PodDisruptionBudgets."""

    def _of_pod(self, pod: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        namespace = pod["metadata"]["namespace"]
        for budget in self._index(self._kind, "namespace", namespace_of, namespace):
            selector = selector_of(budget["spec"].get("selector"))
            if selector is not None and selector.matches(labels_of(pod)):
                yield namespace, budget["metadata"]["name"]

    def _in_namespace(self, tree: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        namespace = tree["metadata"]["namespace"]
        budgets = self._index(self._kind, "namespace", namespace_of, namespace)
        return [(namespace, budget["metadata"]["name"]) for budget in budgets]

    async def reconcile(self, key: ObjectKey) -> Result | None:
        budget = self.informer.get(key.name, key.namespace)
        if budget is None:
            self._forget(key)
            return None
        pause = self._pause(key, budget)
        if pause is not None:
            return pause
        selector = selector_of(budget["spec"].get("selector"))
        every = self._index(PODS, "namespace of pods", namespace_of, key.namespace)
        pods = [pod for pod in every if selector is not None and selector.matches(labels_of(pod))]
        if not pods:
            self.events.normal(budget, "NoPods", "No matching pods found", action="")
        scale = 0
        if isinstance(budget["spec"].get("minAvailable"), str) or budget["spec"].get("maxUnavailable") is not None:
            try:
                scale = await self._scale(budget, pods)
            except _NoScale as error:
                text = f"Failed to calculate the number of expected pods: {error}"
                self.events.warning(budget, "CalculateExpectedPodCountFailed", text, action="")
                await self._write_status(budget, failed_status(budget, str(error), self._now()))
                return None
        status = status_of(budget, pods, scale, self._now())
        self._tell_of_missed(budget, pods, status)
        await self._write_status(budget, status)
        return Result(DELETION_S) if status.get("disruptedPods") else None

    async def _scale(self, budget: Tree, pods: Sequence[ReadOnlyTree]) -> int:
        """How many pods the controllers of these pods want, each counted once."""
        owners = {owner["uid"]: owner for pod in pods if (owner := controller_of(pod)) is not None}
        if any(controller_of(pod) is None for pod in pods):
            selector = go_text(budget["spec"].get("selector") or {})
            text = (
                f"Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a "
                "result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "
                'To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
            )
            self.events.warning(budget, "UnmanagedPods", text, action="")
        sizes = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is not None and owner["uid"] in owners:
                sized = await self._size(owners.pop(owner["uid"]), budget["metadata"]["namespace"])
                if sized is None:
                    raise _NoScale(f'found no controllers for pod "{pod["metadata"]["name"]}"')
                sizes[sized[0]] = sized[1]
        return sum(sizes.values())

    async def _size(self, owner: ReadOnlyTree, namespace: str) -> tuple[str, int] | None:
        """The uid and the size of what controls pods: of a ReplicaSet's Deployment rather than of the set.

        None if it isn't there. Raises _NoScale.
        """
        kind = _SIZED.get(owner["kind"])
        if kind is None:
            return await self._size_of_other(owner, namespace)
        tree = self.informers[kind].get(owner["name"], namespace)
        if tree is None or tree["metadata"]["uid"] != owner["uid"]:
            return None
        above = controller_of(tree)
        if owner["kind"] == "ReplicaSet" and above is not None and above["kind"] == "Deployment":
            return await self._size(above, namespace)
        return owner["uid"], int(tree["spec"].get("replicas", 1))

    async def _size_of_other(self, owner: ReadOnlyTree, namespace: str) -> tuple[str, int] | None:
        """The size of another kind, by its scale subresource."""
        kind = f"{owner['apiVersion']}/{owner['kind']}"
        try:
            scale: Tree = await self.client.get(kind, owner["name"], namespace=namespace, subresource="scale")
        except errors.NotFound as error:
            if owner["name"] in error.message:
                return None
            group = owner["apiVersion"].rpartition("/")[0]
            resource = ".".join(filter(None, (f"{owner['kind'].lower()}s", group)))
            raise _NoScale(f"{resource} does not implement the scale subresource") from None
        except errors.StatusError as error:
            raise _NoScale(error.message) from None
        return owner["uid"], int((scale.get("spec") or {}).get("replicas", 0))

    def _tell_of_missed(self, budget: ReadOnlyTree, pods: Sequence[ReadOnlyTree], status: ReadOnlyTree) -> None:
        """Say of the pods that were evicted for long that they are still there."""
        before = (budget.get("status") or {}).get("disruptedPods") or {}
        for pod in pods:
            name = pod["metadata"]["name"]
            if name in before and name not in (status.get("disruptedPods") or {}) and not is_terminating(pod):
                where = f"{budget['metadata']['namespace']}/{budget['metadata']['name']}"
                text = f"Pod was expected by PDB {where} to be deleted but it wasn't"
                self.events.warning(pod, "NotDeleted", text, action="")


def go_text(selector: Mapping[str, Any]) -> str:
    """A label selector as Go prints it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    requirements = "".join(
        f"LabelSelectorRequirement{{Key:{expression['key']},Operator:{expression['operator']},"
        f"Values:[{' '.join(expression.get('values') or ())}],}},"
        for expression in selector.get("matchExpressions") or ()
    )
    expressions = f"MatchExpressions:[]LabelSelectorRequirement{{{requirements}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},{expressions},}}"
