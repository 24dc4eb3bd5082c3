"""PodTemplates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import containers_of, pairs
from oarlock.apps.kinds.common.columns import text
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.checks import check_template
from oarlock.apps.kinds.pods.defaults import settle_template
from oarlock.apps.kinds.pods.warnings import warn_of_template
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree

__all__ = ["POD_TEMPLATE"]


def _fill_in(tree: Tree) -> None:
    settle_template(tree.get("template"))


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_template(new.get("template"), "template", ("Always", "OnFailure", "Never"))
    warn_of_template(new.get("template"), "template", (old or {}).get("template"), ctx)


def _row(tree: Tree, now: float) -> list[Any]:
    return [*containers_of(tree.get("template")), pairs(at(tree, "template.metadata.labels"))]


POD_TEMPLATE: Final = KindDeclaration(
    "",
    "v1",
    "PodTemplate",
    "podtemplates",
    generation=True,
    columns=(text("Containers"), text("Images"), text("Pod Labels")),
    default=_fill_in,
    validate=_validate,
    row=_row,
)
