"""EndpointSlices of discovery.k8s.io."""

from __future__ import annotations

from typing import Any, Final

from oarlock.apps.kinds.common.cells import UNSET, age_of, first_few
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.rules import immutable
from oarlock.apps.kinds.common.trees import Tree
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["ENDPOINT_SLICE"]


def _row(tree: Tree, now: float) -> list[Any]:
    ports = [str(one["port"]) if one.get("port") is not None else "*" for one in tree.get("ports") or ()]
    addresses = [address for one in tree.get("endpoints") or () for address in one.get("addresses") or ()]
    shown = [first_few(ports) if ports else UNSET, first_few(addresses) if addresses else UNSET]
    return [tree.get("addressType", ""), *shown, age_of(tree, now)]


ENDPOINT_SLICE: Final = KindDeclaration(
    "discovery.k8s.io",
    "v1",
    "EndpointSlice",
    "endpointslices",
    generation=True,
    columns=(text("AddressType"), text("Ports"), text("Endpoints"), age()),
    validate=immutable("addressType"),
    row=_row,
)
