"""ReplicationControllers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import age, age_of, containers_of, number, pairs, text
from oarlock.apps.kinds.common.first_status import check_replica_counts, initial_status
from oarlock.apps.kinds.common.templates import NO_MATCH, check_always, default_template
from oarlock.apps.kinds.common.trees import at, go_value
from oarlock.apps.kinds.common.values import check_not_negative
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.json_trees import Tree
from oarlock.schema.definition import Scale


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_not_negative(spec, "spec", "minReadySeconds")
    selector, pod_labels = spec.get("selector") or {}, at(spec, "template.metadata.labels", {})
    if not selector:
        yield Required("spec.selector")
    yield from check_not_negative(spec, "spec", "replicas")
    if spec.get("template") is None:
        yield Required("spec.template")
        return
    if any(pod_labels.get(key) != value for key, value in selector.items()):
        yield Invalid("spec.template.metadata.labels", go_value("", pod_labels or None), NO_MATCH)
    yield from check_always(spec["template"], "ReplicationController", ctx, at(old, "spec.template"))


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
    validate_status=check_replica_counts,
    default=_fill_in,
    complete=initial_status(replicas=0),
    row=_row,
)
