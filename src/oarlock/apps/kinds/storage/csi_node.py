"""CSINodes of storage.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.columns import age, age_of, number
from oarlock.apps.kinds.common.rules import IMMUTABLE, NON_NEGATIVE
from oarlock.apps.kinds.common.trees import at, go_value
from oarlock.apps.kinds.common.values import check_qualified_name
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.volumes import check_csi_driver_name
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, Required
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    known: set[str] = set()
    for i, driver in enumerate(at(new, "spec.drivers", ())):
        name, node, path = driver.get("name") or "", driver.get("nodeID") or "", f"spec.drivers[{i}]"
        yield from check_csi_driver_name(name, f"{path}.name")
        if not node:
            yield Required(f"{path}.nodeID")
        elif len(node) > 256:
            yield Invalid(f"{path}.nodeID", node, "must be 256 characters or less")
        count = at(driver, "allocatable.count")
        if count is not None and count < 0:
            yield Invalid(f"{path}.allocatable.count", count, NON_NEGATIVE)
        keys: set[str] = set()
        for key in driver.get("topologyKeys") or ():
            if key in keys:
                yield Duplicate(path, key)
            keys.add(key)
            yield from check_qualified_name(key, path)
        if name and name in known:
            yield Duplicate(f"{path}.name", name)
        known.add(name)
    before = {driver.get("name"): driver for driver in at(old, "spec.drivers", ())}
    for driver in at(new, "spec.drivers", ()):
        was = before.get(driver.get("name"))
        if was is not None and any(driver.get(name) != was.get(name) for name in ("nodeID", "topologyKeys")):
            yield Invalid("spec.drivers", go_value("CSINodeDriver", driver), IMMUTABLE)


CSI_NODE: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "CSINode",
    "csinodes",
    namespaced=False,
    columns=(number("Drivers"), age()),
    row=lambda tree, now: [len(at(tree, "spec.drivers", [])), age_of(tree, now)],
    validate=_validate,
)
