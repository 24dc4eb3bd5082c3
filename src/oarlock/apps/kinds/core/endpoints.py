"""Endpoints."""

from __future__ import annotations

from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of, first_few
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.trees import Tree
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["ENDPOINTS"]


def _row(tree: Tree, now: float) -> list[Any]:
    places = []
    for subset in tree.get("subsets") or ():
        ports = subset.get("ports") or [None]
        for port in ports:
            for one in subset.get("addresses") or ():
                places.append(one.get("ip", "") if port is None else f"{one.get('ip', '')}:{port.get('port', '')}")
    return [first_few(places), age_of(tree, now)]


ENDPOINTS: Final = KindDeclaration(
    "",
    "v1",
    "Endpoints",
    "endpoints",
    short_names=("ep",),
    create_on_update=True,
    columns=(text("Endpoints"), age()),
    deprecation_warning="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    row=_row,
)
