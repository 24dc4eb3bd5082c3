"""HorizontalPodAutoscaler: as many replicas as the use of resources asks for. `proposed` and `allowed` say how many.

Metrics are those of pods' resources (``Resource`` and ``ContainerResource``). Source: k8s.io/kubernetes
``pkg/controller/podautoscaler``, in behaviour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from oarlock import errors, parse_quantity
from oarlock.controllers import ObjectKey, Result
from oarlock.extend import ReadOnlyTree, Tree, rfc3339
from oarlock_cluster.controllers.acting import TreeController
from oarlock_cluster.controllers.disruption import go_text
from oarlock_cluster.nodes.behaviour import Usage
from oarlock_cluster.shapes import condition_of, is_terminating, key_of, phase_of, set_condition, time_of

__all__ = ["Autoscalers", "allowed", "proposed"]

SYNC_S = 15.0
TOLERANCE = 0.1
DOWN_WINDOW_S = 300
UP_FACTOR, UP_LEAST = 2, 4
"""Without a behaviour it at most doubles at once, or comes to four."""
STARTING_S, FIRST_READY_S = 300.0, 30.0
"""How long after its start the use of a pod's CPU counts only while it is ready, and when one was never ready."""
PODS = "v1/Pod"
METRICS = "metrics.k8s.io/v1beta1/PodMetrics"
_UP: Tree = {
    "policies": [
        {"type": "Percent", "value": 100, "periodSeconds": 15},
        {"type": "Pods", "value": 4, "periodSeconds": 15},
    ],
    "stabilizationWindowSeconds": 0,
}
_DOWN: Tree = {
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
    "stabilizationWindowSeconds": DOWN_WINDOW_S,
}
_LIMITED = {
    "TooManyReplicas": "the desired replica count is more than the maximum replica count",
    "TooFewReplicas": "the desired replica count is less than the minimum replica count",
    "ScaleUpLimit": "the desired replica count is increasing faster than the maximum scale rate",
    "ScaleDownLimit": "the desired replica count is decreasing faster than the maximum scale rate",
    "DesiredWithinRange": "the desired count is within the acceptable range",
}


def _used(usage: Usage, resource: str, container: str) -> float:
    return sum(used.get(resource, 0.0) for name, used in usage.items() if container in ("", name))


def _requested(pod: ReadOnlyTree, resource: str, container: str) -> float:
    """What a container of a pod requests, or all of them. Raises _NoMetrics if one requests nothing."""
    spec, total, found = pod["spec"], 0.0, not container
    own = ((spec.get("resources") or {}).get("requests") or {}).get(resource)
    if own is not None and not container:
        return float(parse_quantity(own))
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for spec_container in [*spec["containers"], *sidecars]:
        name = spec_container["name"]
        if container in ("", name):
            amount = ((spec_container.get("resources") or {}).get("requests") or {}).get(resource)
            if amount is None:
                raise _NoMetrics(f"missing request for {resource} in container {name} of Pod {pod['metadata']['name']}")
            total, found = total + float(parse_quantity(amount)), True
    if not found:
        raise _NoMetrics(f"container {container} not found in Pod {pod['metadata']['name']}")
    return total


@dataclass(frozen=True)
class UsageTarget:
    """What use is compared with: a share of what pods request, in percent, or else an amount for each pod."""

    percent: int = 0
    amount: float = 0.0

    def ratio(self, samples: Sequence[tuple[float, float]]) -> float:
        """Use by target. A sample is what a pod uses and requests."""
        if self.percent:
            return self.utilization(samples) / self.percent
        return sum(used for used, _ in samples) / len(samples) / self.amount

    def utilization(self, samples: Sequence[tuple[float, float]]) -> int:
        """Use in percent of the requests."""
        requested = sum(request for _, request in samples)
        return int(round(sum(used for used, _ in samples) * 100 / requested, 6)) if requested else 0

    def when_unknown(self, request: float) -> float:
        """What a pod counts for whose use isn't known, when there are to be fewer."""
        return request * max(100, self.percent) / 100 if self.percent else self.amount


@dataclass
class UsageSamples:
    """What measured pods use and request, and what those request that aren't measured, or not ready."""

    measured: list[tuple[float, float]] = field(default_factory=list)
    missing: list[float] = field(default_factory=list)
    unready: list[float] = field(default_factory=list)


