"""IngressClasses of networking.k8s.io."""

from __future__ import annotations

from typing import Any, Final

from oarlock.apps.kinds.common.cells import NONE, age_of
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.rules import immutable
from oarlock.apps.kinds.common.trees import Tree, at
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["INGRESS_CLASS"]


def _row(tree: Tree, now: float) -> list[Any]:
    given = at(tree, "spec.parameters")
    group = f".{given['apiGroup']}" if given and given.get("apiGroup") else ""
    parameters = f"{given.get('kind', '')}{group}/{given.get('name', '')}" if given else NONE
    return [at(tree, "spec.controller", ""), parameters, age_of(tree, now)]


INGRESS_CLASS: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "IngressClass",
    "ingressclasses",
    namespaced=False,
    generation=True,
    columns=(text("Controller"), text("Parameters"), age()),
    validate=immutable("spec.controller"),
    row=_row,
)
