"""ResourceClaims of resource.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.first_status import empty_status
from oarlock.apps.kinds.common.rules import unchanged
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.resource.devices import check_claim, fill_in_claim
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Required
from oarlock.meta.json_trees import Tree

__all__ = ["RESOURCE_CLAIM"]


def _fill_in(tree: Tree) -> None:
    fill_in_claim(tree.get("spec"))


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_claim(new.get("spec") or {}, "spec")
    if old is not None:
        yield from unchanged(new, old, "", "spec", kind="ResourceClaimSpec")


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    status = new.get("status") or {}
    if status.get("reservedFor") and status.get("allocation") is None:
        yield Forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    known: set[str] = set()
    for i, user in enumerate(status.get("reservedFor") or ()):
        path = f"status.reservedFor[{i}]"
        for field in ("resource", "name", "uid"):
            if not user.get(field):
                yield Required(f"{path}.{field}")
        if user.get("uid") in known:
            yield Duplicate(f"{path}.uid", user["uid"])
        known.add(user.get("uid", ""))


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
    complete=empty_status,
    row=_row,
    default=_fill_in,
    validate=_validate,
    validate_status=_check_status,
)
