"""ReplicaSet: as many pods of a template as are wanted. `desired` says what is to be done; `ReplicaSets` does it.

A ReplicationController is the same with a selector of labels only. Source: k8s.io/kubernetes
``pkg/controller/replicaset`` and ``replication``, in behaviour.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, Selector, Tree
from oarlock_cluster.controllers.acting import AGAIN, TreeController
from oarlock_cluster.shapes import (
    controller_of,
    created,
    is_active,
    is_available,
    is_ready,
    is_terminating,
    labels_of,
    next_availability_s,
    phase_of,
    pod_from_template,
    ready_since,
    selector_of,
    set_condition,
    without_condition,
)
from oarlock_cluster.waiting import paced

__all__ = ["ReplicaSetPlan", "ReplicaSets", "ReplicationControllers", "deletion_order", "desired", "status_of"]

BURST = 500
"""How many pods are made or deleted at once."""

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True)
class ReplicaSetPlan:
    """How many pods to create, and which to delete."""

    create: int = 0
    delete: Sequence[ReadOnlyTree] = ()


def desired(
    replica_set: ReadOnlyTree, active: Sequence[ReadOnlyTree], related: Callable[[], Iterable[ReadOnlyTree]], now: float
) -> ReplicaSetPlan:
    """What makes the number of active pods right. `related` returns the pods of all sets with the same owner."""
    difference = len(active) - replica_set["spec"].get("replicas", 1)
    if difference <= 0:
        return ReplicaSetPlan(create=min(-difference, BURST))
    if difference >= len(active):
        return ReplicaSetPlan(delete=active[:BURST])
    return ReplicaSetPlan(delete=deletion_order(active, related(), now)[: min(difference, BURST)])


def deletion_order(pods: Sequence[ReadOnlyTree], related: Iterable[ReadOnlyTree], now: float) -> list[ReadOnlyTree]:
    """Pods, those first that are missed least."""
    on_node = Counter(pod["spec"].get("nodeName", "") for pod in related if is_active(pod))

    def order(pod: ReadOnlyTree) -> tuple[Any, ...]:
        node = pod["spec"].get("nodeName", "")
        restarts = max(
            (status.get("restartCount", 0) for status in (pod.get("status") or {}).get("containerStatuses") or ()),
            default=0,
        )
        return (
            bool(node),
            _PHASES.get(phase_of(pod), 0),
            is_ready(pod),
            _deletion_cost(pod),
            -on_node[node],
            _age_rank(ready_since(pod), now),
            -restarts,
            _age_rank(created(pod), now),
            pod["metadata"].get("uid", ""),
        )

    return sorted(pods, key=order)


def _deletion_cost(pod: ReadOnlyTree) -> int:
    text = (pod["metadata"].get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _age_rank(since: float | None, now: float) -> int:
    """The logarithm of an age, so that pods of about the same age are chosen from at random."""
    age_ns = 0.0 if since is None else (now - since) * 1e9
    return int(math.log2(age_ns)) if age_ns > 1 else -1


def look_of(replica_set: ReadOnlyTree, pod: ReadOnlyTree, now: float) -> tuple[bool, bool, bool]:
    """Whether a pod has the labels of the template, is ready, and is available."""
    spec = replica_set["spec"]
    template = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    labelled = template.items() <= labels_of(pod).items()
    return labelled, is_ready(pod), is_available(pod, spec.get("minReadySeconds", 0), now)


def status_of(
    replica_set: ReadOnlyTree, active: Sequence[tuple[bool, bool, bool]], terminating: int, failure: str, now: float
) -> Tree:
    """The status. `active` are what `look_of` says of each pod, `failure` why pods couldn't be made or deleted."""
    spec, before = replica_set["spec"], replica_set.get("status") or {}
    labelled, ready, available = (sum(looks) for looks in zip(*active, strict=True)) if active else (0, 0, 0)
    conditions = list(before.get("conditions") or ())
    known = any(present["type"] == "ReplicaFailure" for present in conditions)
    if failure and not known:
        reason = "FailedCreate" if len(active) < spec.get("replicas", 1) else "FailedDelete"
        condition = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": failure}
        conditions = set_condition(conditions, condition, now)
    elif not failure:
        conditions = without_condition(conditions, "ReplicaFailure")
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": labelled,
        "readyReplicas": ready,
        "availableReplicas": available,
        "terminatingReplicas": terminating,
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
    made = {name: value for name, value in status.items() if value or name in ("replicas", "terminatingReplicas")}
    return {**made, "conditions": conditions} if conditions else made


