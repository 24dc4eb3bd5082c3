"""How HorizontalPodAutoscalers of autoscaling/v1 and v2 become one another.

v1 knows one metric, the use of cpu; what else an object has is in its annotations there, as Kubernetes writes them.
Source: Kubernetes' conversion of autoscaling/v1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from oarlock.apps.kinds.common.trees import at, below
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import Converter

_CPU_PERCENT: Final = 80

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_KINDS: Final = ("Resource", "Pods", "Object", "External", "ContainerResource")
_NAMES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "Resource": {"name": ("name",)},
    "ContainerResource": {"name": ("name",), "container": ("container",)},
    "Pods": {"metricName": ("metric", "name"), "selector": ("metric", "selector")},
    "Object": {
        "target": ("describedObject",),
        "metricName": ("metric", "name"),
        "selector": ("metric", "selector"),
    },
    "External": {"metricName": ("metric", "name"), "metricSelector": ("metric", "selector")},
}
"""By kind of metric: what v1 calls the fields of v2."""

_AIMS: Final[Mapping[str, Mapping[str, str]]] = {
    "Resource": {"averageUtilization": "targetAverageUtilization", "averageValue": "targetAverageValue"},
    "ContainerResource": {"averageUtilization": "targetAverageUtilization", "averageValue": "targetAverageValue"},
    "Pods": {"averageValue": "targetAverageValue"},
    "Object": {"value": "targetValue", "averageValue": "averageValue"},
    "External": {"value": "targetValue", "averageValue": "targetAverageValue"},
}
"""What v1 calls what is aimed at."""

_SEEN: Final[Mapping[str, Mapping[str, str]]] = {
    "Resource": {"averageUtilization": "currentAverageUtilization", "averageValue": "currentAverageValue"},
    "ContainerResource": {"averageUtilization": "currentAverageUtilization", "averageValue": "currentAverageValue"},
    "Pods": {"averageValue": "currentAverageValue"},
    "Object": {"value": "currentValue", "averageValue": "averageValue"},
    "External": {"value": "currentValue", "averageValue": "currentAverageValue"},
}
"""What v1 calls what was measured."""


class AutoscalerConverter(Converter):
    """Converts between v1 and v2; it never waits."""

    waits = False
    threadsafe = True

    def convert_now(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        if from_version == to_version:
            return trees
        return [_to_v1(tree) if to_version == "v1" else _to_v2(tree) for tree in trees]

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return self.convert_now(trees, from_version, to_version)


def _to_v1(tree: Tree) -> Tree:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    if status:
        status.setdefault("currentReplicas", 0)
    annotations: dict[str, str] = {}
    metrics = spec.pop("metrics", None) or []
    cpu = next((metric for metric in metrics if _is_cpu(metric)), None)
    if cpu is not None:
        spec["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"]
    rest = [_metric_to_v1(metric, "target", _AIMS) for metric in metrics if metric is not cpu]
    if rest:
        annotations["metrics"] = _text(rest)
    if "behavior" in spec:
        annotations["behavior"] = _text(spec.pop("behavior"))
    current = status.pop("currentMetrics", None) or []
    for metric in current:
        if metric.get("type") == "Resource" and at(metric, "resource.name") == "cpu":
            use = at(metric, "resource.current.averageUtilization")
            if use is not None:
                status["currentCPUUtilizationPercentage"] = use
    if current:
        annotations["current-metrics"] = _text([_metric_to_v1(metric, "current", _SEEN) for metric in current])
    if "conditions" in status:
        annotations["conditions"] = _text(status.pop("conditions"))
    if annotations:
        annotated = below(tree["metadata"], "annotations")
        annotated.update((_PREFIX + name, text) for name, text in annotations.items())
    return tree


def _to_v2(tree: Tree) -> Tree:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    annotated = {name: _taken(tree, name) for name in ("metrics", "behavior", "current-metrics", "conditions")}
    metrics = [_metric_to_v2(metric, "target", _AIMS) for metric in _objects(annotated["metrics"])]
    use = spec.pop("targetCPUUtilizationPercentage", None)
    if use is not None:
        target = {"type": "Utilization", "averageUtilization": use}
        metrics.insert(0, {"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if spec:
        spec["metrics"] = metrics or default_metrics()
    if isinstance(annotated["behavior"], dict):
        spec["behavior"] = annotated["behavior"]
    current = [_metric_to_v2(metric, "current", _SEEN) for metric in _objects(annotated["current-metrics"])]
    used = status.pop("currentCPUUtilizationPercentage", None)
    if used is not None and not any(at(metric, "resource.name") == "cpu" for metric in current):
        current.insert(0, {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}})
    if status and not status.get("currentReplicas"):
        status.pop("currentReplicas", None)
    if current or status:
        below(tree, "status")["currentMetrics"] = current or None
    if isinstance(annotated["conditions"], list):
        below(tree, "status")["conditions"] = annotated["conditions"]
    return tree


def default_metrics() -> list[Tree]:
    """What is aimed at where nothing is said."""
    target = {"type": "Utilization", "averageUtilization": _CPU_PERCENT}
    return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _is_cpu(metric: Tree) -> bool:
    use = at(metric, "resource.target.averageUtilization")
    return metric.get("type") == "Resource" and at(metric, "resource.name") == "cpu" and use is not None


def _field(kind: str) -> str:
    return kind[:1].lower() + kind[1:]


def _metric_to_v1(metric: Tree, role: str, amounts: Mapping[str, Mapping[str, str]]) -> Tree:
    kind = metric.get("type", "")
    if kind not in _KINDS:
        return metric
    source = metric.get(_field(kind)) or {}
    made = {name: at(source, ".".join(path)) for name, path in _NAMES[kind].items()}
    for name, older in amounts[kind].items():
        made[older] = at(source, f"{role}.{name}")
    return {"type": kind, _field(kind): {name: value for name, value in made.items() if value is not None}}


def _metric_to_v2(metric: Tree, role: str, amounts: Mapping[str, Mapping[str, str]]) -> Tree:
    kind = metric.get("type", "")
    if kind not in _KINDS:
        return metric
    source = metric.get(_field(kind)) or {}
    made: Tree = {}
    for name, path in _NAMES[kind].items():
        if name in source:
            here = made if len(path) == 1 else below(made, path[0])
            here[path[-1]] = source[name]
    amount = {name: source[older] for name, older in amounts[kind].items() if older in source}
    if role == "target":
        words = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}
        amount = {"type": next((words[name] for name in amount), "Value"), **amount}
    return {"type": kind, _field(kind): {**made, role: amount}}


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _taken(tree: Tree, name: str) -> Any:
    """What an annotation says, which is removed; None if there is none, or nobody can read it."""
    annotations = tree["metadata"].get("annotations") or {}
    text = annotations.pop(_PREFIX + name, None)
    if not annotations:
        tree["metadata"].pop("annotations", None)
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _objects(value: Any) -> list[Tree]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
