"""ControllerRevisions of apps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import NONE, age, age_of, number, text
from oarlock.apps.kinds.common.rules import unchanged
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_not_negative
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Required
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if new.get("data") is None:
        yield Required("data", "data is mandatory")
    yield from check_not_negative(new, "", "revision")
    if old is not None:
        yield from unchanged(new, old, "", "data")


def _row(tree: Tree, now: float) -> list[Any]:
    owner = next(
        (reference for reference in at(tree, "metadata.ownerReferences", []) if reference.get("controller")), None
    )
    controller = NONE
    if owner is not None:
        group, _, _ = owner.get("apiVersion", "").rpartition("/")
        kind = owner.get("kind", "").lower()
        controller = f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"
    return [controller, tree.get("revision", 0), age_of(tree, now)]


CONTROLLER_REVISION: Final = KindDeclaration(
    "apps",
    "v1",
    "ControllerRevision",
    "controllerrevisions",
    columns=(text("Controller"), number("Revision"), age()),
    validate=_validate,
    row=_row,
)