def _counts(old: ReadOnlyTree | None, new: ReadOnlyTree | None) -> bool:
    """Whether a change of a pod may change how many there are, or how far they are."""
    return old is None or new is None or _facts(old) != _facts(new)


def _facts(pod: ReadOnlyTree) -> tuple[Any, ...]:
    owners, ready = pod["metadata"].get("ownerReferences"), ready_since(pod)
    return labels_of(pod), owners, is_terminating(pod), phase_of(pod), ready


class ReplicaSets(
    TreeController[dict[str, Any]],
    of="apps/v1/ReplicaSet",
    name="replicaset-controller",
    concurrency=5,
    watches=[Watched("v1/Pod", to="_of_pod", when=_counts)],
):
    """Brings pods in line with ReplicaSets."""

    def _of_pod(self, pod: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        return self._concerns("v1/Pod", pod, self._kind.rpartition("/")[2])

    async def reconcile(self, key: ObjectKey) -> Result | None:
        replica_set = self.informer.get(key.name, key.namespace)
        if replica_set is None:
            self._forget(key)
            return None
        pause = self._pause(key, replica_set)
        if pause is not None:
            return pause
        shows = self._shows(key)
        active = await self._claim("v1/Pod", replica_set, is_active)
        owned = self._owned("v1/Pod", replica_set)
        going = await paced(is_terminating(pod) and phase_of(pod) not in ("Succeeded", "Failed") for pod in owned)
        failure: errors.StatusError | None = None
        if shows and not is_terminating(replica_set):
            failure = await self._bring_in_line(replica_set, active)
        now = self._now()
        text = failure.message if failure is not None else ""
        looks = await paced(look_of(replica_set, pod, now) for pod in active)
        await self._write_status(replica_set, status_of(replica_set, looks, sum(going), text, now))
        if failure is not None:
            self._looked.pop(key, None)
            return AGAIN
        wait_s = next_availability_s(active, replica_set["spec"].get("minReadySeconds", 0), now)
        return None if wait_s is None else Result(wait_s)

    async def _bring_in_line(self, replica_set: Tree, active: Sequence[Tree]) -> errors.StatusError | None:
        """Make or delete pods. Returns the error that ended it."""
        plan = desired(replica_set, active, lambda: self._related(replica_set), self._now())
        template = replica_set["spec"].get("template") or {}
        pods = [pod_from_template(template, replica_set) for _ in range(plan.create)]
        for pod in pods:
            pod["metadata"]["generateName"] = f"{replica_set['metadata']['name']}-"
        try:
            await self._make_pods(replica_set, pods)
            await self._take_pods(replica_set, plan.delete)
        except errors.StatusError as error:
            return error
        return None

    def _related(self, replica_set: Tree) -> list[Tree]:
        """The pods of the sets that have the same controller, this one's among them."""
        owner = controller_of(replica_set)
        sets = [replica_set]
        if owner is not None:
            sets = self._owned(self._kind, {"metadata": {"uid": owner["uid"]}})
        return [pod for each in sets for pod in self._owned("v1/Pod", each)]


class ReplicationControllers(
    ReplicaSets,
    of="v1/ReplicationController",
    name="replication-controller",
    concurrency=5,
    watches=[Watched("v1/Pod", to="_of_pod", when=_counts)],
):
    """Brings pods in line with ReplicationControllers."""

    def _selector(self, owner: ReadOnlyTree) -> Selector | None:
        return selector_of({"matchLabels": owner["spec"].get("selector") or {}})

    async def _write_status(
        self, obj: ReadOnlyTree, status: Mapping[str, Any], annotations: Mapping[str, str] | None = None
    ) -> None:
        known = {name: value for name, value in status.items() if name != "terminatingReplicas"}
        await super()._write_status(obj, known, annotations)
