"""ServiceCIDRs of networking.k8s.io."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.common.cells import age_of, first_few
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.first_status import empty_status
from oarlock.apps.kinds.common.rules import immutable
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["SERVICE_CIDR"]


SERVICE_CIDR: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "ServiceCIDR",
    "servicecidrs",
    namespaced=False,
    status=True,
    status_metadata=(),
    columns=(text("CIDRs"), age()),
    validate=immutable("spec.cidrs"),
    complete=empty_status,
    row=lambda tree, now: [first_few(at(tree, "spec.cidrs", [])), age_of(tree, now)],
)
