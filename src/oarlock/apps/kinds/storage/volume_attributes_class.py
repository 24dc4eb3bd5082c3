"""VolumeAttributesClasses of storage.k8s.io."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.common.cells import values_at
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.rules import immutable
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["VOLUME_ATTRIBUTES_CLASS"]


VOLUME_ATTRIBUTES_CLASS: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "VolumeAttributesClass",
    "volumeattributesclasses",
    short_names=("vac",),
    namespaced=False,
    columns=(text("DriverName"), age()),
    validate=immutable("driverName", "parameters"),
    row=values_at("driverName"),
)
