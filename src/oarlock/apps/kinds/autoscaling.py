"""The kinds of autoscaling: HorizontalPodAutoscalers, and their conversion between v1 and v2.

v1 knows one metric, the use of cpu; what else an object has is in its annotations there, as Kubernetes writes them.
Source: Kubernetes' conversion of autoscaling/v1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from oarlock.apps.kinds.common.columns import UNKNOWN, UNSET, age, age_of, first_few, number, text
from oarlock.apps.kinds.common.first_status import initial_status
from oarlock.apps.kinds.common.trees import at, below
from oarlock.apps.kinds.common.values import check_not_negative, check_text
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree
from oarlock.meta.quantities import Quantity
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
    if rules.get("policies") is None:
        policies = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
        rules["policies"] = [{"type": "Pods", "value": 4, "periodSeconds": 15}, *policies] if up else policies


_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_ORDER: Final = ("object", "external", "pods", "resource", "containerResource")
_TARGETS: Final = ("AverageValue", "Utilization", "Value")
_MOST_PERIOD_S: Final = 1800
_MOST_WINDOW_S: Final = 3600


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        yield Invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield Required("spec.maxReplicas", "must be set and greater than 0")
    if least is not None and most < least:
        yield Invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    yield from _check_reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef", grouped=True)
    metrics = spec.get("metrics") or ()
    for i, metric in enumerate(metrics):
        yield from _check_metric(metric, f"spec.metrics[{i}]")
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        why = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield Forbidden("spec.metrics", why)
    for direction in ("scaleUp", "scaleDown"):
        rules = at(spec, f"behavior.{direction}")
        if rules is not None:
            yield from _check_rules(rules, f"spec.behavior.{direction}")


def _check_reference(target: Tree, path: str, *, grouped: bool = False) -> Iterator[FieldError]:
    for field in ("kind", "name"):
        if not target.get(field):
            yield Required(f"{path}.{field}")
        else:
            yield from check_text(names.path_segment_name, target[field], f"{path}.{field}")
    version = target.get("apiVersion") or ""
    if version.count("/") > 1:
        yield Invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif grouped and "/" not in version and target.get("kind") != "ReplicationController":
        yield Invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _check_metric(metric: Tree, path: str) -> Iterator[FieldError]:
    kind = metric.get("type") or ""
    if not kind:
        yield Required(f"{path}.type", "must specify a metric source type")
    expected = _SOURCES.get(kind, "")
    if not expected:
        yield NotSupported(f"{path}.type", kind, sorted(_SOURCES))
    for name in _ORDER:
        source = metric.get(name)
        if source is None:
            continue
        yield from _check_source(name, source, f"{path}.{name}")
        if expected and name != expected:
            yield Forbidden(f"{path}.{name}", "must populate the given metric source only")
    if not expected:
        yield NotSupported(f"{path}.type", kind, sorted(_SOURCES))
    elif metric.get(expected) is None:
        yield Required(f"{path}.{expected}", "must populate information for the given metric source")


def _check_source(kind: str, source: Tree, path: str) -> Iterator[FieldError]:
    target = source.get("target") or {}
    average, value = target.get("averageValue"), target.get("value")
    if kind in ("resource", "containerResource"):
        if not source.get("name"):
            yield Required(f"{path}.name", "must specify a resource name")
        if kind == "containerResource" and not source.get("container"):
            yield Required(f"{path}.container", "must specify a container name")
        yield from _check_target(target, f"{path}.target")
        used = target.get("averageUtilization")
        if used is None and average is None:
            why = "must set either a target raw value or a target utilization"
            yield Required(f"{path}.target.averageUtilization", why)
        if used is not None and average is not None:
            why = "may not set both a target raw value and a target utilization"
            yield Forbidden(f"{path}.target.averageValue", why)
        return
    if kind == "object":
        yield from _check_reference(source.get("describedObject") or {}, f"{path}.describedObject")
    yield from _check_identifier(source.get("metric") or {}, f"{path}.metric")
    yield from _check_target(target, f"{path}.target")
    if kind == "pods" and (average is None or not _positive(average)):
        yield Required(f"{path}.target.averageValue", "must specify a positive target averageValue")
    elif kind == "external" and value is None and average is None:
        why = "must set either a target value for metric or a per-pod target"
        yield Required(f"{path}.target.averageValue", why)
    elif kind == "object" and value is None and average is None:
        yield Required(f"{path}.target.averageValue", "must set either a target value or averageValue")
    if kind == "external" and value is not None and average is not None:
        yield Forbidden(f"{path}.target.value", "may not set both a target value for metric and a per-pod target")


def _check_identifier(metric: Tree, path: str) -> Iterator[FieldError]:
    if not metric.get("name"):
        yield Required(f"{path}.name", "must specify a metric name")
    else:
        yield from check_text(names.path_segment_name, metric["name"], f"{path}.name")


def _check_target(target: Tree, path: str) -> Iterator[FieldError]:
    kind, used = target.get("type") or "", target.get("averageUtilization")
    if not kind:
        yield Required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield Invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    if used is not None and used < 1:
        yield Invalid(f"{path}.averageUtilization", used, "must be greater than 0")
    for field in ("value", "averageValue"):
        if target.get(field) is not None and not _positive(target[field]):
            yield Invalid(f"{path}.{field}", str(target[field]), "must be positive")


def _positive(value: Any) -> bool:
    amount = quantity(value)
    return amount is None or amount > Quantity()


def _check_rules(rules: Tree, path: str) -> Iterator[FieldError]:
    window, policy, policies = (rules.get(name) for name in ("stabilizationWindowSeconds", "selectPolicy", "policies"))
    if window is not None and window < 0:
        yield Invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window is not None and window > _MOST_WINDOW_S:
        why = f"must be less than or equal to {_MOST_WINDOW_S}"
        yield Invalid(f"{path}.stabilizationWindowSeconds", window, why)
    if policy is not None and policy not in ("Disabled", "Max", "Min"):
        yield NotSupported(f"{path}.selectPolicy", policy, ("Disabled", "Max", "Min"))
    if not policies:
        yield Required(f"{path}.policies", "must specify at least one Policy")
    for i, scaling_policy in enumerate(policies or ()):
        where, value, period = (
            f"{path}.policies[{i}]",
            scaling_policy.get("value") or 0,
            scaling_policy.get("periodSeconds") or 0,
        )
        if scaling_policy.get("type") not in ("Pods", "Percent"):
            yield NotSupported(f"{where}.type", scaling_policy.get("type", ""), ("Percent", "Pods"))
        if value <= 0:
            yield Invalid(f"{where}.value", value, "must be greater than zero")
        if period <= 0:
            yield Invalid(f"{where}.periodSeconds", period, "must be greater than zero")
        if period > _MOST_PERIOD_S:
            yield Invalid(f"{where}.periodSeconds", period, f"must be less than or equal to {_MOST_PERIOD_S}")


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    yield from check_not_negative(new.get("status") or {}, "status", "currentReplicas", "desiredReplicas")


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
    default=_fill_in,
    complete=initial_status(desiredReplicas=0, currentMetrics=None),
    row=_row,
    validate=_validate,
    validate_status=_check_status,
)

KINDS: Final = (HORIZONTAL_POD_AUTOSCALER,)
