"""Deployments roll out within their limits, keep their history, and tell how they get on."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_kit import HOLD, ClusterInMemory, cluster_in_memory, pod_template, ready_pods_part

from oarlock_cluster.controllers.deployment import desired
from oarlock_cluster.controllers.rollout import Rollout
from oarlock_cluster.workloads import workloads_part

EPOCH_S = 1_767_225_600.0
ANNOTATION = "deployment.kubernetes.io/"


def deployment(replicas: int, image: str = "i:1", surge: Any = "25%", unavailable: Any = "25%", **spec: Any) -> Any:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    whole = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": pod_template("web", image),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        **spec,
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": "d"}, "spec": whole}


def replica_set(image: str, replicas: int, available: int | None = None, *, made_for: int = 0, most: int = 0) -> Any:
    annotations = {f"{ANNOTATION}desired-replicas": str(made_for), f"{ANNOTATION}max-replicas": str(most)}
    counted = replicas if available is None else available
    return {
        "metadata": {"name": image, "uid": image, "annotations": annotations},
        "spec": {"replicas": replicas, "template": pod_template("web", image)},
        "status": {"replicas": replicas, "availableReplicas": counted, "readyReplicas": counted},
    }


@pytest.mark.parametrize(
    ("surge", "unavailable", "sizes", "expected"),
    [
        ("25%", "25%", [("i:1", 10, 10), ("i:2", 0, 0)], {"i:2": 3}),
        ("25%", "25%", [("i:1", 10, 10), ("i:2", 3, 0)], {"i:1": 8}),
        (0, 1, [("i:1", 10, 10), ("i:2", 0, 0)], {"i:1": 9}),
        (0, 1, [("i:1", 9, 9), ("i:2", 0, 0)], {"i:2": 1}),
        (1, 0, [("i:1", 10, 10), ("i:2", 1, 0)], {}),
        (1, 0, [("i:1", 10, 10), ("i:2", 1, 1)], {"i:1": 9}),
        ("25%", "25%", [("i:1", 10, 6), ("i:2", 3, 0)], {"i:1": 8}),
        (3, 2, [("i:0", 4, 0), ("i:1", 9, 9), ("i:2", 0, 0)], {"i:0": 0, "i:1": 8}),
    ],
)
def test_a_rollout_stays_within_surge_and_unavailability(
    surge: Any, unavailable: Any, sizes: list[tuple[str, int, int]], expected: dict[str, int]
) -> None:
    sets = [replica_set(image, size, available, made_for=10) for image, size, available in sizes]
    plan = desired(deployment(10, "i:2", surge, unavailable), sets, False, EPOCH_S)
    assert plan.scale == expected


def test_scaling_amid_a_rollout_keeps_proportions() -> None:
    sets = [replica_set("i:1", 8, made_for=10, most=13), replica_set("i:2", 5, 0, made_for=10, most=13)]
    assert Rollout.of(deployment(20, "i:2"), sets).proportional() == {"i:1": 15, "i:2": 10}
    assert Rollout.of(deployment(0, "i:2"), sets).proportional() == {"i:1": 0, "i:2": 0}


def test_a_percentage_of_one_replica_still_rolls() -> None:
    rollout = Rollout.of(deployment(1, "i:2", 0, "25%"), [replica_set("i:1", 1)])
    assert (rollout.max_surge, rollout.max_unavailable) == (0, 1)


async def until_rolled_out(cluster: ClusterInMemory, image: str) -> Any:
    async def look() -> Any:
        found = await cluster.get("deployments", "web")
        status = found.get("status") or {}
        numbers = {status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")}
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        reasons = [one["reason"] for one in status.get("conditions") or ()]
        done = numbers == {found["spec"]["replicas"]} and current and "NewReplicaSetAvailable" in reasons
        return found if done else None

    found = await cluster.until(look)
    pods = [pod for pod in await cluster.all("pods") if not pod["metadata"].get("deletionTimestamp")]
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {image}
    return found


def image_patch(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}


@pytest.mark.anyio
async def test_an_image_is_rolled_out_and_back_and_old_sets_are_kept_as_long_as_wanted() -> None:
    async with cluster_in_memory([workloads_part, ready_pods_part]) as cluster:
        await cluster.create("deployments", "web", deployment(3, revisionHistoryLimit=1)["spec"])
        found = await until_rolled_out(cluster, "i:1")
        assert found["metadata"]["annotations"] == {f"{ANNOTATION}revision": "1"}
        for number, image in enumerate(("i:2", "i:3", "i:2"), 2):
            await cluster.patch("deployments", "web", image_patch(image))
            found = await until_rolled_out(cluster, image)
            assert found["metadata"]["annotations"][f"{ANNOTATION}revision"] == str(number)
        assert found["metadata"]["generation"] == 4, "annotations are written beside the status"
        sets = await cluster.until_count("replicasets", 2)
        notes = {
            one["spec"]["template"]["spec"]["containers"][0]["image"]: one["metadata"]["annotations"] for one in sets
        }
        assert notes["i:2"][f"{ANNOTATION}revision-history"] == "2"
        messages = [message.partition(" replica set")[0] for _, message in await cluster.events()]
        assert {"Scaled up", "Scaled down"} <= set(messages)


@pytest.mark.anyio
async def test_all_old_pods_go_before_a_new_one_comes() -> None:
    async with cluster_in_memory([workloads_part, ready_pods_part]) as cluster:
        spec = {**deployment(2)["spec"], "strategy": {"type": "Recreate"}}
        await cluster.create("deployments", "web", spec)
        await until_rolled_out(cluster, "i:1")
        await cluster.patch("deployments", "web", image_patch("i:2"))
        images = set()

        async def look() -> Any:
            images.add(frozenset(pod["spec"]["containers"][0]["image"] for pod in await cluster.all("pods")))
            return frozenset(["i:2"]) in images

        await cluster.until(look)
        assert frozenset(["i:1", "i:2"]) not in images


@pytest.mark.anyio
async def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    async with cluster_in_memory([workloads_part, ready_pods_part]) as cluster:
        await cluster.create("deployments", "web", deployment(2)["spec"])
        await until_rolled_out(cluster, "i:1")
        await cluster.patch("deployments", "web", {"spec": {"paused": True, **image_patch("i:2")["spec"]}})
        await cluster.patch("deployments", "web", {"spec": {"replicas": 4}})
        status = await cluster.until_status("deployments", "web", replicas=4, availableReplicas=4, updatedReplicas=None)
        assert status["conditions"][-1]["reason"] in ("DeploymentPaused", "MinimumReplicasAvailable")
        await cluster.patch("deployments", "web", {"spec": {"paused": False}})
        await until_rolled_out(cluster, "i:2")


@pytest.mark.anyio
async def test_a_rollout_that_does_not_get_on_is_told_after_its_deadline() -> None:
    async with cluster_in_memory([workloads_part, ready_pods_part]) as cluster:
        await cluster.create("deployments", "web", deployment(2, progressDeadlineSeconds=60)["spec"])
        await until_rolled_out(cluster, "i:1")
        held = image_patch("i:2")
        held["spec"]["template"]["metadata"] = {"annotations": {HOLD: ""}}
        await cluster.patch("deployments", "web", held)
        since = cluster.clock.now()

        async def timed_out() -> Any:
            conditions = (await cluster.get("deployments", "web"))["status"]["conditions"]
            return [one for one in conditions if one["reason"] == "ProgressDeadlineExceeded"]

        condition = (await cluster.until(timed_out))[0]
        assert condition["status"] == "False"
        assert 60 <= cluster.clock.now() - since < 65
        await cluster.patch("deployments", "web", {"spec": {"template": {"metadata": {"annotations": None}}}})
        await until_rolled_out(cluster, "i:2")
