"""StatefulSet: pods with names and claims of their own, one after the other. `desired` says what the next step is.

Source: k8s.io/kubernetes ``pkg/controller/statefulset``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, Tree
from oarlock_cluster.controllers.acting import AGAIN, namespace_ends
from oarlock_cluster.controllers.revisions import REVISION_LABEL, REVISIONS, RevisionedController
from oarlock_cluster.shapes import (
    controller_reference,
    is_available,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    next_availability_s,
    phase_of,
    pod_from_template,
)

__all__ = ["StatefulSetPlan", "StatefulSets", "desired", "ordinal_of"]

CLAIMS = "v1/PersistentVolumeClaim"


@dataclass
class StatefulSetPlan:
    """Ordinals of pods to create, pods to delete, and pods whose claims are to follow the retention policy."""

    create: list[int] = field(default_factory=list)
    delete: list[Tree] = field(default_factory=list)
    keep: list[Tree] = field(default_factory=list)


def ordinal_of(pod: ReadOnlyTree) -> int:
    """The number at the end of a pod's name; -1 if it has none."""
    text = pod["metadata"]["name"].rpartition("-")[2]
    return int(text) if text.isdecimal() else -1


def _set_of(pod: ReadOnlyTree) -> str:
    """The name of the StatefulSet that a pod's name is for."""
    return str(pod["metadata"]["name"].rpartition("-")[0])


def _range(stateful_set: ReadOnlyTree) -> range:
    spec = stateful_set["spec"]
    start = (spec.get("ordinals") or {}).get("start", 0)
    return range(start, start + spec.get("replicas", 1))


