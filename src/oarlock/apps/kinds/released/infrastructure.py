"""Facts about what clusters are made of: storage, scheduling, node and resource."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.released.facts import KindFacts
from oarlock.apps.kinds.released.tables import age, flag, number, text

__all__ = ["INFRASTRUCTURE"]

_STORAGE, _RESOURCE = "storage.k8s.io", "resource.k8s.io"

INFRASTRUCTURE: Final = (
    KindFacts(
        _STORAGE,
        "v1",
        "CSIDriver",
        "csidrivers",
        namespaced=False,
        columns=(
            flag("AttachRequired"),
            flag("PodInfoOnMount"),
            flag("StorageCapacity"),
            text("TokenRequests"),
            flag("RequiresRepublish"),
            text("Modes"),
            age(),
        ),
    ),
    KindFacts(_STORAGE, "v1", "CSINode", "csinodes", namespaced=False, columns=(number("Drivers"), age())),
    KindFacts(
        _STORAGE,
        "v1",
        "CSIStorageCapacity",
        "csistoragecapacities",
        columns=(text("StorageClass"), text("Capacity")),
    ),
    KindFacts(
        _STORAGE,
        "v1",
        "StorageClass",
        "storageclasses",
        short_names=("sc",),
        namespaced=False,
        delete_returns="object",
        columns=(
            text("Provisioner"),
            text("ReclaimPolicy"),
            text("VolumeBindingMode"),
            flag("AllowVolumeExpansion"),
            age(),
        ),
    ),
    KindFacts(
        _STORAGE,
        "v1",
        "VolumeAttachment",
        "volumeattachments",
        namespaced=False,
        status=True,
        delete_returns="object",
        columns=(text("Attacher"), text("PV"), text("Node"), flag("Attached"), age()),
    ),
    KindFacts(
        _STORAGE,
        "v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        short_names=("vac",),
        namespaced=False,
        columns=(text("DriverName"), age()),
    ),
    KindFacts(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        short_names=("pc",),
        namespaced=False,
        generation=True,
        columns=(number("Value"), flag("Global-Default"), age(), text("PreemptionPolicy")),
    ),
    KindFacts(
        "node.k8s.io",
        "v1",
        "RuntimeClass",
        "runtimeclasses",
        namespaced=False,
        columns=(text("Handler"), age()),
    ),
    KindFacts(_RESOURCE, "v1", "DeviceClass", "deviceclasses", namespaced=False, generation=True, columns=(age(),)),
    KindFacts(_RESOURCE, "v1", "ResourceClaim", "resourceclaims", status=True, columns=(text("State"), age())),
    KindFacts(_RESOURCE, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", columns=(age(),)),
    KindFacts(
        _RESOURCE,
        "v1",
        "ResourceSlice",
        "resourceslices",
        namespaced=False,
        generation=True,
        selectable=(".spec.nodeName", ".spec.driver"),
        columns=(text("Node"), text("Driver"), text("Pool"), age()),
    ),
)
