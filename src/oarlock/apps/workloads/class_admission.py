"""Admission by classes: the default storage class of claims, the default class of ingresses, the runtime class of pods.

And the taint that a new node has until somebody says that it is ready. Each is a plugin of Kubernetes, by its name.
Source: Kubernetes' admission plugins DefaultStorageClass, DefaultIngressClass, RuntimeClass and TaintNodesByCondition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import at, below
from oarlock.meta.errors import Forbidden, NotFound
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource
from oarlock.meta.quantities import parse_quantity
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


_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_WRONG_OVERHEAD: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_OWN_OVERHEAD: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class DefaultStorageClass(CompletingPlugin):
    """A claim that names no storage class has the default one; of several the newest."""

    name = "DefaultStorageClass"
    resource = GroupResource("", "persistentvolumeclaims")
    only_kinds = ("PersistentVolumeClaim",)

    def __init__(self, late: LateClient) -> None:
        self._late = late

    async def complete(self, new: Tree) -> None:
        if at(new, "spec.storageClassName") is not None or _annotated(new, "volume.beta.kubernetes.io/storage-class"):
            return
        labels = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
        name = await _default_class(self._late, "storage.k8s.io/v1/StorageClass", labels)
        if name:
            below(new, "spec")["storageClassName"] = name


class DefaultIngressClass(CompletingPlugin):
    """An ingress that names no class has the default one; of several the newest."""

    name = "DefaultIngressClass"
    resource = GroupResource("networking.k8s.io", "ingresses")
    only_kinds = ("Ingress",)

    def __init__(self, late: LateClient) -> None:
        self._late = late

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


class RuntimeClassAdmission(CompletingPlugin):
    """A pod has the overhead of its runtime class, and is scheduled where that says."""

    name = "RuntimeClass"

    def __init__(self, late: LateClient) -> None:
        self._late = late

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
