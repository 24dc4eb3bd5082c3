"""Admission of pods: their service account with its token, their priority, how long they tolerate a lost node.

Each is a plugin of Kubernetes, by its name. Source: Kubernetes' admission plugins ServiceAccount, Priority,
PodTopologyLabels and DefaultTolerationSeconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import chain
from typing import Final

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.core.objects import ServiceAccount
from oarlock.apps.workloads.class_admission import PODS, CompletingPlugin
from oarlock.meta.errors import Forbidden, NotFound
from oarlock.meta.json_trees import Tree
from oarlock.registry.workers import Offload
from oarlock.registry.write.gate import NOT_AT_HAND, AdmissionRequest, Hub

__all__ = ["AccountAdmission", "PriorityAdmission", "TolerationAdmission", "TopologyLabels"]

CLASS = "scheduling.k8s.io/v1/PriorityClass"
MOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
TOLERATION_S: Final = 300
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_LOST: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class AccountAdmission(CompletingPlugin):
    """A pod has a service account that exists, and its token, unless either says that it doesn't want one."""

    name = "ServiceAccount"

    def __init__(self, late: LateClient) -> None:
        self._late = late

    async def complete(self, pod: Tree) -> None:
        metadata, spec = pod["metadata"], pod.setdefault("spec", {})
        namespace = metadata.get("namespace", "")
        name = spec.get("serviceAccountName") or "default"
        try:
            account = await self._late.client.get(ServiceAccount, name, namespace=namespace)
        except NotFound as missing:
            if not (missing.details or {}).get("name"):
                return  # accounts aren't served here
            why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise Forbidden(PODS, metadata.get("name", ""), why) from None
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        if account.image_pull_secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": secret.name} for secret in account.image_pull_secrets]
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.automount_service_account_token
        if automount is not False:
            _mount_token(spec)


def _mount_token(spec: Tree) -> None:
    without = [
        container
        for container in chain(spec.get("initContainers") or (), spec.get("containers") or ())
        if all(mount.get("mountPath") != MOUNT for mount in container.get("volumeMounts") or ())
    ]
    if not without:
        return
    volume = f"kube-api-access-{''.join(random.choices(_LETTERS, k=5))}"
    for container in without:
        mount = {"name": volume, "readOnly": True, "mountPath": MOUNT}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
            }
        },
    ]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": volume, "projected": {"sources": sources}}]


class TolerationAdmission(CompletingPlugin):
    """A pod tolerates a node that isn't ready or can't be reached for some minutes."""

    name = "DefaultTolerationSeconds"
    waits = False

    async def complete(self, pod: Tree) -> None:
        spec = pod.setdefault("spec", {})
        tolerations = spec.get("tolerations") or []
        for key in _LOST:
            if not any(_tolerates(toleration, key) for toleration in tolerations):
                always = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_S}
                tolerations = [*tolerations, always]
        spec["tolerations"] = tolerations


def _tolerates(toleration: Tree, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


class PriorityAdmission(CompletingPlugin):
    """A pod has the priority of its class."""

    name = "Priority"

    def __init__(self, late: LateClient) -> None:
        self._late = late

    async def complete(self, pod: Tree) -> None:
        spec, pod_name = pod.setdefault("spec", {}), pod["metadata"].get("name", "")
        classes = [priority_class async for priority_class in self._late.client.list(CLASS)]
        wanted = spec.get("priorityClassName")
        if wanted:
            chosen = next(
                (priority_class for priority_class in classes if priority_class["metadata"]["name"] == wanted), None
            )
            if chosen is None:
                raise Forbidden(PODS, pod_name, f"no PriorityClass with name {wanted} was found")
        else:
            chosen = _default(classes)
            if chosen is not None:
                spec["priorityClassName"] = chosen["metadata"]["name"]
        priority = chosen.get("value", 0) if chosen is not None else 0
        policy = (chosen or {}).get("preemptionPolicy", "PreemptLowerPriority")
        if spec.get("priority") not in (None, priority):
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority "
                f"admission controller computed {priority} from the given PriorityClass name"
            )
            raise Forbidden(PODS, pod_name, why)
        if spec.get("preemptionPolicy") not in (None, policy):
            why = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
            raise Forbidden(PODS, pod_name, why)
        spec["priority"], spec["preemptionPolicy"] = priority, policy


class TopologyLabels:
    """A pod that is bound gets the labels of its node that say in which zone and region that is."""

    name = "PodTopologyLabels"
    waits = True

    def __init__(self, late: LateClient) -> None:
        self._late = late

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        return request.operation == "CREATE" and target.group_resource == PODS and target.subresource == "binding"

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        name = at(new, "target.name", "")
        if new is None or not name or at(new, "target.kind", "Node") not in ("", "Node"):
            return new
        try:
            node = await self._late.client.get("v1/Node", name)
        except NotFound:
            return new
        known = node["metadata"].get("labels") or {}
        places = {label: known[label] for label in _PLACES if label in known}
        if not places:
            return new
        metadata = {**(new.get("metadata") or {})}
        return {**new, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **places}}}

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        return None


_PLACES: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def _default(classes: Iterable[Tree]) -> Tree | None:
    """The class of pods that name none: of several the one with the lowest value."""
    defaults = [priority_class for priority_class in classes if priority_class.get("globalDefault")]
    return min(defaults, key=lambda priority_class: priority_class.get("value", 0), default=None)
