"""How many pods may be evicted is counted of those that are ready, and of what their controllers want."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_kit import cluster_in_memory, pod_template, ready_pods_part

from oarlock_cluster.controllers.disruption import status_of
from oarlock_cluster.workloads import workloads_part

NOW_S = 1_767_225_600.0


def _pod(name: str, ready: bool = True) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {"metadata": {"name": name}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("spec", "ready", "scale", "counts"),
    [
        ({"minAvailable": 2}, [True, True, True], 0, (3, 3, 2, 1)),
        ({"minAvailable": 2}, [True, True, False], 0, (3, 2, 2, 0)),
        ({"minAvailable": "50%"}, [True, True, True], 5, (5, 3, 3, 0)),
        ({"maxUnavailable": 1}, [True, True, True], 3, (3, 3, 2, 1)),
        ({"maxUnavailable": "50%"}, [True, True, False], 3, (3, 2, 1, 1)),
        ({"maxUnavailable": "30%"}, [True], 0, (0, 1, 0, 0)),
        ({"minAvailable": 1}, [], 0, (0, 0, 1, 0)),
    ],
)
def test_what_is_allowed(spec: dict[str, Any], ready: list[bool], scale: int, counts: tuple[int, ...]) -> None:
    pods = [_pod(str(at), each) for at, each in enumerate(ready)]
    status = status_of({"metadata": {"generation": 1}, "spec": spec}, pods, scale, NOW_S)
    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    assert tuple(status[name] for name in names) == counts
    assert status["conditions"][0]["reason"] == ("SufficientPods" if counts[3] else "InsufficientPods")


def test_a_pod_whose_eviction_was_allowed_counts_no_more_for_two_minutes() -> None:
    budget = {"metadata": {}, "spec": {"minAvailable": 1}, "status": {"disruptedPods": {"0": "2026-01-01T00:00:00Z"}}}
    pods = [_pod("0"), _pod("1")]
    assert status_of(budget, pods, 0, NOW_S + 60)["disruptionsAllowed"] == 0
    later = status_of(budget, pods, 0, NOW_S + 121)
    assert (later["disruptionsAllowed"], later.get("disruptedPods")) == (1, None)


@pytest.mark.anyio
async def test_nothing_may_be_evicted_of_what_has_no_scale() -> None:
    async with cluster_in_memory((workloads_part,)) as cluster:
        template = {**pod_template("web"), "spec": {**pod_template("web")["spec"], "restartPolicy": "Never"}}
        await cluster.create("jobs", "web", {"template": template})
        await cluster.until_count("pods", 1)
        selector = {"matchLabels": {"app": "web"}}
        await cluster.create("poddisruptionbudgets", "web", {"maxUnavailable": 1, "selector": selector})

        async def told() -> Any:
            return (await cluster.get("poddisruptionbudgets", "web"))["status"].get("conditions")

        [condition] = await cluster.until(told)
        why = "jobs.batch does not implement the scale subresource"
        assert (condition["reason"], condition["message"]) == ("SyncFailed", why)
        text = f"Failed to calculate the number of expected pods: {why}"
        assert ("CalculateExpectedPodCountFailed", text) in await cluster.events()


@pytest.mark.anyio
async def test_evictions_are_refused_until_another_pod_is_ready() -> None:
    async with cluster_in_memory((workloads_part, ready_pods_part)) as cluster:
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pod_template("web")}
        await cluster.create("deployments", "web", spec)
        selector = {"matchLabels": {"app": "web"}}
        await cluster.create("poddisruptionbudgets", "web", {"maxUnavailable": 1, "selector": selector})
        await cluster.until_status("poddisruptionbudgets", "web", disruptionsAllowed=1, expectedPods=2)
        first, second = [pod["metadata"]["name"] for pod in await cluster.all("pods")]
        await cluster.report(first, ready=False)
        await cluster.until_status("poddisruptionbudgets", "web", disruptionsAllowed=0)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": second}}
        assert (await cluster.api.post(f"{cluster.path('pods', second)}/eviction", eviction)).status == 429
        await cluster.report(first)
        await cluster.until_status("poddisruptionbudgets", "web", disruptionsAllowed=1)
        assert (await cluster.api.post(f"{cluster.path('pods', second)}/eviction", eviction)).status == 201
        await cluster.until_status("poddisruptionbudgets", "web", disruptionsAllowed=1, currentHealthy=2)
