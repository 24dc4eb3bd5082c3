"""Deployments of apps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of, containers_of, selector_text
from oarlock.apps.kinds.common.columns import POD_COLUMNS, REPLICAS, age, number, text
from oarlock.apps.kinds.common.first_status import empty_status
from oarlock.apps.kinds.common.rules import non_negative
from oarlock.apps.kinds.common.templates import check_selector_and_template, default_template
from oarlock.apps.kinds.common.trees import Tree, at, below
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported

__all__ = ["DEPLOYMENT"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from non_negative(new, "spec.replicas")
    yield from check_selector_and_template(new, old)
    strategy = at(new, "spec.strategy", {})
    if strategy.get("type") not in ("Recreate", "RollingUpdate"):
        yield NotSupported("spec.strategy.type", strategy.get("type", ""), ("Recreate", "RollingUpdate"))
    elif strategy["type"] == "Recreate" and strategy.get("rollingUpdate"):
        why = "may not be specified when strategy `type` is 'Recreate'"
        yield Forbidden("spec.strategy.rollingUpdate", why)
    elif strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        if rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
            yield Invalid("spec.strategy.rollingUpdate.maxUnavailable", 0, "may not be 0 when `maxSurge` is 0")
    yield from non_negative(new, "spec.minReadySeconds", "spec.revisionHistoryLimit")
    deadline, ready = at(new, "spec.progressDeadlineSeconds"), at(new, "spec.minReadySeconds", 0)
    if deadline is not None and deadline <= ready:
        yield Invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _fill_in(tree: Tree) -> None:
    default_template(tree)
    strategy = at(tree, "spec.strategy", {})
    if strategy.get("type") == "RollingUpdate":
        rolling = below(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _row(tree: Tree, now: float) -> list[Any]:
    ready = f"{at(tree, 'status.readyReplicas', 0)}/{at(tree, 'spec.replicas', 0)}"
    numbers = [at(tree, f"status.{name}", 0) for name in ("updatedReplicas", "availableReplicas")]
    return [
        ready,
        *numbers,
        age_of(tree, now),
        *containers_of(at(tree, "spec.template")),
        selector_text(at(tree, "spec.selector")),
    ]


DEPLOYMENT: Final = KindDeclaration(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    short_names=("deploy",),
    categories=("all",),
    status=True,
    generation=True,
    scale=REPLICAS,
    columns=(
        text("Ready", "Number of the pod with ready state"),
        number("Up-to-date"),
        number("Available"),
        age(),
        *POD_COLUMNS,
    ),
    status_metadata=("annotations", "finalizers", "ownerReferences"),
    validate=_validate,
    default=_fill_in,
    complete=empty_status,
    row=_row,
)
