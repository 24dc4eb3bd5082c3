"""The admission plugins that workload kinds bring: classes, devices, volumes and pods.

`DeviceAdminAccess` allows claims for devices in use only in the namespaces of administrators.
Source: Kubernetes' admission plugins of the same names; strategies of resource.k8s.io, ``AuthorizedForAdmin``.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import at, below
from oarlock.apps.kinds.core.objects import Namespace, ServiceAccount
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.meta.errors import Forbidden, InvalidObject, NotFound
from oarlock.meta.fielderrors import Forbidden as ForbiddenField
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind, GroupResource
from oarlock.meta.quantities import parse_quantity
from oarlock.policy.admission.chain import ValidatingPlugin
from oarlock.registry.conversions import copy_tree
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub

PODS = GroupResource("", "pods")
MIRROR: Final = "kubernetes.io/config.mirror"


class CompletingPlugin(ABC):
    """An ``AdmissionPlugin`` that changes new objects of `resource`, by default pods (not mirror pods)."""

    name = ""
    waits = True
    resource: ClassVar[GroupResource] = PODS
    only_kinds: ClassVar[tuple[str, ...]] = ("Pod",)
    only_operations = ("CREATE",)

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        return not target.subresource and target.group_resource == self.resource

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        if new is None or (self.resource == PODS and MIRROR in at(new, "metadata.annotations", {})):
            return new
        made = {name: {**part} if type(part) is dict else part for name, part in new.items()}
        await self.complete(made)
        return made

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        return None

    @abstractmethod
    async def complete(self, new: Tree) -> None:
        """Set fields of a new object, and of its metadata and spec, in place. Raises Forbidden.

        What is deeper in it belongs to the object before too: it is replaced instead of changed.
        """


class _LookingPlugin(CompletingPlugin):
    """One that looks at other objects."""

    def __init__(self, late: LateClient) -> None:
        self._late = late


_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_WRONG_OVERHEAD: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_OWN_OVERHEAD: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class DefaultStorageClass(_LookingPlugin):
    """A claim that names no storage class has the default one; of several the newest."""

    name = "DefaultStorageClass"
    resource = GroupResource("", "persistentvolumeclaims")
    only_kinds = ("PersistentVolumeClaim",)

    async def complete(self, new: Tree) -> None:
        if at(new, "spec.storageClassName") is not None or _annotated(new, "volume.beta.kubernetes.io/storage-class"):
            return
        labels = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
        name = await _default_class(self._late, "storage.k8s.io/v1/StorageClass", labels)
        if name:
            below(new, "spec")["storageClassName"] = name


class DefaultIngressClass(_LookingPlugin):
    """An ingress that names no class has the default one; of several the newest."""

    name = "DefaultIngressClass"
    resource = GroupResource("networking.k8s.io", "ingresses")
    only_kinds = ("Ingress",)

    async def complete(self, new: Tree) -> None:
        if at(new, "spec.ingressClassName") is not None or _annotated(new, "kubernetes.io/ingress.class"):
            return
        labels = ("ingressclass.kubernetes.io/is-default-class",)
        name = await _default_class(self._late, "networking.k8s.io/v1/IngressClass", labels)
        if name:
            below(new, "spec")["ingressClassName"] = name


class TaintNodesByCondition(CompletingPlugin):
    """Taints a new node, so that no pod is scheduled on it before it is ready."""

    name = "TaintNodesByCondition"
    resource = GroupResource("", "nodes")
    only_kinds = ("Node",)
    waits = False

    async def complete(self, new: Tree) -> None:
        spec = below(new, "spec")
        taints = spec.get("taints") or []
        if not any(taint.get("key") == _NOT_READY["key"] and taint.get("effect") == "NoSchedule" for taint in taints):
            spec["taints"] = [*taints, dict(_NOT_READY)]


class RuntimeClassAdmission(_LookingPlugin):
    """A pod has the overhead of its runtime class, and is scheduled where that says."""

    name = "RuntimeClass"

    async def complete(self, new: Tree) -> None:
        spec = below(new, "spec")
        found = await self._class_of(new)
        overhead = at(found, "overhead.podFixed")
        if overhead is not None:
            if spec.get("overhead") is not None and not _same_amounts(spec["overhead"], overhead):
                raise _rejected(new, _WRONG_OVERHEAD)
            spec["overhead"] = overhead
        selector = {**(spec.get("nodeSelector") or {})}
        for key, value in at(found, "scheduling.nodeSelector", {}).items():
            if selector.setdefault(key, value) != value:
                of_class, of_pod = f"scheduling.nodeSelector[{key}] = {value}", f"nodeSelector[{key}] = {selector[key]}"
                raise _rejected(new, f"conflict: runtimeClass.{of_class}; pod.spec.{of_pod}")
        if selector:
            spec["nodeSelector"] = selector
        tolerations = spec.get("tolerations") or []
        more = [toleration for toleration in at(found, "scheduling.tolerations", []) if toleration not in tolerations]
        if more:
            spec["tolerations"] = [*tolerations, *more]

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        if new is None:
            return
        overhead = at(await self._class_of(new), "overhead.podFixed")
        given = at(new, "spec.overhead")
        if overhead is None and given is not None:
            raise _rejected(new, _OWN_OVERHEAD)
        if overhead is not None and not _same_amounts(given or {}, overhead):
            raise _rejected(new, _WRONG_OVERHEAD)

    async def _class_of(self, pod: Tree) -> Tree | None:
        name = at(pod, "spec.runtimeClassName")
        if name is None:
            return None
        try:
            return await self._late.client.get("node.k8s.io/v1/RuntimeClass", name)
        except NotFound:
            raise _rejected(pod, f"pod rejected: RuntimeClass {quote(name)} not found") from None


def _rejected(pod: Tree, why: str) -> Forbidden:
    return Forbidden(PODS, at(pod, "metadata.name", ""), why)


def _annotated(new: Tree, annotation: str) -> bool:
    return annotation in at(new, "metadata.annotations", {})


def _same_amounts(left: Mapping[str, str], right: Mapping[str, str]) -> bool:
    return left.keys() == right.keys() and all(parse_quantity(left[key]) == parse_quantity(right[key]) for key in left)


async def _default_class(late: LateClient, kind: str, annotations: tuple[str, ...]) -> str:
    """The name of the class that is marked as default, empty if none is: the newest, then the first by name."""
    chosen: Tree | None = None
    async for obj in late.client.list(kind):  # by name
        marks = at(obj, "metadata.annotations", {})
        if any(marks.get(annotation) == "true" for annotation in annotations) and (
            chosen is None or obj["metadata"]["creationTimestamp"] > chosen["metadata"]["creationTimestamp"]
        ):
            chosen = obj
    return "" if chosen is None else str(chosen["metadata"]["name"])


_GROUP: Final = "resource.k8s.io"
_SPECS: Final = {"resourceclaims": "spec", "resourceclaimtemplates": "spec.spec"}
_LABEL: Final = "resource.kubernetes.io/admin-access"
_WHY: Final = f"admin access to devices requires the `{_LABEL}: true` label on the containing namespace"


class DeviceAdminAccess(ValidatingPlugin):
    """An ``AdmissionPlugin`` that refuses access for administrators elsewhere; it is a part of what claims mean."""

    only_kinds = ("ResourceClaim", "ResourceClaimTemplate")
    only_operations = ("CREATE",)

    def __init__(self, late: LateClient) -> None:
        self._late = late

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        return target.group == _GROUP and target.resource in _SPECS and not target.subresource

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        target = request.ctx.target
        path = f"{_SPECS[target.resource]}.devices.requests"
        asking = [i for i, request in enumerate(at(new, path, ())) if at(request, "exactly.adminAccess")]
        if new is None or not asking or await self._is_of_administrators(target.namespace):
            return
        errors = [ForbiddenField(f"{path}[{i}].adminAccess", _WHY) for i in asking]
        raise InvalidObject(GroupKind(_GROUP, target.kind), at(new, "metadata.name", ""), errors)

    async def _is_of_administrators(self, namespace: str) -> bool:
        try:
            found = await self._late.client.get(Namespace, namespace)
        except NotFound:
            return False
        return found.metadata.labels.get(_LABEL) == "true"


FINALIZERS: Final[Mapping[str, str]] = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
    "volumeattributesclasses": "kubernetes.io/vac-protection",
}
"""By resource: what holds an object until it isn't used any more."""

_CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
_GROUPS: Final = {"volumeattributesclasses": "storage.k8s.io"}
_CLASS: Final = "storage.k8s.io/v1/StorageClass"
_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_NOT_BOUND: Final = "Only bound persistent volume claims can be expanded"
_NOT_ALLOWED: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


class StorageObjectInUseProtection:
    """A new claim, volume or class of attributes has a finalizer."""

    name = "StorageObjectInUseProtection"
    waits = False
    only_kinds = ("PersistentVolume", "PersistentVolumeClaim", "VolumeAttributesClass")
    only_operations = ("CREATE",)

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        known = target.resource in FINALIZERS and target.group == _GROUPS.get(target.resource, "")
        return known and not target.subresource

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        finalizer = FINALIZERS[request.ctx.target.resource]
        if new is None or finalizer in (at(new, "metadata.finalizers") or ()):
            return new
        made = copy_tree(new)
        made["metadata"]["finalizers"] = [*(made["metadata"].get("finalizers") or ()), finalizer]
        return made

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        return None


class ClaimResize(ValidatingPlugin):
    """A claim grows only once it is bound, and only if its class allows it."""

    name = "PersistentVolumeClaimResize"
    only_kinds = ("PersistentVolumeClaim",)
    only_operations = ("UPDATE",)

    def __init__(self, late: LateClient) -> None:
        self._late = late

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        return target.group_resource == _CLAIMS and not target.subresource

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        size, before = (quantity(at(claim, "spec.resources.requests.storage")) for claim in (new, old))
        if new is None or size is None or before is None or size <= before:
            return
        name = at(new, "metadata.name", "")
        if at(old, "status.phase") != "Bound":
            raise Forbidden(_CLAIMS, name, _NOT_BOUND)
        if not await self._may_grow(_class_of(new), _class_of(old)):
            raise Forbidden(_CLAIMS, name, _NOT_ALLOWED)

    async def _may_grow(self, name: str, before: str) -> bool:
        if not name or name != before:
            return False
        try:
            found = await self._late.client.get(_CLASS, name)
        except NotFound:
            return False
        return bool(found.get("allowVolumeExpansion"))


def _class_of(claim: Tree | None) -> str:
    annotated = at(claim, "metadata.annotations", {}).get(_ANNOTATION)
    return str(annotated if annotated is not None else at(claim, "spec.storageClassName", ""))


CLASS = "scheduling.k8s.io/v1/PriorityClass"
MOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
TOLERATION_S: Final = 300
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_LOST: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class AccountAdmission(_LookingPlugin):
    """A pod has a service account that exists, and its token, unless either says that it doesn't want one."""

    name = "ServiceAccount"

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


class PriorityAdmission(_LookingPlugin):
    """A pod has the priority of its class."""

    name = "Priority"

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
