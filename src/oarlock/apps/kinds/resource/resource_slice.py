"""ResourceSlices of resource.k8s.io."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.common.cells import values_at
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["RESOURCE_SLICE"]


RESOURCE_SLICE: Final = KindDeclaration(
    "resource.k8s.io",
    "v1",
    "ResourceSlice",
    "resourceslices",
    namespaced=False,
    generation=True,
    selectable=(".spec.nodeName", ".spec.driver"),
    columns=(text("Node"), text("Driver"), text("Pool"), age()),
    row=values_at("spec.nodeName", "spec.driver", "spec.pool.name"),
)
