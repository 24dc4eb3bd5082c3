"""PodDisruptionBudgets of policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import age, age_of, number, text
from oarlock.apps.kinds.common.first_status import check_conditions
from oarlock.apps.kinds.common.trees import at, below, go_value
from oarlock.apps.kinds.common.values import (
    check_at_most_all,
    check_int_or_percent,
    check_label_selector,
    check_not_negative,
)
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported
from oarlock.meta.json_trees import Tree


def _complete(new: Tree) -> None:
    status = below(new, "status")
    for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        status.setdefault(name, 0)


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield Invalid(
            "spec", go_value("PodDisruptionBudgetSpec", spec), "minAvailable and maxUnavailable cannot be both set"
        )
    for name in ("minAvailable", "maxUnavailable"):
        if spec.get(name) is not None:
            yield from check_int_or_percent(spec[name], f"spec.{name}")
            yield from check_at_most_all(spec[name], f"spec.{name}")
    yield from check_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        yield NotSupported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    status = new.get("status") or {}
    yield from check_conditions(status.get("conditions") or (), "status.conditions")
    fields = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    yield from check_not_negative(status, "status", *fields)


def _row(tree: Tree, now: float) -> list[Any]:
    least, most = (at(tree, f"spec.{name}", "N/A") for name in ("minAvailable", "maxUnavailable"))
    return [str(least), str(most), at(tree, "status.disruptionsAllowed", 0), age_of(tree, now)]


POD_DISRUPTION_BUDGET: Final = KindDeclaration(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    short_names=("pdb",),
    status=True,
    generation=True,
    columns=(text("Min Available"), text("Max Unavailable"), number("Allowed Disruptions"), age()),
    complete=_complete,
    row=_row,
    validate=_validate,
    validate_status=_check_status,
)

KINDS: Final = (POD_DISRUPTION_BUDGET,)
