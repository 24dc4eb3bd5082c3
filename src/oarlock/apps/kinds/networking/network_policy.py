"""NetworkPolicies of networking.k8s.io."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.common.cells import age_of, selector_text
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.trees import Tree, at
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["NETWORK_POLICY"]


def _fill_in(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is not None and not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if "egress" in spec else ["Ingress"]


NETWORK_POLICY: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "NetworkPolicy",
    "networkpolicies",
    short_names=("netpol",),
    generation=True,
    columns=(text("Pod-Selector"), age()),
    default=_fill_in,
    row=lambda tree, now: [
        selector_text(at(tree, "spec.podSelector")),
        age_of(tree, now),
    ],
)
