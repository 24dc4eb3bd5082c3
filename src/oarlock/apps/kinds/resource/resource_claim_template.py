"""ResourceClaimTemplates of resource.k8s.io."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.common.cells import values_at
from oarlock.apps.kinds.common.columns import age
from oarlock.apps.kinds.common.rules import immutable
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["RESOURCE_CLAIM_TEMPLATE"]


RESOURCE_CLAIM_TEMPLATE: Final = KindDeclaration(
    "resource.k8s.io",
    "v1",
    "ResourceClaimTemplate",
    "resourceclaimtemplates",
    columns=(age(),),
    validate=immutable("spec"),
    row=values_at(),
)
