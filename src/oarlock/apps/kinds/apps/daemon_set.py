"""DaemonSets of apps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import (
    POD_COLUMNS,
    age,
    age_of,
    containers_of,
    number,
    pairs,
    selector_text,
    text,
)
from oarlock.apps.kinds.common.first_status import check_collisions, initial_status
from oarlock.apps.kinds.common.rules import IMMUTABLE, check_at_most_all, check_int_or_percent, is_none
from oarlock.apps.kinds.common.templates import (
    NO_MATCH,
    check_always,
    default_template,
    in_order,
    selects,
)
from oarlock.apps.kinds.common.trees import at, below, go_value
from oarlock.apps.kinds.common.values import check_label_selector, check_not_negative
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    if old is not None and selector != at(old, "spec.selector"):
        yield Invalid("spec.selector", in_order(selector), IMMUTABLE)
    yield from check_label_selector(selector, "spec.selector")
    pod_labels = at(template, "metadata.labels", {})
    if not list(check_label_selector(selector, "")) and not _selects(selector, pod_labels):
        yield Invalid("spec.template.metadata.labels", go_value("", pod_labels or None), NO_MATCH)
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield Invalid("spec.selector", selector, "empty selector is invalid for daemonset")
    yield from check_always(template, "DaemonSet", ctx, at(old, "spec.template"))
    yield from check_not_negative(spec, "spec", "minReadySeconds")
    yield from _check_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    yield from check_not_negative(spec, "spec", "revisionHistoryLimit")


def _selects(selector: Tree | None, pod_labels: Tree) -> bool:
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return True
    return selects(selector, pod_labels)


def _check_strategy(strategy: Tree, path: str) -> Iterator[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        yield NotSupported(f"{path}.type", kind, ("OnDelete", "RollingUpdate"))
    elif rolling is None:
        yield Required(f"{path}.rollingUpdate")
    else:
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        where = f"{path}.rollingUpdate"
        yield from check_int_or_percent(unavailable, f"{where}.maxUnavailable")
        yield from check_int_or_percent(surge, f"{where}.maxSurge")
        yield from check_at_most_all(unavailable, f"{where}.maxUnavailable")
        yield from check_at_most_all(surge, f"{where}.maxSurge")
        if not is_none(unavailable) and not is_none(surge):
            yield Invalid(f"{where}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
        if is_none(unavailable) and is_none(surge):
            yield Required(f"{where}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    fields = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    others = ("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount")
    yield from check_not_negative(new.get("status") or {}, "status", *fields, *others)
    yield from check_collisions(new.get("status") or {}, old)


_GENERATION: Final = "deprecated.daemonset.template.generation"


def _prepare(new: Tree) -> None:
    below(new["metadata"], "annotations")[_GENERATION] = "1"


def _update(new: Tree, old: Tree, ctx: Context) -> None:
    """The generation of the template counts its changes."""
    before = at(old, "metadata.annotations", {}).get(_GENERATION, "0")
    generation = int(before) if before.isascii() and before.isdecimal() and len(before) < 19 else 0
    if at(new, "spec.template") != at(old, "spec.template"):
        generation += 1
    below(new["metadata"], "annotations")[_GENERATION] = str(generation)


def _fill_in(tree: Tree) -> None:
    default_template(tree)
    strategy = at(tree, "spec.updateStrategy", {})
    if strategy.get("type") == "RollingUpdate":
        below(strategy, "rollingUpdate").setdefault("maxUnavailable", 1)
    if strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("maxSurge", 0)


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
    prepare=_prepare,
    update=_update,
    validate=_validate,
    validate_status=_check_status,
    default=_fill_in,
    complete=initial_status(currentNumberScheduled=0, numberMisscheduled=0, desiredNumberScheduled=0, numberReady=0),
    row=_row,
)