def _partition(stateful_set: ReadOnlyTree) -> int:
    """From which of its pods on those of the new revision are wanted."""
    rolling = (stateful_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return int(rolling.get("partition", 0))


def desired(stateful_set: ReadOnlyTree, pods: Sequence[Tree], update: str, now: float) -> StatefulSetPlan:
    """The next step. `update` is the name of the revision that pods are updated to."""
    spec, plan = stateful_set["spec"], StatefulSetPlan()
    if is_terminating(stateful_set):
        return plan
    wanted, by_ordinal = _range(stateful_set), {ordinal_of(pod): pod for pod in pods}
    condemned = [by_ordinal[at] for at in sorted(by_ordinal, reverse=True) if at >= 0 and at not in wanted]
    one_by_one = spec.get("podManagementPolicy", "OrderedReady") != "Parallel"
    ready_s = spec.get("minReadySeconds", 0)

    def available(pod: Tree | None) -> bool:
        running = pod is not None and phase_of(pod) == "Running" and not is_terminating(pod)
        return running and pod is not None and is_available(pod, ready_s, now)

    for at in wanted:
        pod = by_ordinal.get(at)
        if pod is None:
            plan.create.append(at)
        elif phase_of(pod) in ("Failed", "Succeeded"):
            plan.delete += [] if is_terminating(pod) else [pod]
        else:
            plan.keep.append(pod)
        if one_by_one and not available(pod):
            return plan
    plan.keep += condemned
    ordered = [by_ordinal[at] for at in wanted if at in by_ordinal] + condemned[::-1]
    first_unavailable = next((pod for pod in ordered if not available(pod)), None)
    for pod in condemned:
        if one_by_one and (is_terminating(pod) or (not available(pod) and pod is not first_unavailable)):
            return plan
        plan.delete += [] if is_terminating(pod) else [pod]
        if one_by_one:
            return plan
    if plan.create or plan.delete or (spec.get("updateStrategy") or {}).get("type") == "OnDelete":
        return plan
    for at in reversed(wanted[_partition(stateful_set) :]):
        pod = by_ordinal[at]
        if labels_of(pod).get(REVISION_LABEL) != update and not is_terminating(pod):
            plan.delete.append(pod)
            return plan
        if not available(pod):
            return plan
    return plan


def status_of(stateful_set: ReadOnlyTree, pods: Sequence[Tree], current: str, update: str, now: float) -> Tree:
    """The status, with the current revision once all pods are updated."""
    spec, before = stateful_set["spec"], stateful_set.get("status") or {}
    there = [pod for pod in pods if phase_of(pod)]
    ready = [pod for pod in there if phase_of(pod) == "Running" and is_ready(pod)]
    staying = [labels_of(pod).get(REVISION_LABEL) for pod in there if not is_terminating(pod)]
    updated = staying.count(update)
    rolling = (spec.get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
    if rolling and updated == len(there) == len(ready) == spec.get("replicas", 1):
        current = update
    counts = {
        "readyReplicas": len(ready),
        "currentReplicas": staying.count(current),
        "updatedReplicas": updated,
    }
    return {
        "observedGeneration": stateful_set["metadata"].get("generation", 0),
        "replicas": len(there),
        "availableReplicas": sum(is_available(pod, spec.get("minReadySeconds", 0), now) for pod in ready),
        **{name: count for name, count in counts.items() if count},
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": before.get("collisionCount", 0),
    }


class StatefulSets(
    RevisionedController[dict[str, Any]],
    of="apps/v1/StatefulSet",
    name="statefulset-controller",
    concurrency=5,
    watches=[
        Watched("v1/Pod", to="_of_pod"),
        Watched(CLAIMS, to=lambda claim: ()),
        Watched(REVISIONS, to=lambda revision: ()),
    ],
):
    """Brings pods and their claims in line with StatefulSets."""

    _hash_label = "controller.kubernetes.io/hash"

    def _of_pod(self, pod: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        return self._concerns("v1/Pod", pod, "StatefulSet")

    async def reconcile(self, key: ObjectKey) -> Result | None:
        stateful_set = self.informer.get(key.name, key.namespace)
        if stateful_set is None:
            self._forget(key)
            return None
        if not self._shows(key):
            return None
        pods = await self._claim("v1/Pod", stateful_set, lambda pod: _set_of(pod) == key.name)
        revisions = await self._revisions(stateful_set)
        update = await self._current_revision(stateful_set, revisions)
        if update is None:
            return AGAIN
        name = (stateful_set.get("status") or {}).get("currentRevision")
        current = next((revision for revision in revisions if revision["metadata"]["name"] == name), update)
        names = current["metadata"]["name"], update["metadata"]["name"]
        now = self._now()
        plan = desired(stateful_set, pods, names[1], now)
        failed = await self._act(stateful_set, plan, current, update)
        await self._write_status(stateful_set, status_of(stateful_set, pods, *names, now))
        live = {*names, *(labels_of(pod).get(REVISION_LABEL) for pod in pods)}
        await self._forget_revisions(stateful_set, revisions, live)
        if failed:
            return AGAIN
        wait_s = next_availability_s(pods, stateful_set["spec"].get("minReadySeconds", 0), now)
        return None if wait_s is None else Result(wait_s)

    async def _act(self, stateful_set: Tree, plan: StatefulSetPlan, current: Tree, update: Tree) -> bool:
        """Do what is planned. Returns whether the server refused something, of which events tell."""
        key = key_of(stateful_set)
        try:
            for pod in plan.keep:
                await self._keep(stateful_set, pod)
            for at in plan.create:
                pod = new_pod(stateful_set, current if self._is_old(stateful_set, at) else update, at)
                if self._has_stale_claims(stateful_set, pod):
                    return True
                if not await self._make_claims(stateful_set, pod):
                    return True
                made = await self._tell(stateful_set, "Create", pod)
                self._expect(key, "v1/Pod", made)
                await self._keep_claims(stateful_set, made)
            for pod in plan.delete:
                await self._tell(stateful_set, "Delete", pod)
                self._expect(key, "v1/Pod", pod, gone=True)
        except errors.StatusError as error:
            return not namespace_ends(error)
        return False

    def _is_old(self, stateful_set: ReadOnlyTree, ordinal: int) -> bool:
        """Whether a pod is made of the revision before."""
        strategy = stateful_set["spec"].get("updateStrategy") or {}
        place = ordinal - _range(stateful_set).start
        if strategy.get("rollingUpdate") is not None:
            return place < _partition(stateful_set)
        rolling = strategy.get("type") == "RollingUpdate"
        return rolling and place < (stateful_set.get("status") or {}).get("currentReplicas", 0)

    async def _tell(self, owner: ReadOnlyTree, verb: str, pod: Tree) -> Tree:
        """Create or delete a pod, and say how that went."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        subject = f"{verb} Pod {name} in StatefulSet {owner['metadata']['name']}"
        try:
            made = pod
            if verb == "Create":
                made = await self.client.create(pod)
            else:
                await self.client.delete("v1/Pod", name, namespace=namespace)
        except errors.NotFound:
            return pod
        except errors.StatusError as error:
            if not namespace_ends(error) and not isinstance(error, errors.AlreadyExists):
                self.events.warning(owner, f"Failed{verb}", f"{subject} failed error: {error.message}", action="")
            raise
        self.events.normal(owner, f"Successful{verb}", f"{subject} successful", action="")
        return made

    def _claims_of(self, owner: ReadOnlyTree, pod: ReadOnlyTree) -> Iterable[tuple[Tree, Tree | None]]:
        """The claims of a pod as they are made, and as they are."""
        for claim in new_claims(owner, ordinal_of(pod)):
            yield claim, self.informers[CLAIMS].get(claim["metadata"]["name"], claim["metadata"]["namespace"])

    def _has_stale_claims(self, owner: ReadOnlyTree, pod: ReadOnlyTree) -> bool:
        """Whether a claim is still to go with a pod that was here before."""
        policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        return policy.get("whenScaled") == "Delete" and any(
            reference["kind"] == "Pod"
            for _, there in self._claims_of(owner, pod)
            for reference in (there or {"metadata": {}})["metadata"].get("ownerReferences") or ()
        )

    async def _make_claims(self, owner: Tree, pod: ReadOnlyTree) -> bool:
        """Make the claims of a pod that aren't there. Returns whether it can have them; events tell why not."""
        failures: list[str] = []
        in_set = f"Pod {pod['metadata']['name']} in StatefulSet {owner['metadata']['name']}"
        for claim, there in self._claims_of(owner, pod):
            name = claim["metadata"]["name"]
            if there is not None:
                failures += [f"pvc {name} is being deleted"] if is_terminating(there) else []
                continue
            try:
                await self.client.create(claim)
            except errors.AlreadyExists as error:
                failures.append(f"failed to create PVC {name}: {error.message}")
            except errors.StatusError as error:
                if namespace_ends(error):
                    raise
                text = f"Create Claim {name} for {in_set} failed error: {error.message}"
                self.events.warning(owner, "FailedCreate", text, action="")
                failures.append(f"failed to create PVC {name}: {error.message}")
            else:
                self.events.normal(owner, "SuccessfulCreate", f"Create Claim {name} {in_set} success", action="")
        if failures and not phase_of(pod):
            said = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
            self.events.warning(owner, "FailedCreate", f"Create {in_set} failed error: {said}", action="")
        return not failures

    async def _keep(self, owner: Tree, pod: Tree) -> None:
        """Have the labels of a pod say which it is, and its claims owned by what they are to go with."""
        if phase_of(pod) == "Pending":
            await self._make_claims(owner, pod)
        changed = await self._keep_claims(owner, pod)
        identity = _identity(pod["metadata"]["name"])
        if ordinal_of(pod) not in _range(owner) or phase_of(pod) == "Pending":
            return
        if not identity.items() <= labels_of(pod).items():
            changed = await self._patch("v1/Pod", pod, {"metadata": {"labels": identity}}) is not None
        if changed:
            text = f"Update Pod {pod['metadata']['name']} in StatefulSet {owner['metadata']['name']} successful"
            self.events.normal(owner, "SuccessfulUpdate", text, action="")

    async def _keep_claims(self, owner: Tree, pod: ReadOnlyTree) -> bool:
        """Have the claims of a pod owned by what they are to go with. Returns whether one has changed."""
        changed = False
        policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        by_set, by_pod = policy.get("whenDeleted") == "Delete", policy.get("whenScaled") == "Delete"
        wanted: list[Tree] = []
        if by_pod and ordinal_of(pod) not in _range(owner):
            wanted = [controller_reference({"apiVersion": "v1", "kind": "Pod", **pod})]
        elif by_set:
            wanted = [controller_reference(owner)]
        for _, there in self._claims_of(owner, pod):
            if there is None:
                continue
            metadata = there["metadata"]
            before = metadata.get("ownerReferences") or []
            ours = {owner["metadata"]["uid"], pod["metadata"]["uid"]}
            after = [reference for reference in before if reference["uid"] not in ours] + wanted
            if {reference["uid"] for reference in before} != {reference["uid"] for reference in after}:
                body = {"ownerReferences": after, "resourceVersion": metadata["resourceVersion"]}
                await self.client.patch(
                    CLAIMS, metadata["name"], {"metadata": body}, namespace=metadata["namespace"], type="merge"
                )
                changed = True
        return changed


def _identity(name: str) -> dict[str, str]:
    """The labels that say which of its set a pod is."""
    index = name.rpartition("-")[2]
    return {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": index}


def _claim_name(template: ReadOnlyTree, stateful_set: ReadOnlyTree, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{stateful_set['metadata']['name']}-{ordinal}"


def new_claims(stateful_set: ReadOnlyTree, ordinal: int) -> list[Tree]:
    """The claims of a pod."""
    labels = stateful_set["spec"]["selector"].get("matchLabels") or {}
    claims = []
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        metadata: Tree = {
            **template["metadata"],
            "name": _claim_name(template, stateful_set, ordinal),
            "namespace": stateful_set["metadata"]["namespace"],
        }
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        claims.append({**body, "spec": template["spec"]})
    return claims


def new_pod(stateful_set: ReadOnlyTree, revision: ReadOnlyTree, ordinal: int) -> Tree:
    """A pod of the template that a revision has kept."""
    template = {name: part for name, part in revision["data"]["spec"]["template"].items() if name != "$patch"}
    pod = pod_from_template(template, stateful_set)
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    pod["metadata"] |= {"name": name, "generateName": f"{stateful_set['metadata']['name']}-"}
    pod["metadata"]["labels"] |= {**_identity(name), REVISION_LABEL: revision["metadata"]["name"]}
    spec = pod["spec"]
    spec |= {"hostname": name, "subdomain": stateful_set["spec"].get("serviceName", "")}
    templates = stateful_set["spec"].get("volumeClaimTemplates") or ()
    if templates:
        own = {claim_template["metadata"]["name"] for claim_template in templates}
        claimed: list[Tree] = [
            {
                "name": claim_template["metadata"]["name"],
                "persistentVolumeClaim": {"claimName": _claim_name(claim_template, stateful_set, ordinal)},
            }
            for claim_template in templates
        ]
        spec["volumes"] = claimed + [volume for volume in spec.get("volumes") or () if volume["name"] not in own]
    return pod
