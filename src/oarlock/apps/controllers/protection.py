"""Controllers that let claims, volumes and attribute classes go when nobody uses them any more.

The admission plugin StorageObjectInUseProtection gives each a finalizer. Source: Kubernetes' controllers of the same
names. See also: ``workloads.storage_admission``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from oarlock.apps.kinds.common.trees import at
from oarlock.apps.workloads.workload_admission import FINALIZERS
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey, Result
from oarlock.controllers.watched import deletion_changed
from oarlock.meta.errors import NotFound
from oarlock.meta.json_trees import Tree

_POD: Final = "v1/Pod"
_CLAIM: Final = "v1/PersistentVolumeClaim"
_VOLUME: Final = "v1/PersistentVolume"
_CLASS: Final = "storage.k8s.io/v1/VolumeAttributesClass"
_USED: Final = Result(1.0, longest_s=60.0)
"""What is used is looked at again, less and less often."""


class ClaimProtection(
    Controller[dict[str, Any]], of=_CLAIM, name="persistentvolumeclaim-protection-controller", when=deletion_changed
):
    """A claim stays as long as a pod that a node runs has it as a volume."""

    async def reconcile(self, key: ObjectKey) -> Result | None:
        claim = _going(self.informer.get(key.name, key.namespace), "persistentvolumeclaims")
        if claim is None:
            return None
        async for pod in self.client.list(_POD, namespace=key.namespace):
            if at(pod, "spec.nodeName") and key.name in _claims_of(pod):
                return _USED
        await _remove_finalizer(self, _CLAIM, key, "persistentvolumeclaims")
        return None


class VolumeProtection(
    Controller[dict[str, Any]], of=_VOLUME, name="persistentvolume-protection-controller", when=deletion_changed
):
    """A volume stays as long as it is bound to a claim."""

    async def reconcile(self, key: ObjectKey) -> Result | None:
        volume = _going(self.informer.get(key.name), "persistentvolumes")
        if volume is None:
            return None
        if at(volume, "status.phase") == "Bound":
            return _USED
        await _remove_finalizer(self, _VOLUME, key, "persistentvolumes")
        return None


class AttributesClassProtection(
    Controller[dict[str, Any]], of=_CLASS, name="volumeattributesclass-protection-controller", when=deletion_changed
):
    """A class of attributes stays as long as a claim or a volume has it, or is to have it."""

    async def reconcile(self, key: ObjectKey) -> Result | None:
        if _going(self.informer.get(key.name), "volumeattributesclasses") is None:
            return None
        for kind in (_CLAIM, _VOLUME):
            async for obj in self.client.list(kind):
                if key.name in _classes_of(obj):
                    return _USED
        await _remove_finalizer(self, _CLASS, key, "volumeattributesclasses")
        return None


def _going(found: Mapping[str, Any] | None, plural: str) -> Mapping[str, Any] | None:
    """The object, if it is being deleted and only this finalizer is left to remove."""
    metadata = (found or {}).get("metadata") or {}
    held = FINALIZERS[plural] in (metadata.get("finalizers") or ())
    return found if metadata.get("deletionTimestamp") and held else None


def _claims_of(pod: Tree) -> set[str]:
    """The claims that are volumes of a pod, also those that are made for it."""
    names = set()
    for volume in at(pod, "spec.volumes", ()):
        if volume.get("ephemeral") is not None:
            names.add(f"{pod['metadata']['name']}-{volume.get('name', '')}")
        names.add(at(volume, "persistentVolumeClaim.claimName", ""))
    return names


def _classes_of(tree: Tree) -> set[str]:
    names = ("spec.volumeAttributesClassName", "status.currentVolumeAttributesClassName")
    return {at(tree, name, "") for name in (*names, "status.modifyVolumeStatus.targetVolumeAttributesClassName")}


async def _remove_finalizer(controller: Controller[dict[str, Any]], kind: str, key: ObjectKey, plural: str) -> None:
    """Remove the finalizer that protects the object."""
    finalizer = FINALIZERS[plural]

    def take_off(tree: Tree) -> None:
        kept = [name for name in tree["metadata"].get("finalizers") or () if name != finalizer]
        tree["metadata"]["finalizers"] = kept

    try:
        await controller.client.change(kind, key.name, take_off, namespace=key.namespace)
    except NotFound:
        pass  # it is gone
