"""DeviceClasses of resource.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.columns import age, values_at
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.resources import is_extended
from oarlock.apps.kinds.resource.devices import check_configurations
from oarlock.apps.kinds.resource.selectors import check_selectors
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_selectors(spec.get("selectors") or (), "spec.selectors")
    yield from check_configurations(spec.get("config") or (), "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        yield Invalid("spec.extendedResourceName", name, "must be a valid extended resource name")


DEVICE_CLASS: Final = KindDeclaration(
    "resource.k8s.io",
    "v1",
    "DeviceClass",
    "deviceclasses",
    namespaced=False,
    generation=True,
    columns=(age(),),
    row=values_at(),
    validate=_validate,
)
