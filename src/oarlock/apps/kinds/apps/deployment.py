"""Deployments of apps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import (
    POD_COLUMNS,
    REPLICAS,
    age,
    age_of,
    containers_of,
    number,
    selector_text,
    text,
)
from oarlock.apps.kinds.common.first_status import check_collisions, empty_status
from oarlock.apps.kinds.common.rules import IMMUTABLE, check_at_most_all, check_int_or_percent, is_none
from oarlock.apps.kinds.common.templates import (
    check_selected,
    check_selector,
    default_template,
    in_order,
)
from oarlock.apps.kinds.common.trees import at, below
from oarlock.apps.kinds.common.values import check_not_negative
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_not_negative(spec, "spec", "replicas")
    yield from check_selector(spec.get("selector"), "spec.selector", "deployment", "invalid label selector")
    yield from check_selected(spec, "ReplicaSet", ctx, old)
    yield from _check_strategy(spec.get("strategy") or {}, "spec.strategy")
    yield from check_not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        yield Invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    if old is not None and spec.get("selector") != at(old, "spec.selector"):
        yield Invalid("spec.selector", in_order(spec.get("selector")), IMMUTABLE)


def _check_strategy(strategy: Tree, path: str) -> Iterator[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind not in ("Recreate", "RollingUpdate"):
        yield NotSupported(f"{path}.type", kind, ("Recreate", "RollingUpdate"))
    elif kind == "Recreate":
        if rolling:
            yield Forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif rolling is None:
        yield Required(f"{path}.rollingUpdate", "this should be defaulted and never be nil")
    else:
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        yield from check_int_or_percent(unavailable, f"{path}.rollingUpdate.maxUnavailable")
        yield from check_int_or_percent(surge, f"{path}.rollingUpdate.maxSurge")
        if is_none(unavailable) and is_none(surge):
            yield Invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
        yield from check_at_most_all(unavailable, f"{path}.rollingUpdate.maxUnavailable")


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    status = new.get("status") or {}
    yield from check_not_negative(status, "status", "observedGeneration", *_COUNTS, "collisionCount")
    replicas, updated, ready, available = (status.get(name) or 0 for name in _COUNTS[:4])
    for name, value in (("updatedReplicas", updated), ("readyReplicas", ready), ("availableReplicas", available)):
        if value > replicas:
            yield Invalid(f"status.{name}", value, "cannot be greater than status.replicas")
    if available > ready:
        yield Invalid("status.availableReplicas", available, "cannot be greater than readyReplicas")

    yield from check_not_negative(status, "status", "terminatingReplicas")
    yield from check_collisions(status, old)


def _update(new: Tree, old: Tree, ctx: Context) -> None:
    """A change of the annotations is one of the deployment: its ReplicaSets get them."""
    metadata, before = new["metadata"], old["metadata"]
    if ctx.target.subresource != "status" and (metadata.get("annotations") or {}) != (before.get("annotations") or {}):
        metadata["generation"] = before.get("generation", 0) + 1


_COUNTS: Final = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


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
    validate_status=_check_status,
    default=_fill_in,
    update=_update,
    complete=empty_status,
    row=_row,
)
