"""HorizontalPodAutoscaler: as many replicas as the use of resources asks for. `proposed` and `allowed` say how many.

Metrics are those of pods' resources (``Resource`` and ``ContainerResource``). Source: k8s.io/kubernetes
``pkg/controller/podautoscaler``, in behaviour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oarlock import errors, parse_quantity
from oarlock.controllers import ObjectKey, Result
from oarlock.extend import ReadOnlyTree, Tree, rfc3339
from oarlock_cluster.controllers.acting import TreeController
from oarlock_cluster.shapes import is_active, is_ready, set_condition

__all__ = ["Autoscalers", "Usage", "UsageSource", "allowed", "proposed"]

SYNC_S = 15.0
TOLERANCE = 0.1
PODS = "v1/Pod"
METRICS = "metrics.k8s.io/v1beta1/PodMetrics"
_UP: Tree = {
    "policies": [
        {"type": "Percent", "value": 100, "periodSeconds": 15},
        {"type": "Pods", "value": 4, "periodSeconds": 15},
    ]
}
_DOWN: Tree = {
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
    "stabilizationWindowSeconds": 300,
}
_LIMITED = {
    "TooManyReplicas": "the desired replica count is more than the maximum replica count",
    "TooFewReplicas": "the desired replica count is less than the minimum replica count",
    "ScaleUpLimit": "the desired replica count is increasing faster than the maximum scale rate",
    "ScaleDownLimit": "the desired replica count is decreasing faster than the maximum scale rate",
    "DesiredWithinRange": "the desired count is within the acceptable range",
}

Usage = Mapping[str, Mapping[str, float]]
"""What each container of a pod uses, by its name: ``cpu`` in cores, ``memory`` in bytes."""
UsageSource = Callable[[Tree], Usage | None]


def _used(usage: Usage, resource: str, container: str) -> float:
    return sum(used.get(resource, 0.0) for name, used in usage.items() if container in ("", name))


def _requested(pod: ReadOnlyTree, resource: str, container: str) -> float | None:
    """What the containers of a pod request; None if one requests nothing."""
    total = 0.0
    for spec_container in pod["spec"]["containers"]:
        if container in ("", spec_container["name"]):
            amount = ((spec_container.get("resources") or {}).get("requests") or {}).get(resource)
            if amount is None:
                return None
            total += float(parse_quantity(amount))
    return total


def proposed(current: int, ratios: Sequence[float], missing: int, unready: int) -> int:
    """The replicas that bring use to its target. `ratios` are use by target, of each pod that is measured."""
    ratio = sum(ratios) / len(ratios)
    if ratio > 1:
        ratios = [*ratios, *[0.0] * (missing + unready)]
    elif ratio < 1:
        ratios = [*ratios, *[1.0] * missing]
    after = sum(ratios) / len(ratios)
    if abs(1 - after) <= TOLERANCE or (ratio < 1) != (after < 1):
        return current
    replicas = math.ceil(round(after * len(ratios), 6))
    return current if (ratio < 1 and replicas > current) or (ratio > 1 and replicas < current) else replicas


@dataclass
class ScalingHistory:
    """What was recommended, and by how much was scaled, with the times."""

    recommended: list[tuple[float, int]] = field(default_factory=list)
    scaled: list[tuple[float, int]] = field(default_factory=list)


def _limit(rules: Tree, current: int, scaled: Sequence[tuple[float, int]], way: int, now: float) -> int:
    """The farthest that policies allow to go; `way` is 1 for up and -1 for down."""
    if rules.get("selectPolicy") == "Disabled":
        return current
    limits: list[int] = []
    for policy in rules["policies"]:
        recent = sum(by for at, by in scaled if by * way > 0 and now - at <= policy["periodSeconds"])
        start, value = current - recent, policy["value"]
        if policy["type"] == "Pods":
            limits.append(start + way * value)
        else:
            share = start * (1 + way * value / 100)
            limits.append(math.ceil(share) if way > 0 else int(share))
    farthest, nearest = (max, min) if way > 0 else (min, max)
    return nearest(limits) if rules.get("selectPolicy") == "Min" else farthest(limits)


def allowed(
    spec: ReadOnlyTree, current: int, wanted: int, history: ScalingHistory, now: float
) -> tuple[int, str, bool]:
    """The replicas, by what they are limited, and whether a higher recommendation of before still counts."""
    behavior = spec.get("behavior") or {}
    up, down = {**_UP, **(behavior.get("scaleUp") or {})}, {**_DOWN, **(behavior.get("scaleDown") or {})}
    history.recommended = [(at, n) for at, n in history.recommended if now - at <= 3600] + [(now, wanted)]
    history.scaled = [(at, by) for at, by in history.scaled if now - at <= 1800]

    def recent(rules: Tree) -> list[int]:
        return [n for at, n in history.recommended if now - at <= rules.get("stabilizationWindowSeconds", 0)]

    steady = wanted
    if wanted > current:
        steady = max(current, min(recent(up)))
    elif wanted < current:
        steady = min(current, max(recent(down)))
    least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
    replicas, reason = steady, "DesiredWithinRange"
    if steady > current and (limit := max(current, _limit(up, current, history.scaled, 1, now))) < min(steady, most):
        replicas, reason = limit, "ScaleUpLimit"
    elif steady < current and (limit := min(current, _limit(down, current, history.scaled, -1, now))) > max(
        steady, least
    ):
        replicas, reason = limit, "ScaleDownLimit"
    elif steady > most:
        replicas, reason = most, "TooManyReplicas"
    elif steady < least:
        replicas, reason = least, "TooFewReplicas"
    return replicas, reason, steady != wanted


class _NoMetrics(Exception):
    """Why there is no value; the text says so."""


class Autoscalers(
    TreeController[dict[str, Any]],
    of="autoscaling/v2/HorizontalPodAutoscaler",
    name="horizontal-pod-autoscaler",
    concurrency=5,
):
    """Scales what HorizontalPodAutoscalers name. `usage` says what a pod uses; without it the metrics API does."""

    def __init__(self, usage: UsageSource | None = None) -> None:
        super().__init__()
        self._usage = usage
        self._history: dict[ObjectKey, ScalingHistory] = {}

    async def reconcile(self, key: ObjectKey) -> Result | None:
        autoscaler = self.informer.get(key.name, key.namespace)
        if autoscaler is None:
            self._history.pop(key, None)
            return None
        status: Tree = {"desiredReplicas": 0, **(autoscaler.get("status") or {})}
        target = autoscaler["spec"]["scaleTargetRef"]
        kind = f"{target.get('apiVersion') or 'v1'}/{target['kind']}"
        try:
            scale: Tree = await self.client.get(kind, target["name"], namespace=key.namespace, subresource="scale")
        except errors.StatusError as error:
            self.events.warning(autoscaler, "FailedGetScale", error.message, action="")
            text = f"the HPA controller was unable to get the target's current scale: {error.message}"
            self._condition(status, "AbleToScale", "False", "FailedGetScale", text)
        else:
            text = "the HPA controller was able to get the target's current scale"
            self._condition(status, "AbleToScale", "True", "SucceededGetScale", text)
            await self._scale(autoscaler, kind, scale, status)
        await self._write_status(autoscaler, status)
        return Result(SYNC_S)

    def _condition(self, status: Tree, type: str, flag: str, reason: str, message: str) -> None:
        made = {"type": type, "status": flag, "reason": reason, "message": message}
        status["conditions"] = set_condition(status.get("conditions") or (), made, self._now())

    async def _scale(self, autoscaler: Tree, kind: str, scale: Tree, status: Tree) -> None:
        spec, now = autoscaler["spec"], self._now()
        current: int = scale["spec"].get("replicas", 0)
        status["currentReplicas"] = current
        least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
        if not current:
            status["desiredReplicas"] = 0
            text = "scaling is disabled since the replica count of the target is zero"
            self._condition(status, "ScalingActive", "False", "ScalingDisabled", text)
            return
        if not least <= current <= most:
            which = "above Spec.MaxReplicas" if current > most else "below Spec.MinReplicas"
            reason = f"Current number of replicas {which}"
            await self._set(autoscaler, kind, current, min(max(current, least), most), reason, status)
            return
        wanted, above = await self._compute(autoscaler, scale, current, status)
        if wanted is None:
            return
        key = ObjectKey(autoscaler["metadata"]["namespace"], autoscaler["metadata"]["name"])
        history = self._history.setdefault(key, ScalingHistory([(now, current)]))
        replicas, limited, steadied = allowed(spec, current, wanted, history, now)
        text = "recommended size matches current size"
        reason = "ReadyForNewScale"
        if steadied:
            reason = "ScaleDownStabilized" if wanted < current else "ScaleUpStabilized"
            extreme = ("higher", "highest") if wanted < current else ("lower", "lowest")
            text = f"recent recommendations were {extreme[0]} than current one, applying the {extreme[1]} recent "
            text += "recommendation"
        self._condition(status, "AbleToScale", "True", reason, text)
        flag = "False" if limited == "DesiredWithinRange" else "True"
        self._condition(status, "ScalingLimited", flag, limited, _LIMITED[limited])
        status["desiredReplicas"] = replicas
        if replicas != current:
            history.scaled.append((now, replicas - current))
            why = f"{above} above target" if replicas > current else "All metrics below target"
            await self._set(autoscaler, kind, current, replicas, why, status)

    async def _set(self, autoscaler: Tree, kind: str, current: int, replicas: int, why: str, status: Tree) -> None:
        target, namespace = autoscaler["spec"]["scaleTargetRef"]["name"], autoscaler["metadata"]["namespace"]
        try:
            await self.client.scale(kind, target, replicas, namespace=namespace)
        except errors.StatusError as error:
            text = f"New size: {replicas}; reason: {why}; error: {error.message}"
            self.events.warning(autoscaler, "FailedRescale", text, action="")
            text = f"the HPA controller was unable to update the target scale: {error.message}"
            self._condition(status, "AbleToScale", "False", "FailedUpdateScale", text)
            return
        text = f"the HPA controller was able to update the target scale to {replicas}"
        self._condition(status, "AbleToScale", "True", "SucceededRescale", text)
        self.events.normal(autoscaler, "SuccessfulRescale", f"New size: {replicas}; reason: {why}", action="")
        status |= {"desiredReplicas": replicas, "lastScaleTime": rfc3339(self._now())}

    async def _compute(self, autoscaler: Tree, scale: Tree, current: int, status: Tree) -> tuple[int | None, str]:
        """The most that one metric asks for, and its name; None if none can be had."""
        metrics: list[Tree] = autoscaler["spec"].get("metrics") or []
        wanted, above = 0, ""
        shown: list[Tree] = []
        failures: list[str] = []
        for metric in metrics:
            try:
                replicas, name, seen = await self._one(autoscaler, metric, scale, current)
            except _NoMetrics as error:
                failures.append(str(error))
                shown.append({"type": ""})
                continue
            shown.append(seen)
            if replicas > wanted:
                wanted, above = replicas, name
        status["currentMetrics"] = shown
        if failures and (len(failures) == len(metrics) or wanted < current):
            text = f"the HPA was unable to compute the replica count: {failures[0]}"
            self._condition(status, "ScalingActive", "False", "FailedGetResourceMetric", text)
            self.events.warning(autoscaler, "FailedGetResourceMetric", failures[0], action="")
            resource = (metrics[0].get("resource") or metrics[0].get("containerResource") or {}).get("name", "")
            text = f"first error is: failed to get {resource} resource metric value: {failures[0]}"
            text = f"invalid metrics ({len(failures)} invalid out of {len(metrics)}), {text}"
            self.events.warning(autoscaler, "FailedComputeMetricsReplicas", text, action="")
            return None, ""
        text = f"the HPA was able to successfully calculate a replica count from {above or 'the metrics'}"
        self._condition(status, "ScalingActive", "True", "ValidMetricFound", text)
        return wanted, above

    async def _one(self, autoscaler: Tree, metric: Tree, scale: Tree, current: int) -> tuple[int, str, Tree]:
        """How many replicas one metric asks for, what it is called, and its status. Raises _NoMetrics."""
        source = metric.get("resource") or metric.get("containerResource")
        if source is None:
            raise _NoMetrics(f"there are no metrics of the type {metric['type']} here")
        resource, container = source["name"], source.get("container", "")
        namespace, target = autoscaler["metadata"]["namespace"], source["target"]
        by_share = target["type"] == "Utilization"
        what = f"failed to get {resource} {'utilization' if by_share else 'usage'}: "
        selector = (scale.get("status") or {}).get("selector") or ""
        every = self.client.list(PODS, namespace=namespace, label_selector=selector)
        pods: list[Tree] = [pod async for pod in every if is_active(pod)]
        usages = await self._measured(namespace, pods, resource, what)
        goal = target["averageUtilization"] / 100 if by_share else float(parse_quantity(target["averageValue"]))
        ratios: list[float] = []
        total, requested, missing, unready = 0.0, 0.0, 0, 0
        for pod in pods:
            usage = usages.get(pod["metadata"]["name"])
            if not is_ready(pod) and resource == "cpu":
                unready += 1
            elif usage is None:
                missing += 1
            else:
                used, share = _used(usage, resource, container), _requested(pod, resource, container)
                if by_share and not share:
                    where = f"container {pod['spec']['containers'][0]['name']} of Pod {pod['metadata']['name']}"
                    raise _NoMetrics(f"{what}missing request for {resource} in {where}")
                total, requested = total + used, requested + (share or 0.0)
                ratios.append(used / ((share or 1.0) * goal if by_share else goal))
        if not ratios:
            raise _NoMetrics(f"{what}did not receive metrics for targeted pods (pods might be unready)")
        average = total / len(ratios)
        now: Tree = {"averageValue": f"{round(average * 1000)}m" if resource == "cpu" else str(round(average))}
        name = f"{resource} resource" + (" utilization (percentage of request)" if by_share else "")
        if by_share:
            now["averageUtilization"] = round(100 * total / requested)
            ratios = [total / requested / goal] * len(ratios)
        key = "containerResource" if container else "resource"
        inner = {"name": resource, "current": now, **({"container": container} if container else {})}
        return proposed(current, ratios, missing, unready), name, {"type": metric["type"], key: inner}

    async def _measured(self, namespace: str, pods: Sequence[Tree], resource: str, what: str) -> dict[str, Usage]:
        """What pods use, by their names. Raises _NoMetrics."""
        if self._usage is not None:
            found = {pod["metadata"]["name"]: usage for pod in pods if (usage := self._usage(pod)) is not None}
            if found:
                return found
        try:
            items = [item async for item in self.client.list(METRICS, namespace=namespace)]
        except (errors.StatusError, ValueError, LookupError):
            text = "the server could not find the requested resource (get pods.metrics.k8s.io)"
            where = f"unable to get metrics for resource {resource}: unable to fetch metrics from resource metrics API"
            raise _NoMetrics(f"{what}{where}: {text}") from None
        return {
            item["metadata"]["name"]: {
                container["name"]: {name: float(parse_quantity(text)) for name, text in container["usage"].items()}
                for container in item.get("containers") or ()
            }
            for item in items
        }
