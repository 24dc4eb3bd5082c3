"""CSIStorageCapacities of storage.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.columns import text
from oarlock.apps.kinds.common.rules import NON_NEGATIVE, unchanged
from oarlock.apps.kinds.common.values import check_label_selector, check_text
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.quantities import Quantity


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_text(names.dns1123_subdomain, new.get("storageClassName") or "", "storageClassName")
    yield from check_label_selector(new.get("nodeTopology"), "nodeTopology")
    amount = quantity(new.get("capacity"))
    if amount is not None and amount < Quantity():
        yield Invalid("capacity", str(new["capacity"]), NON_NEGATIVE)
    if old is not None:
        yield from unchanged(new, old, "", "nodeTopology", "storageClassName")


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
    validate=_validate,
)
