"""VolumeAttributesClasses of storage.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.columns import age, text, values_at
from oarlock.apps.kinds.common.values import check_parameters
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.volumes import check_csi_driver_name
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Required
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_csi_driver_name(new.get("driverName") or "", "driverName")
    if not new.get("parameters"):
        yield Required("parameters", "must contain at least one key/value pair")
    yield from check_parameters(new.get("parameters"), "parameters")
    if old is not None:
        for name in ("driverName", "parameters"):
            if new.get(name) != old.get(name):
                yield Forbidden(name, f"updates to {name} are forbidden.")


VOLUME_ATTRIBUTES_CLASS: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "VolumeAttributesClass",
    "volumeattributesclasses",
    short_names=("vac",),
    namespaced=False,
    columns=(text("DriverName"), age()),
    row=values_at("driverName"),
    validate=_validate,
)
