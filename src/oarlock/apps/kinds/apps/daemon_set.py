"""DaemonSets of apps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of, containers_of, pairs, selector_text
from oarlock.apps.kinds.common.columns import POD_COLUMNS, age, number, text
from oarlock.apps.kinds.common.first_status import initial_status
from oarlock.apps.kinds.common.rules import non_negative
from oarlock.apps.kinds.common.templates import check_selector_and_template, default_template
from oarlock.apps.kinds.common.trees import Tree, at, below
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError

__all__ = ["DAEMON_SET"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_selector_and_template(new, old)
    yield from non_negative(new, "spec.minReadySeconds", "spec.revisionHistoryLimit")


def _fill_in(tree: Tree) -> None:
    default_template(tree)
    strategy = at(tree, "spec.updateStrategy", {})
    if strategy.get("type") == "RollingUpdate":
        rolling = below(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def _row(tree: Tree, now: float) -> list[Any]:
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    numbers = [at(tree, f"status.{name}", 0) for name in (*counts, "numberAvailable")]
    nodes = pairs(at(tree, "spec.template.spec.nodeSelector"))
    return [
        *numbers,
        nodes,
        age_of(tree, now),
        *containers_of(at(tree, "spec.template")),
        selector_text(at(tree, "spec.selector")),
    ]


DAEMON_SET: Final = KindDeclaration(
    "apps",
    "v1",
    "DaemonSet",
    "daemonsets",
    short_names=("ds",),
    categories=("all",),
    status=True,
    generation=True,
    columns=(
        number("Desired"),
        number("Current"),
        number("Ready"),
        number("Up-to-date"),
        number("Available"),
        text("Node Selector"),
        age(),
        *POD_COLUMNS,
    ),
    validate=_validate,
    default=_fill_in,
    complete=initial_status(currentNumberScheduled=0, numberMisscheduled=0, desiredNumberScheduled=0, numberReady=0),
    row=_row,
)
