"""IPAddresses of networking.k8s.io."""

from __future__ import annotations

from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.rules import immutable
from oarlock.apps.kinds.common.trees import Tree, at
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["IP_ADDRESS"]


def _row(tree: Tree, now: float) -> list[Any]:
    parent = at(tree, "spec.parentRef", {})
    return ["/".join(parent[key] for key in ("resource", "namespace", "name") if parent.get(key)), age_of(tree, now)]


IP_ADDRESS: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "IPAddress",
    "ipaddresses",
    short_names=("ip",),
    namespaced=False,
    selectable=(".spec.parentRef.group", ".spec.parentRef.name", ".spec.parentRef.namespace"),
    columns=(text("ParentRef"), age()),
    validate=immutable("spec.parentRef"),
    row=_row,
)
