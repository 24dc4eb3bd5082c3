"""Autoscalers bring the use of resources to its target: up at once, within limits, and down when it has been low."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_kit import pod_template

from oarlock_cluster.controllers.autoscaling import ScalingHistory, UsageSamples, UsageTarget, allowed, proposed
from oarlock_cluster.testing import ClusterInMemory

NOW_S = 1_767_225_600.0
ONE_A_MINUTE = {"type": "Pods", "value": 1, "periodSeconds": 60}


@pytest.mark.parametrize(
    ("current", "used", "missing", "unready", "replicas"),
    [
        (2, [1.0, 1.0], 0, 0, 2),
        (2, [1.05, 1.1], 0, 0, 2),
        (2, [2.0, 2.0], 0, 0, 4),
        (4, [0.5, 0.5, 0.5, 0.5], 0, 0, 2),
        (3, [3.0], 0, 2, 3),
        (4, [0.5, 0.5], 2, 0, 3),
        (3, [1.5, 1.5], 1, 0, 3),
    ],
)
def test_how_many_are_proposed(current: int, used: list[float], missing: int, unready: int, replicas: int) -> None:
    samples = UsageSamples([(each, 1.0) for each in used], [1.0] * missing, [1.0] * unready)
    assert proposed(current, UsageTarget(amount=1.0), samples, (0.1, 0.1)) == replicas
    assert proposed(current, UsageTarget(percent=100), samples, (0.1, 0.1)) == replicas


def test_tolerances_are_of_whole_percents() -> None:
    samples, target = UsageSamples([(0.1159, 0.1)]), UsageTarget(percent=105)
    assert proposed(1, target, samples, (0.1, 0.1)) == 1
    assert proposed(1, target, samples, (0.1, 0.09)) == 2


@pytest.mark.parametrize(
    ("spec", "current", "wanted", "expected"),
    [
        ({"maxReplicas": 20}, 1, 20, (4, "ScaleUpLimit")),
        ({"maxReplicas": 20}, 3, 20, (6, "ScaleUpLimit")),
        ({"maxReplicas": 20, "behavior": {"scaleDown": {}}}, 2, 20, (6, "ScaleUpLimit")),
        ({"maxReplicas": 20}, 10, 15, (15, "DesiredWithinRange")),
        ({"maxReplicas": 5}, 4, 9, (5, "TooManyReplicas")),
        ({"maxReplicas": 5, "minReplicas": 2}, 3, 1, (2, "TooFewReplicas")),
        (
            {
                "maxReplicas": 5,
                "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}},
            },
            1,
            5,
            (2, "ScaleUpLimit"),
        ),
        ({"maxReplicas": 5, "behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}, 4, 1, (4, "ScaleDownLimit")),
    ],
)
def test_how_far_it_goes_at_once(spec: Any, current: int, wanted: int, expected: tuple[int, str]) -> None:
    assert allowed(spec, current, wanted, ScalingHistory(), NOW_S)[:2] == expected


def test_a_high_recommendation_counts_for_five_minutes() -> None:
    history = ScalingHistory()
    spec = {"maxReplicas": 9}
    allowed(spec, 5, 6, history, NOW_S)
    assert allowed(spec, 6, 2, history, NOW_S + 200) == (6, "DesiredWithinRange", True)
    assert allowed(spec, 6, 2, history, NOW_S + 301)[0] == 2


def test_what_was_taken_away_is_added_again_at_once() -> None:
    history = ScalingHistory(scaled=[(NOW_S - 30, -2)])
    spec = {"maxReplicas": 20, "behavior": {"scaleUp": {"policies": [ONE_A_MINUTE]}}}
    assert allowed(spec, 3, 9, history, NOW_S)[0] == 6


USE = {"cpu": 0.1}


def _usage(pod: Any) -> dict[str, dict[str, float]]:
    return {"c": dict(USE)}


@pytest.mark.anyio
@pytest.mark.cluster(nodes=1, usage=_usage)
async def test_a_deployment_follows_the_use_of_its_pods(cluster: ClusterInMemory, monkeypatch: Any) -> None:
    template = pod_template("web")
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "200m"}}
    selector = {"matchLabels": {"app": "web"}}
    kind, metadata = "apps/v1", {"name": "web", "namespace": "default"}
    deployment = {"replicas": 1, "selector": selector, "template": template}
    await cluster.client.create({"apiVersion": kind, "kind": "Deployment", "metadata": metadata, "spec": deployment})
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    scales = {"apiVersion": kind, "kind": "Deployment", "name": "web"}
    spec = {"maxReplicas": 8, "scaleTargetRef": scales, "metrics": [metric]}
    of = "autoscaling/v2"
    await cluster.client.create(
        {"apiVersion": of, "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}
    )

    async def size() -> int:
        return int((await cluster.client.get("apps/v1/Deployment", "web", namespace="default"))["spec"]["replicas"])

    await cluster.run(60)
    assert await size() == 1
    metrics = "/apis/metrics.k8s.io/v1beta1"
    (node,) = (await cluster.api.get(f"{metrics}/nodes")).json["items"]
    (pod,) = (await cluster.api.get(f"{metrics}/namespaces/default/pods")).json["items"]
    name = pod["metadata"]["name"]
    assert pod["containers"] == [{"name": "c", "usage": node["usage"]}]
    assert node["usage"] == {"cpu": "100m", "memory": "0"}
    assert (await cluster.api.get(f"{metrics}/namespaces/default/pods/{name}")).json["containers"] == pod["containers"]
    assert (await cluster.api.get(f"{metrics}/namespaces/other/pods")).json["items"] == []
    monkeypatch.setitem(USE, "cpu", 0.3)
    await cluster.run(60)
    assert await size() == 8
    status = (await cluster.client.get(f"{of}/HorizontalPodAutoscaler", "web", namespace="default"))["status"]
    assert status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 150
    assert {one["type"]: one["reason"] for one in status["conditions"]}["ScalingLimited"] == "TooManyReplicas"
    monkeypatch.setitem(USE, "cpu", 0.02)
    await cluster.run(200)
    assert await size() == 8
    await cluster.run(200)
    assert await size() == 2


@pytest.mark.anyio
@pytest.mark.cluster(nodes=1)
async def test_a_target_of_a_kind_that_is_not_served_is_told(cluster: ClusterInMemory) -> None:
    kind, metadata = "autoscaling/v2", {"name": "none", "namespace": "default"}
    spec = {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "example.com/v1", "kind": "Sail", "name": "x"}}
    await cluster.client.create(
        {"apiVersion": kind, "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}
    )
    await cluster.run(1)
    status = (await cluster.client.get(f"{kind}/HorizontalPodAutoscaler", "none", namespace="default"))["status"]
    why = 'no matches for kind "Sail" in group "example.com"'
    assert (
        status["conditions"][0]["message"] == f"the HPA controller was unable to get the target's current scale: {why}"
    )
