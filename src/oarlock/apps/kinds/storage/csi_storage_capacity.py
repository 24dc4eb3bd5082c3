"""CSIStorageCapacities of storage.k8s.io."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.common.columns import text
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["CSI_STORAGE_CAPACITY"]


CSI_STORAGE_CAPACITY: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "CSIStorageCapacity",
    "csistoragecapacities",
    columns=(text("StorageClass"), text("Capacity")),
    row=lambda tree, now: [
        tree.get("storageClassName", ""),
        str(tree.get("capacity", "")),
    ],
)
