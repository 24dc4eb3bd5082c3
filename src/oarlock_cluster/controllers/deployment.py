"""Deployment: rolls templates of pods out by ReplicaSets. `desired` says what is to be done; `Deployments` does it.

See also: `rollout`, how many pods each set is to have. Source: k8s.io/kubernetes ``pkg/controller/deployment``, in
behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, Tree, rfc3339
from oarlock_cluster.controllers.acting import AGAIN, TreeController, namespace_ends
from oarlock_cluster.controllers.rollout import (
    HASH_LABEL,
    REVISION,
    Rollout,
    annotations_for,
    replicas_annotations,
    revision_of,
    same_template,
    total,
)
from oarlock_cluster.shapes import (
    controller_reference,
    is_terminating,
    labels_of,
    phase_of,
    time_of,
    without_condition,
)

__all__ = ["DeploymentPlan", "Deployments", "desired"]

NO_LIMIT = 2**31 - 1


@dataclass
class DeploymentPlan:
    """What to do. `scale` and `patch` are by the name of a ReplicaSet; `status` is the Deployment's.

    `create` is the number of replicas of a new set.
    """

    create: int | None = None
    scale: dict[str, int] = field(default_factory=dict)
    patch: dict[str, Tree] = field(default_factory=dict)
    delete: list[str] = field(default_factory=list)
    revision: str = ""
    status: Tree = field(default_factory=dict)
    wait_s: float | None = None


def desired(deployment: ReadOnlyTree, sets: Sequence[ReadOnlyTree], old_pods: bool, now: float) -> DeploymentPlan:
    """What brings the sets a step nearer. `old_pods` says whether pods of old sets still run."""
    rollout = Rollout.of(deployment, sets)
    plan = DeploymentPlan()
    status = _Status(deployment, rollout, now)
    if is_terminating(deployment):
        plan.status = status.counted()
        return plan
    status.mark_pause()
    _adjust_new(plan, rollout, status)
    recreate = (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
    if deployment["spec"].get("paused"):
        plan.scale = rollout.proportional()
        plan.delete = rollout.superfluous()
        plan.status = status.counted()
    elif rollout.was_scaled():
        plan.scale = rollout.proportional()
        plan.status = status.counted()
    else:
        (_recreate if recreate else _roll)(plan, rollout, old_pods)
        if plan.create is not None:
            status.created(plan.create)
        if not plan.scale and plan.create is None and rollout.complete(deployment.get("status") or {}):
            plan.delete = rollout.superfluous()
        plan.status = status.rolled_out()
        plan.wait_s = status.wait_s()
    return plan


def _adjust_new(plan: DeploymentPlan, rollout: Rollout, status: _Status) -> None:
    """Have the annotations of the Deployment on the set of its template, and its revision on the Deployment."""
    new = rollout.new
    if new is None:
        return
    changed = annotations_for(rollout.deployment, new, rollout.next_revision())
    patch: Tree = {"metadata": {"annotations": changed}} if changed else {}
    min_ready = rollout.deployment["spec"].get("minReadySeconds", 0)
    if new["spec"].get("minReadySeconds", 0) != min_ready:
        patch["spec"] = {"minReadySeconds": min_ready}
    if patch:
        plan.patch[new["metadata"]["name"]] = patch
    plan.revision = changed.get(REVISION) or str(revision_of(new))
    status.found()


def _roll(plan: DeploymentPlan, rollout: Rollout, old_pods: bool) -> None:
    if rollout.new is None:
        plan.create = rollout.new_size(0)
        plan.revision = str(rollout.next_revision())
        return
    size = rollout.new["spec"]["replicas"]
    wanted = rollout.new_size(size)
    plan.scale = {rollout.new["metadata"]["name"]: wanted} if wanted != size else rollout.scaled_down()


def _recreate(plan: DeploymentPlan, rollout: Rollout, old_pods: bool) -> None:
    plan.scale = {replica_set["metadata"]["name"]: 0 for replica_set in rollout.old if replica_set["spec"]["replicas"]}
    if plan.scale or old_pods or any((replica_set.get("status") or {}).get("replicas") for replica_set in rollout.old):
        return
    if rollout.new is None:
        plan.create = rollout.replicas
        plan.revision = str(rollout.next_revision())
    elif rollout.new["spec"]["replicas"] != rollout.replicas:
        plan.scale = {rollout.new["metadata"]["name"]: rollout.replicas}


class _Status:
    """The status of a Deployment, in the making."""

    def __init__(self, deployment: ReadOnlyTree, rollout: Rollout, now: float) -> None:
        self._deployment, self._rollout, self._now = deployment, rollout, now
        self._before: ReadOnlyTree = deployment.get("status") or {}
        self._conditions: list[Any] = list(self._before.get("conditions") or ())
        self._extra = 0
        self._new_name = rollout.new["metadata"]["name"] if rollout.new is not None else rollout.new_name()
        deadline = deployment["spec"].get("progressDeadlineSeconds")
        self._deadline_s: int | None = None if deadline == NO_LIMIT else deadline

    def _condition(self, type: str) -> Tree | None:
        return next((condition for condition in self._conditions if condition["type"] == type), None)

    def _set(self, type: str, status: str, reason: str, message: str, *, again: bool = False) -> None:
        """Set a condition; nothing is done if it has this status and reason, but `again`."""
        old = self._condition(type)
        if old is not None and (old["status"], old["reason"]) == (status, reason) and not again:
            return
        time = rfc3339(self._now)
        since = old["lastTransitionTime"] if old is not None and old["status"] == status else time
        made = {"type": type, "status": status, "lastUpdateTime": time, "lastTransitionTime": since}
        self._conditions = [*without_condition(self._conditions, type), {**made, "reason": reason, "message": message}]

    def mark_pause(self) -> None:
        progressing = self._condition("Progressing")
        reason = progressing["reason"] if progressing is not None else ""
        if self._deadline_s is None or reason == "ProgressDeadlineExceeded":
            return
        paused = bool(self._deployment["spec"].get("paused"))
        if paused and reason != "DeploymentPaused":
            self._set("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
        elif not paused and reason == "DeploymentPaused":
            self._set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")

    def found(self) -> None:
        if self._deadline_s is not None and self._condition("Progressing") is None:
            text = f'Found new replica set "{self._new_name}"'
            self._set("Progressing", "True", "FoundNewReplicaSet", text)

    def created(self, replicas: int) -> None:
        """A new set is made, which has no pods yet."""
        self._extra = replicas
        if self._deadline_s is not None:
            text = f'Created new replica set "{self._new_name}"'
            self._set("Progressing", "True", "NewReplicaSetCreated", text)

    def counted(self) -> Tree:
        """The numbers, and whether enough is available."""
        every, new = self._rollout.every, self._rollout.new
        available = total(every, "availableReplicas")
        counts = {
            "observedGeneration": self._deployment["metadata"].get("generation", 0),
            "replicas": total(every, "replicas"),
            "updatedReplicas": total([new] if new is not None else [], "replicas"),
            "readyReplicas": total(every, "readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(
                0, sum(replica_set["spec"]["replicas"] for replica_set in every) + self._extra - available
            ),
        }
        status: Tree = {name: count for name, count in counts.items() if count}
        status["terminatingReplicas"] = total(every, "terminatingReplicas")
        if self._before.get("collisionCount"):
            status["collisionCount"] = self._before["collisionCount"]
        if available >= self._rollout.replicas - self._rollout.max_unavailable:
            text = "Deployment has minimum availability."
            self._set("Available", "True", "MinimumReplicasAvailable", text)
        else:
            text = "Deployment does not have minimum availability."
            self._set("Available", "False", "MinimumReplicasUnavailable", text)
        status["conditions"] = self._conditions
        return status

    def rolled_out(self) -> Tree:
        """The numbers, and how the rollout gets on."""
        status = self.counted()
        current = self._condition("Progressing")
        reason = current["reason"] if current is not None else ""
        ended = reason == "NewReplicaSetAvailable" and status.get("replicas", 0) == status.get("updatedReplicas", 0)
        subject = f'ReplicaSet "{self._new_name}"'
        if self._rollout.new is None and not self._extra:
            subject = f'Deployment "{self._deployment["metadata"]["name"]}"'
        if self._deadline_s is None:
            self._conditions = without_condition(self._conditions, "Progressing")
        elif ended:
            pass
        elif self._rollout.complete(status):
            self._set("Progressing", "True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.")
        elif self._progressed(status):
            self._set("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.", again=True)
        elif self._timed_out(current):
            self._set("Progressing", "False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.")
        self._conditions = without_condition(self._conditions, "ReplicaFailure")
        failure = self._rollout.failure()
        if failure is not None:
            self._conditions.append({**failure, "lastUpdateTime": failure["lastTransitionTime"]})
        return {**status, "conditions": self._conditions}

    def _progressed(self, status: ReadOnlyTree) -> bool:
        def old(of: ReadOnlyTree) -> int:
            return int(of.get("replicas", 0) - of.get("updatedReplicas", 0))

        grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return old(status) < old(self._before) or any(status.get(n, 0) > self._before.get(n, 0) for n in grown)

    def _timed_out(self, current: Tree | None) -> bool:
        if current is None or current["reason"] == "NewReplicaSetAvailable" or self._deadline_s is None:
            return False
        since = time_of(current["lastUpdateTime"]) or 0.0
        return current["reason"] == "ProgressDeadlineExceeded" or since + self._deadline_s < self._now

    def wait_s(self) -> float | None:
        """When to look again whether the deadline has passed."""
        current = self._condition("Progressing")
        if self._deadline_s is None or current is None:
            return None
        if current["status"] == "False" or current["reason"] == "NewReplicaSetAvailable":
            return None
        left = (time_of(current["lastUpdateTime"]) or 0.0) + self._deadline_s - self._now
        return max(left, 0.0) + 1.0


class Deployments(
    TreeController[dict[str, Any]],
    of="apps/v1/Deployment",
    name="deployment-controller",
    concurrency=5,
    watches=[
        Watched("apps/v1/ReplicaSet", to="_of_set"),
        Watched("v1/Pod", to="_of_pod", when=lambda old, new: not new),
    ],
):
    """Brings ReplicaSets in line with Deployments."""

    def _of_set(self, replica_set: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        return self._concerns("apps/v1/ReplicaSet", replica_set, "Deployment")

    def _of_pod(self, pod: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        """A Deployment that recreates waits until the last pod of its old sets is gone."""
        for reference in pod["metadata"].get("ownerReferences") or ():
            owner = self.informers["apps/v1/ReplicaSet"].get(reference["name"], pod["metadata"]["namespace"])
            if owner is not None:
                yield from self._of_set(owner)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        deployment = self.informer.get(key.name, key.namespace)
        if deployment is None:
            return None
        if not deployment["spec"].get("selector"):
            text = "This deployment is selecting all pods. A non-empty selector is required."
            self.events.warning(deployment, "SelectingAll", text, action="")
            return None
        sets = await self._claim("apps/v1/ReplicaSet", deployment)
        plan = desired(deployment, sets, self._has_old_pods(deployment, sets), self._now())
        by_name = {replica_set["metadata"]["name"]: replica_set for replica_set in sets}
        for name in plan.patch.keys() - plan.scale.keys():
            await self._change(by_name[name], plan.patch[name])
        for name, size in plan.scale.items():
            await self._scale(deployment, by_name[name], size, plan.patch.get(name) or {})
        for name in plan.delete:
            try:
                await self.client.delete("apps/v1/ReplicaSet", name, namespace=key.namespace)
            except errors.NotFound:
                pass
        if plan.create is not None and not await self._create(deployment, sets, plan):
            return AGAIN
        annotations = {REVISION: plan.revision} if plan.revision else {}
        await self._write_status(deployment, plan.status, annotations)
        return None if plan.wait_s is None else Result(plan.wait_s)

    def _has_old_pods(self, deployment: ReadOnlyTree, sets: Sequence[ReadOnlyTree]) -> bool:
        if (deployment["spec"].get("strategy") or {}).get("type") != "Recreate":
            return False
        old = [
            replica_set
            for replica_set in sets
            if not same_template(deployment["spec"]["template"], replica_set["spec"]["template"])
        ]
        return any(
            phase_of(pod) not in ("Failed", "Succeeded")
            for replica_set in old
            for pod in self._owned("v1/Pod", replica_set)
        )

    async def _change(self, replica_set: ReadOnlyTree, patch: Tree) -> None:
        metadata = {**(patch.get("metadata") or {}), "resourceVersion": replica_set["metadata"]["resourceVersion"]}
        await self._patch("apps/v1/ReplicaSet", replica_set, {**patch, "metadata": metadata})

    async def _scale(self, deployment: ReadOnlyTree, replica_set: ReadOnlyTree, size: int, patch: Tree) -> None:
        before, name = replica_set["spec"]["replicas"], replica_set["metadata"]["name"]
        annotations = {**((patch.get("metadata") or {}).get("annotations") or {}), **replicas_annotations(deployment)}
        spec = {**(patch.get("spec") or {}), "replicas": size}
        await self._change(replica_set, {"metadata": {"annotations": annotations}, "spec": spec})
        if size != before:
            way = "up" if size > before else "down"
            text = f"Scaled {way} replica set {name} from {before} to {size}"
            self.events.normal(deployment, "ScalingReplicaSet", text, action="")

    async def _create(self, deployment: Tree, sets: Sequence[ReadOnlyTree], plan: DeploymentPlan) -> bool:
        """Make the set of the template, whose name says which template it is. Returns whether it is there."""
        tree = new_set(Rollout.of(deployment, sets), plan.create or 0, plan.revision)
        metadata = tree["metadata"]
        try:
            await self.client.create(tree)
        except errors.AlreadyExists:
            there = self.informers["apps/v1/ReplicaSet"].get(metadata["name"], metadata["namespace"])
            if there is not None and not any(
                replica_set["metadata"]["uid"] == there["metadata"]["uid"] for replica_set in sets
            ):
                count = (deployment.get("status") or {}).get("collisionCount", 0) + 1
                await self._write_status(deployment, {**(deployment.get("status") or {}), "collisionCount": count})
            return False
        except errors.StatusError as error:
            if not namespace_ends(error):
                text = f'Failed to create new replica set "{metadata["name"]}": {error.message}'
                self.events.warning(deployment, "ReplicaSetCreateError", text, action="")
            return False
        if plan.create:
            text = f"Scaled up replica set {metadata['name']} from 0 to {plan.create}"
            self.events.normal(deployment, "ScalingReplicaSet", text, action="")
        return True


def new_set(rollout: Rollout, replicas: int, revision: str) -> Tree:
    """A ReplicaSet of the Deployment's template."""
    deployment = rollout.deployment
    metadata, spec, name = deployment["metadata"], deployment["spec"], rollout.new_name()
    own = {HASH_LABEL: name.rpartition("-")[2]}
    template = {**spec["template"], "metadata": {**(spec["template"].get("metadata") or {})}}
    template["metadata"]["labels"] = labels = {**labels_of(template), **own}
    selector = {**spec["selector"], "matchLabels": {**(spec["selector"].get("matchLabels") or {}), **own}}
    blank: Tree = {"metadata": {}, "spec": {}}
    annotations = {**annotations_for(deployment, blank, int(revision)), **replicas_annotations(deployment)}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "ownerReferences": [controller_reference(deployment)],
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.get("minReadySeconds", 0),
            "selector": selector,
            "template": template,
        },
    }