def proposed(current: int, target: UsageTarget, samples: UsageSamples, tolerances: tuple[float, float]) -> int:
    """The replicas that bring use to its target, unless it is within the tolerances below and above."""

    def near(ratio: float) -> bool:
        return 1 - tolerances[0] <= ratio <= 1 + tolerances[1]

    measured = samples.measured
    ratio = target.ratio(measured)
    rises = ratio > 1
    counted = list(measured)
    if ratio != 1:
        counted += [(0.0 if rises else target.when_unknown(request), request) for request in samples.missing]
    counted += [(0.0, request) for request in samples.unready if rises]
    after = target.ratio(counted)
    if near(after) or (ratio < 1 < after) or (after < 1 < ratio):
        return current
    replicas = math.ceil(round(after * len(counted), 6))
    turns = (after < 1 and replicas > current) or (after > 1 and replicas < current)
    return current if turns and len(counted) > len(measured) else replicas


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
        recent = sum(by for at, by in scaled if now - at < policy["periodSeconds"])
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
    behavior = spec.get("behavior")
    history.recommended = [(at, n) for at, n in history.recommended if now - at <= 3600] + [(now, wanted)]
    history.scaled = [(at, by) for at, by in history.scaled if now - at <= 1800]

    def recent(window_s: float) -> list[int]:
        return [n for at, n in history.recommended if now - at <= window_s]

    least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
    if not behavior:
        steady = max(recent(DOWN_WINDOW_S))
        limit = max(UP_FACTOR * current, UP_LEAST)
        if steady < least:
            return least, "TooFewReplicas", steady != wanted
        if steady > min(limit, most):
            reason = "ScaleUpLimit" if most > limit else "TooManyReplicas"
            return min(limit, most), reason, steady != wanted
        return steady, "DesiredWithinRange", steady != wanted
    up, down = {**_UP, **(behavior.get("scaleUp") or {})}, {**_DOWN, **(behavior.get("scaleDown") or {})}
    steady = wanted
    if wanted > current:
        steady = max(current, min(recent(up["stabilizationWindowSeconds"])))
    elif wanted < current:
        steady = min(current, max(recent(down["stabilizationWindowSeconds"])))
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


def _called(metric: ReadOnlyTree) -> str:
    """What a metric is called in the error that there is no value."""
    kind = metric["type"]
    if kind == "Resource":
        return f"{metric['resource']['name']} resource"
    if kind == "ContainerResource":
        return f"{metric['containerResource']['container']} container"
    return f"{metric['external']['metric']['name']} external" if kind == "External" else str(kind).lower()


def _unserved(metric: ReadOnlyTree, namespace: str) -> str:
    """Why there is no value of a metric that isn't of resources: nobody serves them here."""
    kind = metric["type"]
    source = metric[kind.lower()]
    name = source["metric"]["name"]
    if kind == "External":
        selector = source["metric"].get("selector")
        where = f"{namespace}/{name}/{'nil' if selector is None else go_text(selector)}"
        text = f"the server could not find the requested resource (get {name}.external.metrics.k8s.io)"
        return f"unable to get external metric {where}: unable to fetch metrics from external metrics API: {text}"
    text = "no custom metrics API (custom.metrics.k8s.io) registered"
    text = f"unable to fetch metrics from custom metrics API: {text}"
    if kind == "Object":
        of = source["describedObject"]
        return f"unable to get metric {name}: {of['kind']} on {namespace} {of['name']}/{text}"
    return f"unable to get metric {name}: {text}"


