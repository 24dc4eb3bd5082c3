"""Admission of pods: their service account with its token, their priority, how long they tolerate a lost node.

Each is a plugin of Kubernetes, by its name. Source: Kubernetes' admission plugins ServiceAccount, Priority,
PodTopologyLabels and DefaultTolerationSeconds.
"""

from __future__ import annotations

import random
from typing import Final

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.core.objects import ServiceAccount
from oarlock.apps.workloads.class_admission import PODS, CompletingPlugin
from oarlock.meta.errors import Forbidden, NotFound
from oarlock.meta.json_trees import Tree
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub

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
            account = await self._account(name, namespace)
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

    async def _account(self, name: str, namespace: str) -> ServiceAccount:
        known = await self._late.objects(ServiceAccount)
        account: ServiceAccount | None = None if known is None else known.get(name, namespace)
        if account is None:  # it may have been made a moment ago, by another process
            account = await self._late.client.get(ServiceAccount, name, namespace=namespace)
        return account


def _mount_token(spec: Tree) -> None:
    volume = f"kube-api-access-{''.join(random.choices(_LETTERS, k=5))}"
    mount = {"name": volume, "readOnly": True, "mountPath": MOUNT}
    mounted = False
    for group in ("initContainers", "containers"):
        containers = spec.get(group) or []
        lacking = [container for container in containers if not _has_token(container)]
        if lacking:
            mounted = True
            spec[group] = [
                container
                if _has_token(container)
                else {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), mount]}
                for container in containers
            ]
    if not mounted:
        return
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


def _has_token(container: Tree) -> bool:
    return any(mount.get("mountPath") == MOUNT for mount in container.get("volumeMounts") or ())


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
        wanted = spec.get("priorityClassName")
        chosen = await (self._named(wanted) if wanted else self._default())
        if wanted and chosen is None:
            raise Forbidden(PODS, pod_name, f"no PriorityClass with name {wanted} was found")
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

    async def _named(self, name: str) -> Tree | None:
        known = await self._late.objects(CLASS)
        found: Tree | None = None if known is None else known.get(name, "")
        if found is None:  # it may have been made a moment ago, by another process
            try:
                found = await self._late.client.get(CLASS, name)
            except NotFound:
                return None
        return found

    async def _default(self) -> Tree | None:
        """The class of pods that name none: of several the one with the lowest value."""
        known = await self._late.objects(CLASS)
        classes = [found async for found in self._late.client.list(CLASS)] if known is None else known
        defaults = [found for found in classes if found.get("globalDefault")]
        return min(defaults, key=lambda found: found.get("value", 0), default=None)


class TopologyLabels:
    """A pod that is bound, or made with a node, gets the node's labels that say in which zone and region that is."""

    name = "PodTopologyLabels"
    waits = True
    only_kinds = ("Pod",)
    only_operations = ("CREATE",)

    def __init__(self, late: LateClient) -> None:
        self._late = late

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        return target.group_resource == PODS and target.subresource in ("binding", "")

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        name = at(new, "target.name" if request.ctx.target.subresource else "spec.nodeName", "")
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
