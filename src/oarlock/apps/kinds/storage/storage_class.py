"""StorageClasses of storage.k8s.io."""

from __future__ import annotations

from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of
from oarlock.apps.kinds.common.columns import age, flag, text
from oarlock.apps.kinds.common.rules import forbidden_updates
from oarlock.apps.kinds.common.trees import Tree
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["STORAGE_CLASS"]


def _row(tree: Tree, now: float) -> list[Any]:
    texts = [tree.get("provisioner", ""), tree.get("reclaimPolicy", ""), tree.get("volumeBindingMode", "")]
    return [*texts, bool(tree.get("allowVolumeExpansion")), age_of(tree, now)]


STORAGE_CLASS: Final = KindDeclaration(
    "storage.k8s.io",
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
    validate=forbidden_updates(
        {
            "parameters": "updates to parameters are forbidden.",
            "provisioner": "updates to provisioner are forbidden.",
            "reclaimPolicy": "updates to reclaimPolicy are forbidden.",
            "volumeBindingMode": "updates to volumeBindingMode are forbidden.",
        }
    ),
    row=_row,
)
