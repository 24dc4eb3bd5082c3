"""ResourceClaimTemplates of resource.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.columns import age, values_at
from oarlock.apps.kinds.common.rules import unchanged
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.resource.devices import check_claim, fill_in_claim
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree


def _fill_in(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is not None:
        spec.setdefault("metadata", {})
        fill_in_claim(spec.get("spec"))


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_claim(at(new, "spec.spec", {}), "spec.spec")
    if old is not None:
        yield from unchanged(new, old, "", "spec", kind="ResourceClaimTemplateSpec")


RESOURCE_CLAIM_TEMPLATE: Final = KindDeclaration(
    "resource.k8s.io",
    "v1",
    "ResourceClaimTemplate",
    "resourceclaimtemplates",
    columns=(age(),),
    row=values_at(),
    default=_fill_in,
    validate=_validate,
)
