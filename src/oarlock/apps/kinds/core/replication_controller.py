"""ReplicationControllers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of, containers_of, pairs
from oarlock.apps.kinds.common.columns import age, number, text
from oarlock.apps.kinds.common.first_status import initial_status
from oarlock.apps.kinds.common.rules import non_negative
from oarlock.apps.kinds.common.templates import default_template
from oarlock.apps.kinds.common.trees import Tree, at
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.checks import check_template
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.schema.definition import Scale

__all__ = ["REPLICATION_CONTROLLER"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from non_negative(new, "spec.replicas", "spec.minReadySeconds")
    selector, told = at(new, "spec.selector", {}), at(new, "spec.template.metadata.labels", {})
    if not selector:
        yield Required("spec.selector")
    if at(new, "spec.template") is None:
        yield Required("spec.template")
        return
    if any(told.get(key) != value for key, value in selector.items()):
        yield Invalid("spec.template.metadata.labels", told or None, "`selector` does not match template `labels`")
    yield from check_template(new["spec"]["template"], "spec.template")


def _fill_in(tree: Tree) -> None:
    default_template(tree)
    labels = at(tree, "spec.template.metadata.labels")
    if labels:
        if not at(tree, "spec.selector"):
            tree["spec"]["selector"] = dict(labels)
        if not tree["metadata"].get("labels"):
            tree["metadata"]["labels"] = dict(labels)


def _row(tree: Tree, now: float) -> list[Any]:
    numbers = [at(tree, path, 0) for path in ("spec.replicas", "status.replicas", "status.readyReplicas")]
    return [*numbers, age_of(tree, now), *containers_of(at(tree, "spec.template")), pairs(at(tree, "spec.selector"))]


REPLICATION_CONTROLLER: Final = KindDeclaration(
    "",
    "v1",
    "ReplicationController",
    "replicationcontrollers",
    short_names=("rc",),
    categories=("all",),
    status=True,
    generation=True,
    gc_default="orphan",
    scale=Scale(".spec.replicas", ".status.replicas", ".spec.selector"),
    selectable=(".status.replicas",),
    columns=(
        number("Desired"),
        number("Current"),
        number("Ready"),
        age(),
        text("Containers", wide=True),
        text("Images", wide=True),
        text("Selector", wide=True),
    ),
    validate=_validate,
    default=_fill_in,
    complete=initial_status(replicas=0),
    row=_row,
)
