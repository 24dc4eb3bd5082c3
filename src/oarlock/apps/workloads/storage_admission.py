"""Admission of claims and volumes: they stay as long as they are used, and grow only where their class lets them.

Each is a plugin of Kubernetes, by its name. Source: Kubernetes' admission plugins StorageObjectInUseProtection and
PersistentVolumeClaimResize. See also: ``controllers.protection``, which lets what isn't used go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.meta.errors import Forbidden, NotFound
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource
from oarlock.registry.conversions import copy_tree
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub

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


class ClaimResize:
    """A claim grows only once it is bound, and only if its class allows it."""

    name = "PersistentVolumeClaimResize"
    waits = True
    only_kinds = ("PersistentVolumeClaim",)
    only_operations = ("UPDATE",)

    def __init__(self, late: LateClient) -> None:
        self._late = late

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        return target.group_resource == _CLAIMS and not target.subresource

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        return new

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
