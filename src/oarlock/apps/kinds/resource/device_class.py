"""DeviceClasses of resource.k8s.io."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.common.cells import values_at
from oarlock.apps.kinds.common.columns import age
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["DEVICE_CLASS"]


DEVICE_CLASS: Final = KindDeclaration(
    "resource.k8s.io",
    "v1",
    "DeviceClass",
    "deviceclasses",
    namespaced=False,
    generation=True,
    columns=(age(),),
    row=values_at(),
)
