"""PersistentVolumes: each claim gets the smallest volume that fits, or one that is provisioned for it.

`PROVISIONER` is a provisioner that makes volumes without anything in them. Source: k8s.io/kubernetes
``pkg/controller/volume/persistentvolume``, in behaviour.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, Tree
from oarlock_cluster.controllers.acting import TreeController
from oarlock_cluster.scheduling.volumes import best_volume, misfit
from oarlock_cluster.shapes import is_terminating

__all__ = ["DEFAULT_CLASS", "PROVISIONER", "VolumeBinder"]

VOLUMES = "v1/PersistentVolume"
CLASSES = "storage.k8s.io/v1/StorageClass"
PROVISIONER = "oarlock.dev/simulated"
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
COMPLETED = "pv.kubernetes.io/bind-completed"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_PROVISIONERS = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
AGAIN_S = 15.0
"""When a claim without a volume is looked at again, though nothing has changed."""

DEFAULT_CLASS: Tree = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
    "volumeBindingMode": "WaitForFirstConsumer",
}


def _annotations(tree: ReadOnlyTree) -> dict[str, str]:
    return tree["metadata"].get("annotations") or {}


def _is_for(volume: ReadOnlyTree, claim: ReadOnlyTree) -> bool:
    """Whether a volume's ``claimRef`` names a claim."""
    owner = volume["spec"].get("claimRef") or {}
    named = all(owner.get(name) == claim["metadata"].get(name) for name in ("namespace", "name"))
    return named and owner.get("uid") in (None, "", claim["metadata"]["uid"])


