"""ReplicaSets of apps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import POD_COLUMNS, REPLICAS, age, age_of, containers_of, number, selector_text
from oarlock.apps.kinds.common.first_status import check_replica_counts, initial_status
from oarlock.apps.kinds.common.rules import IMMUTABLE
from oarlock.apps.kinds.common.templates import (
    check_selected,
    check_selector,
    default_template,
    in_order,
)
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_not_negative
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_not_negative(spec, "spec", "replicas", "minReadySeconds")
    yield from check_selector(spec.get("selector"), "spec.selector", "deployment", "invalid label selector")
    yield from check_selected(spec, "ReplicaSet", ctx, old)
    if old is not None and spec.get("selector") != at(old, "spec.selector"):
        yield Invalid("spec.selector", in_order(spec.get("selector")), IMMUTABLE)


def _row(tree: Tree, now: float) -> list[Any]:
    numbers = [at(tree, path, 0) for path in ("spec.replicas", "status.replicas", "status.readyReplicas")]
    return [
        *numbers,
        age_of(tree, now),
        *containers_of(at(tree, "spec.template")),
        selector_text(at(tree, "spec.selector")),
    ]


REPLICA_SET: Final = KindDeclaration(
    "apps",
    "v1",
    "ReplicaSet",
    "replicasets",
    short_names=("rs",),
    categories=("all",),
    status=True,
    generation=True,
    scale=REPLICAS,
    selectable=(".status.replicas",),
    columns=(number("Desired"), number("Current"), number("Ready"), age(), *POD_COLUMNS),
    validate=_validate,
    validate_status=check_replica_counts,
    default=default_template,
    complete=initial_status(replicas=0),
    row=_row,
)
