"""PodDisruptionBudgets of policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of
from oarlock.apps.kinds.common.columns import age, number, text
from oarlock.apps.kinds.common.rules import shown
from oarlock.apps.kinds.common.trees import Tree, at, below
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid

__all__ = ["POD_DISRUPTION_BUDGET"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield Invalid("spec", shown(spec), "minAvailable and maxUnavailable cannot be both set")


def _complete(new: Tree) -> None:
    status = below(new, "status")
    for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        status.setdefault(name, 0)


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
    validate=_validate,
    complete=_complete,
    row=_row,
)