class VolumeBinder(
    TreeController[dict[str, Any]],
    of="v1/PersistentVolumeClaim",
    name="persistentvolume-controller",
    watches=[
        Watched(VOLUMES, to="_of_volume"),
        Watched(CLASSES, to="_waiting"),
    ],
):
    """Binds claims to volumes. The key of a volume is its name, without a namespace."""

    def _of_volume(self, volume: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        yield "", volume["metadata"]["name"]
        owner = volume["spec"].get("claimRef")
        if owner and owner.get("namespace"):
            yield owner["namespace"], owner["name"]
        else:
            yield from self._waiting(volume)

    def _waiting(self, tree: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        """The claims that have no volume yet."""
        for claim in self.informer:
            if COMPLETED not in _annotations(claim):
                yield claim["metadata"]["namespace"], claim["metadata"]["name"]

    async def reconcile(self, key: ObjectKey) -> Result | None:
        if not key.namespace:
            volume = self.informers[VOLUMES].get(key.name)
            if volume is not None:
                await self._follow(volume)
            return None
        claim = self.informer.get(key.name, key.namespace)
        if claim is None:
            for volume in list(self.informers[VOLUMES]):
                owner = volume["spec"].get("claimRef") or {}
                if (owner.get("namespace"), owner.get("name")) == (key.namespace, key.name):
                    await self._follow(volume)
            return None
        return await (self._keep(claim) if COMPLETED in _annotations(claim) else self._find(claim))

    # Claims

    async def _keep(self, claim: Tree) -> None:
        """A claim that is bound stays with its volume, or has lost it."""
        name = claim["spec"].get("volumeName")
        volume = self.informers[VOLUMES].get(name) if name else None
        owner = (volume or {}).get("spec", {}).get("claimRef")
        if volume is not None and (not owner or owner.get("uid") == claim["metadata"]["uid"]):
            await self._bind(claim, volume)
            return
        reason, text = "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        if not name:
            text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        elif volume is not None:
            reason = "ClaimMisbound"
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
        if (claim.get("status") or {}).get("phase") != "Lost":
            await self._write_status(claim, {"phase": "Lost"})
            self.events.warning(claim, reason, text, action="")

    async def _find(self, claim: Tree) -> Result | None:
        """Bind a claim to the volume that it names, or to the best one, or have one made."""
        name = claim["spec"].get("volumeName")
        if name:
            await self._take_named(claim, self.informers[VOLUMES].get(name))
            return Result(AGAIN_S)
        class_name = claim["spec"].get("storageClassName") or ""
        storage_class = self.informers[CLASSES].get(class_name) if class_name else None
        waits = (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
        selected = _annotations(claim).get(SELECTED_NODE)
        volumes = [volume for volume in self.informers[VOLUMES] if not waits or _is_for(volume, claim)]
        volume = best_volume(claim, volumes)
        if volume is not None:
            await self._bind(claim, volume)
            return None
        if waits and not selected:
            text = "waiting for first consumer to be created before binding"
            self.events.normal(claim, "WaitForFirstConsumer", text, action="")
        elif not class_name:
            text = "no persistent volumes available for this claim and no storage class is set"
            self.events.normal(claim, "FailedBinding", text, action="")
        elif storage_class is None:
            text = f'storageclass.storage.k8s.io "{class_name}" not found'
            self.events.warning(claim, "ProvisioningFailed", text, action="")
        else:
            await self._provision(claim, storage_class, selected)
        return Result(AGAIN_S)

    async def _take_named(self, claim: Tree, volume: Tree | None) -> None:
        if volume is None:
            return
        if volume["spec"].get("claimRef"):
            if _is_for(volume, claim):
                await self._bind(claim, volume)
            else:
                text = f'volume "{volume["metadata"]["name"]}" already bound to a different claim.'
                self.events.warning(claim, "FailedBinding", text, action="")
        elif best_volume(claim, [volume]) is not None:
            await self._bind(claim, volume)
        else:
            why = misfit(volume, claim) or "it does not fit"
            text = f'Cannot bind to requested volume "{volume["metadata"]["name"]}": {why}'
            self.events.warning(claim, "VolumeMismatch", text, action="")

    async def _provision(self, claim: Tree, storage_class: ReadOnlyTree, node: str | None) -> None:
        """Say which provisioner is to make a volume; make it if that is ours."""
        provisioner = storage_class["provisioner"]
        if any(_annotations(claim).get(name) != provisioner for name in _PROVISIONERS):
            patch = {"metadata": {"annotations": dict.fromkeys(_PROVISIONERS, provisioner)}}
            await self._patch(self._kind, claim, patch)
        if provisioner != PROVISIONER:
            text = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by "
                "the system administrator. If volume creation is delayed, please verify that the provisioner is "
                "running and correctly registered."
            )
            self.events.normal(claim, "ExternalProvisioning", text, action="")
            return
        volume = _new_volume(claim, storage_class, node)
        try:
            await self.client.create(volume)
        except errors.AlreadyExists:
            return
        text = f"Successfully provisioned volume {volume['metadata']['name']}"
        self.events.normal(claim, "ProvisioningSucceeded", text, action="")

    async def _bind(self, claim: Tree, volume: Tree) -> None:
        """Have a claim and a volume refer to one another, and say that they are bound."""
        metadata, known = claim["metadata"], volume["spec"].get("claimRef") or {}
        if known.get("uid") != metadata["uid"]:
            kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
            owner = {name: metadata[name] for name in ("namespace", "name", "uid", "resourceVersion")}
            change: Tree = {"spec": {"claimRef": {**kind, **owner}}}
            change["metadata"] = {"resourceVersion": volume["metadata"]["resourceVersion"]}
            if not known:
                change["metadata"]["annotations"] = {BY_CONTROLLER: "yes"}
            volume = await self.client.patch(VOLUMES, volume["metadata"]["name"], change)
        await self._set_phase(volume, "Bound")
        annotations = {} if COMPLETED in _annotations(claim) else {COMPLETED: "yes"}
        patch: Tree = {}
        if not claim["spec"].get("volumeName"):
            patch["spec"] = {"volumeName": volume["metadata"]["name"]}
            annotations[BY_CONTROLLER] = "yes"
        if annotations:
            patch["metadata"] = {"annotations": annotations, "resourceVersion": metadata["resourceVersion"]}
            claim = await self.client.patch(self._kind, metadata["name"], patch, namespace=metadata["namespace"])
        spec = volume["spec"]
        status = {"phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": spec["capacity"]}
        await self._write_status(claim, {**(claim.get("status") or {}), **status})

    # Volumes

    async def _set_phase(self, volume: ReadOnlyTree, phase: str) -> None:
        if (volume.get("status") or {}).get("phase") != phase:
            await self._patch(VOLUMES, volume, {"status": {"phase": phase}}, "status")

    async def _follow(self, volume: Tree) -> None:
        """Have the phase of a volume follow what becomes of its claim."""
        owner, metadata = volume["spec"].get("claimRef"), volume["metadata"]
        if not owner or not owner.get("uid"):
            await self._set_phase(volume, "Available")
            return
        claim = self.informer.get(owner["name"], owner["namespace"])
        if claim is not None and claim["metadata"]["uid"] == owner["uid"]:
            bound = claim["spec"].get("volumeName")
            if bound == metadata["name"]:
                await self._set_phase(volume, "Bound")
            elif bound and BY_CONTROLLER in _annotations(volume) and PROVISIONED_BY not in _annotations(volume):
                patch = {"spec": {"claimRef": None}, "metadata": {"annotations": {BY_CONTROLLER: None}}}
                await self.client.patch(VOLUMES, metadata["name"], patch)
            return
        if (volume.get("status") or {}).get("phase") != "Failed":
            await self._set_phase(volume, "Released")
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and not is_terminating(volume):
            await self._delete(volume)

    async def _delete(self, volume: Tree) -> None:
        """Delete a volume that is released, unless its provisioner does that, or nobody can."""
        name, provisioner = volume["metadata"]["name"], _annotations(volume).get(PROVISIONED_BY)
        if provisioner not in (None, PROVISIONER) or volume["spec"].get("csi"):
            return
        path = (volume["spec"].get("hostPath") or {}).get("path", "")
        if provisioner is None and not re.search("/tmp/.+", path):
            text = f"host_path deleter only supports /tmp/.+ but received provided {path}"
            if not path:
                text = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
            status = {"phase": "Failed", "message": text}
            if not status.items() <= (volume.get("status") or {}).items():
                await self._patch(VOLUMES, volume, {"status": status}, "status")
                self.events.warning(volume, "VolumeFailedDelete", text, action="")
            return
        try:
            await self.client.delete(VOLUMES, name, uid=volume["metadata"]["uid"])
        except (errors.NotFound, errors.Conflict):
            pass


def _new_volume(claim: ReadOnlyTree, storage_class: ReadOnlyTree, node: str | None) -> Tree:
    """A volume for a claim, which is on the node that was selected, if one was."""
    metadata, wanted = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    spec: Tree = {
        "accessModes": wanted.get("accessModes") or [],
        "capacity": {"storage": wanted["resources"]["requests"]["storage"]},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            **{key: metadata[key] for key in ("namespace", "name", "uid")},
        },
        "hostPath": {"path": f"/var/lib/oarlock/{name}", "type": "DirectoryOrCreate"},
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": storage_class["metadata"]["name"],
        "volumeMode": wanted.get("volumeMode") or "Filesystem",
    }
    if node:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    annotations = {PROVISIONED_BY: PROVISIONER}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }
