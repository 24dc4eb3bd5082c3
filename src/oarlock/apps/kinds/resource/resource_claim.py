"""ResourceClaims of resource.k8s.io."""

from __future__ import annotations

from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.first_status import empty_status
from oarlock.apps.kinds.common.rules import immutable
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.json_trees import Tree

__all__ = ["RESOURCE_CLAIM"]


def _row(tree: Tree, now: float) -> list[Any]:
    states = []
    if at(tree, "metadata.deletionTimestamp"):
        states.append("deleted")
    if at(tree, "status.allocation") is not None:
        states.append("allocated")
    if at(tree, "status.reservedFor"):
        states.append("reserved")
    return [",".join(states) or "pending", age_of(tree, now)]


RESOURCE_CLAIM: Final = KindDeclaration(
    "resource.k8s.io",
    "v1",
    "ResourceClaim",
    "resourceclaims",
    status=True,
    status_metadata=(),
    columns=(text("State"), age()),
    validate=immutable("spec"),
    complete=empty_status,
    row=_row,
)
