"""Ingresses of networking.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import NONE, age_of, first_few
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.first_status import empty_load_balancer
from oarlock.apps.kinds.common.rules import shown
from oarlock.apps.kinds.common.trees import Tree, at
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid

__all__ = ["INGRESS"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        yield Invalid("spec", shown(spec), "either `defaultBackend` or `rules` must be specified")


def _row(tree: Tree, now: float) -> list[Any]:
    hosts = [one["host"] for one in at(tree, "spec.rules", []) if one.get("host")]
    shown = [one.get("ip") or one.get("hostname", "") for one in at(tree, "status.loadBalancer.ingress", [])]
    ports = "80, 443" if at(tree, "spec.tls") else "80"
    return [
        at(tree, "spec.ingressClassName", NONE),
        first_few(hosts) if hosts else "*",
        ",".join(shown),
        ports,
        age_of(tree, now),
    ]


INGRESS: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "Ingress",
    "ingresses",
    short_names=("ing",),
    status=True,
    generation=True,
    columns=(text("Class"), text("Hosts"), text("Address"), text("Ports"), age()),
    validate=_validate,
    complete=empty_load_balancer,
    row=_row,
)
