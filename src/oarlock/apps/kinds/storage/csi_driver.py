"""CSIDrivers of storage.k8s.io."""

from __future__ import annotations

from typing import Any, Final

from oarlock.apps.kinds.common.cells import NONE, UNSET, age_of
from oarlock.apps.kinds.common.columns import age, flag, text
from oarlock.apps.kinds.common.rules import immutable
from oarlock.apps.kinds.common.trees import Tree, at
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["CSI_DRIVER"]


def _row(tree: Tree, now: float) -> list[Any]:
    flags = [at(tree, f"spec.{name}", False) for name in ("attachRequired", "podInfoOnMount", "storageCapacity")]
    audiences = ",".join(one.get("audience", "") for one in at(tree, "spec.tokenRequests", [])) or UNSET
    modes = ",".join(at(tree, "spec.volumeLifecycleModes", [])) or NONE
    return [*flags, audiences, at(tree, "spec.requiresRepublish", False), modes, age_of(tree, now)]


CSI_DRIVER: Final = KindDeclaration(
    "storage.k8s.io",
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
    validate=immutable("spec.attachRequired", "spec.fsGroupPolicy", "spec.volumeLifecycleModes"),
    row=_row,
)