class Autoscalers(
    TreeController[dict[str, Any]],
    of="autoscaling/v2/HorizontalPodAutoscaler",
    name="horizontal-pod-autoscaler",
    concurrency=5,
):
    """Scales what HorizontalPodAutoscalers name. The metrics API says what pods use."""

    def __init__(self) -> None:
        super().__init__()
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
            why = error.message
            if isinstance(error, errors.NotFound) and not error.status()["details"].get("name"):
                group = kind.rpartition("/")[0].rpartition("/")[0]
                why = f'no matches for kind "{target["kind"]}" in group "{group}"'
            self.events.warning(autoscaler, "FailedGetScale", why, action="")
            text = f"the HPA controller was unable to get the target's current scale: {why}"
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
        key = key_of(autoscaler)
        history = self._history.setdefault(key, ScalingHistory([(now, current)]))
        replicas, limited, steadied = allowed(spec, current, wanted, history, now)
        text = "recommended size matches current size"
        reason = "ReadyForNewScale"
        if steadied:
            lower = wanted < current or not spec.get("behavior")
            reason = "ScaleDownStabilized" if lower else "ScaleUpStabilized"
            extreme = ("higher", "highest") if lower else ("lower", "lowest")
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
        failures: list[tuple[Tree, str]] = []
        for metric in metrics:
            try:
                replicas, name, seen = await self._one(autoscaler, metric, scale, current)
            except _NoMetrics as error:
                kind = metric["type"]
                self.events.warning(autoscaler, f"FailedGet{kind}Metric", str(error), action="")
                failures.append((metric, str(error)))
                shown.append({"type": ""})
                continue
            shown.append(seen)
            if replicas > wanted:
                wanted, above = replicas, name
        status["currentMetrics"] = shown
        if failures and (len(failures) == len(metrics) or wanted < current):
            first, why = failures[0]
            text = f"the HPA was unable to compute the replica count: {why}"
            reason = f"FailedGet{first['type']}Metric"
            self._condition(status, "ScalingActive", "False", reason, text)
            text = f"first error is: failed to get {_called(first)} metric value: {why}"
            text = f"invalid metrics ({len(failures)} invalid out of {len(metrics)}), {text}"
            self.events.warning(autoscaler, "FailedComputeMetricsReplicas", text, action="")
            return None, ""
        text = f"the HPA was able to successfully calculate a replica count from {above or 'the metrics'}"
        self._condition(status, "ScalingActive", "True", "ValidMetricFound", text)
        return wanted, above

    async def _one(self, autoscaler: Tree, metric: Tree, scale: Tree, current: int) -> tuple[int, str, Tree]:
        """How many replicas one metric asks for, what it is called, and its status. Raises _NoMetrics."""
        source = metric.get("resource") or metric.get("containerResource")
        namespace = autoscaler["metadata"]["namespace"]
        if source is None:
            raise _NoMetrics(_unserved(metric, namespace))
        resource, container, given = source["name"], source.get("container", ""), source["target"]
        target = UsageTarget(percent=given.get("averageUtilization", 0))
        if given.get("averageValue") is not None:
            target = UsageTarget(amount=float(parse_quantity(given["averageValue"])))
        try:
            samples = await self._samples(scale, namespace, (resource, container), target)
        except _NoMetrics as error:
            what = "utilization" if target.percent else "usage"
            raise _NoMetrics(f"failed to get {resource} {what}: {error}") from None
        average = sum(used for used, _ in samples.measured) / len(samples.measured)
        now: Tree = {"averageValue": f"{round(average * 1000)}m" if resource == "cpu" else str(round(average))}
        name = f"{resource} resource"
        if target.percent:
            name = f"{resource} {'container ' if container else ''}resource utilization (percentage of request)"
            now["averageUtilization"] = target.utilization(samples.measured)
        key = "containerResource" if container else "resource"
        inner = {"name": resource, "current": now, **({"container": container} if container else {})}
        behavior = autoscaler["spec"].get("behavior") or {}
        down, up = (float((behavior.get(way) or {}).get("tolerance", TOLERANCE)) for way in ("scaleDown", "scaleUp"))
        return proposed(current, target, samples, (down, up)), name, {"type": metric["type"], key: inner}

    async def _samples(self, scale: Tree, namespace: str, what: tuple[str, str], target: UsageTarget) -> UsageSamples:
        """What the pods of a target use. `what` are a resource and a container. Raises _NoMetrics."""
        selector = (scale.get("status") or {}).get("selector") or ""
        pods: list[Tree] = [pod async for pod in self.client.list(PODS, namespace=namespace, label_selector=selector)]
        usages = await self._measured(namespace, what[0])
        if not pods:
            raise _NoMetrics("no pods returned by selector while calculating replica count")
        samples = UsageSamples()
        for pod in pods:
            if is_terminating(pod) or phase_of(pod) == "Failed":
                continue
            usage, request = usages.get(pod["metadata"]["name"]), 0.0
            if target.percent:
                request = _requested(pod, *what)
            if phase_of(pod) == "Pending" or (usage is not None and what[0] == "cpu" and self._starts(pod)):
                samples.unready.append(request)
            elif usage is None:
                samples.missing.append(request)
            else:
                samples.measured.append((_used(usage, *what), request))
        if not samples.measured:
            raise _NoMetrics("did not receive metrics for targeted pods (pods might be unready)")
        return samples

    def _starts(self, pod: ReadOnlyTree) -> bool:
        """Whether the use of a pod's CPU says nothing yet, as it isn't ready."""
        ready, started = condition_of(pod, "Ready"), time_of((pod.get("status") or {}).get("startTime"))
        if ready is None or started is None:
            return True
        if ready["status"] != "False":
            return False
        never = (time_of(ready.get("lastTransitionTime")) or 0.0) < started + FIRST_READY_S
        return started + STARTING_S > self._now() or never

    async def _measured(self, namespace: str, resource: str) -> dict[str, Usage]:
        """What pods use, by their names. Raises _NoMetrics."""
        try:
            items = [item async for item in self.client.list(METRICS, namespace=namespace)]
        except (errors.StatusError, ValueError, LookupError):
            text = "the server could not find the requested resource (get pods.metrics.k8s.io)"
            where = f"unable to get metrics for resource {resource}: unable to fetch metrics from resource metrics API"
            raise _NoMetrics(f"{where}: {text}") from None
        if not items:
            text = "no metrics returned from resource metrics API"
            raise _NoMetrics(f"unable to get metrics for resource {resource}: {text}")
        return {
            item["metadata"]["name"]: {
                container["name"]: {name: float(parse_quantity(text)) for name, text in container["usage"].items()}
                for container in item.get("containers") or ()
            }
            for item in items
        }
