"""CSINodes of storage.k8s.io."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.common.cells import age_of
from oarlock.apps.kinds.common.columns import age, number
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["CSI_NODE"]


CSI_NODE: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "CSINode",
    "csinodes",
    namespaced=False,
    columns=(number("Drivers"), age()),
    row=lambda tree, now: [len(at(tree, "spec.drivers", [])), age_of(tree, now)],
)
