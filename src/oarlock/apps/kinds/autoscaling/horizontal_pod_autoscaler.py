"""HorizontalPodAutoscalers of autoscaling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.autoscaling.conversion import AutoscalerConverter, default_metrics
from oarlock.apps.kinds.common.cells import UNKNOWN, UNSET, age_of, first_few
from oarlock.apps.kinds.common.columns import age, number, text
from oarlock.apps.kinds.common.first_status import initial_status
from oarlock.apps.kinds.common.trees import Tree, at, below
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, Required

__all__ = ["HORIZONTAL_POD_AUTOSCALER"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        yield Invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield Invalid("spec.maxReplicas", most, "must be greater than 0")
    if least is not None and most < least:
        yield Invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    for name in ("kind", "name"):
        if not at(spec, f"scaleTargetRef.{name}"):
            yield Required(f"spec.scaleTargetRef.{name}")


def _fill_in(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is None:
        return
    if tree.get("apiVersion") == "autoscaling/v1":
        return
    if not spec.get("metrics"):
        spec["metrics"] = default_metrics()
    behavior = spec.get("behavior")
    if behavior is not None:
        _scaling(below(behavior, "scaleUp"), up=True)
        _scaling(below(behavior, "scaleDown"), up=False)


def _scaling(rules: Tree, *, up: bool) -> None:
    if up:
        rules.setdefault("stabilizationWindowSeconds", 0)
    rules.setdefault("selectPolicy", "Max")
    if not rules.get("policies"):
        policies = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
        rules["policies"] = [{"type": "Pods", "value": 4, "periodSeconds": 15}, *policies] if up else policies


def _row(tree: Tree, now: float) -> list[Any]:
    target = at(tree, "spec.scaleTargetRef", {})
    return [
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(tree),
        str(at(tree, "spec.minReplicas", UNSET)),
        at(tree, "spec.maxReplicas", 0),
        at(tree, "status.currentReplicas", 0),
        age_of(tree, now),
    ]


def _targets(tree: Tree) -> str:
    """The metrics that are aimed at, with what they are now."""
    current = at(tree, "status.currentMetrics", [])
    texts = []
    for index, metric in enumerate(at(tree, "spec.metrics", [])):
        kind = metric.get("type", "")
        about = kind[:1].lower() + kind[1:]
        aim = at(metric, f"{about}.target", {})
        seen = at(current[index], f"{about}.current", {}) if index < len(current) else {}
        for name, unit in (("averageUtilization", "%"), ("averageValue", ""), ("value", "")):
            if name in aim:
                label = f"{at(metric, f'{about}.name', '')}: " if kind == "Resource" else ""
                texts.append(f"{label}{_amount(seen.get(name), unit)}/{aim[name]}{unit}")
                break
    utilization = at(tree, "spec.targetCPUUtilizationPercentage")
    if utilization is not None:
        texts.append(f"cpu: {_amount(at(tree, 'status.currentCPUUtilizationPercentage'), '%')}/{utilization}%")
    return first_few(texts, 2).replace(",", ", ")


def _amount(value: Any, unit: str) -> str:
    return UNKNOWN if value is None else f"{value}{unit}"


HORIZONTAL_POD_AUTOSCALER: Final = KindDeclaration(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    short_names=("hpa",),
    categories=("all",),
    status=True,
    columns=(
        text("Reference"),
        text("Targets"),
        text("MinPods"),
        number("MaxPods"),
        number("Replicas"),
        age(),
    ),
    other_versions=("v1",),
    converter=AutoscalerConverter,
    validate=_validate,
    default=_fill_in,
    complete=initial_status(desiredReplicas=0),
    row=_row,
)
