"""The fixture `cluster`: a whole cluster in memory, in which hours pass in milliseconds."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from cluster_kit import pod_template

from oarlock import errors
from oarlock_cluster.nodes.behaviour import PodBehaviour
from oarlock_cluster.testing import ClusterInMemory

pytestmark = pytest.mark.anyio


def _deployment(replicas: int, image: str = "i:1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": pod_template("web", image),
            **spec,
        },
    }


async def _deployed(cluster: ClusterInMemory) -> Any:
    return (await cluster.client.get("apps/v1/Deployment", "web", namespace="default"))["status"]


async def _pods(cluster: ClusterInMemory) -> list[Any]:
    return [pod async for pod in cluster.client.list("v1/Pod", namespace="default")]


async def test_a_rollout_of_a_hundred_replicas(cluster: ClusterInMemory) -> None:
    await cluster.client.create(_deployment(100))
    await cluster.settle()
    assert (await _deployed(cluster))["readyReplicas"] == 100
    patch = {"spec": {"template": pod_template("web", "i:2")}}
    await cluster.client.patch("apps/v1/Deployment", "web", patch, namespace="default")
    await cluster.settle()
    status = await _deployed(cluster)
    assert (status["updatedReplicas"], status["readyReplicas"], status["replicas"]) == (100, 100, 100)
    assert {pod["spec"]["nodeName"] for pod in await _pods(cluster)} == {"n1", "n2", "n3"}


async def test_a_hundred_pods_that_get_ready_change_the_status_of_their_set_a_few_times(
    cluster: ClusterInMemory,
) -> None:
    changes: list[Any] = []
    informer = cluster.client.informer("apps/v1/ReplicaSet")
    informer.add_handler(lambda old, new: changes.append(new))
    async with informer:
        await informer.synced()
        await cluster.client.create(_deployment(100))
        await cluster.settle()
    assert changes[-1]["status"]["readyReplicas"] == 100
    assert len(changes) < 20


async def test_pods_of_a_node_that_is_away_for_an_hour_are_made_elsewhere(cluster: ClusterInMemory) -> None:
    await cluster.client.create(_deployment(3))
    await cluster.settle()
    cluster.nodes["n1"].stop()
    await cluster.run(3600)
    assert (await _deployed(cluster))["readyReplicas"] == 3
    alive = [pod for pod in await _pods(cluster) if not pod["metadata"].get("deletionTimestamp")]
    assert {pod["spec"]["nodeName"] for pod in alive} == {"n2", "n3"}
    node = await cluster.client.get("v1/Node", "n1")
    assert {taint["key"] for taint in node["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}
    cluster.nodes["n1"].start()
    await cluster.settle()
    assert not (await cluster.client.get("v1/Node", "n1"))["spec"].get("taints")
    assert len(await _pods(cluster)) == 3


async def test_a_deadline_of_ten_minutes_passes(cluster: ClusterInMemory) -> None:
    cluster.behave("web", hold=True)
    await cluster.client.create(_deployment(1))
    await cluster.settle()
    await cluster.run(601)
    conditions = {one["type"]: one["reason"] for one in (await _deployed(cluster))["conditions"]}
    assert conditions["Progressing"] == "ProgressDeadlineExceeded"


async def test_a_behaviour_may_be_a_function_of_the_pod(cluster: ClusterInMemory) -> None:
    def by_image(pod: Any) -> PodBehaviour:
        return PodBehaviour(notready=pod["spec"]["containers"][0]["image"] == "i:2")

    cluster.behave("web", by_image)
    await cluster.client.create(_deployment(2, strategy={"rollingUpdate": {"maxUnavailable": 0}}))
    await cluster.settle()
    patch = {"spec": {"template": pod_template("web", "i:2")}}
    await cluster.client.patch("apps/v1/Deployment", "web", patch, namespace="default")
    await cluster.settle()
    status = await _deployed(cluster)
    assert (status["readyReplicas"], status["updatedReplicas"]) == (2, 1)


async def test_requests_fail_on_purpose_and_the_cluster_goes_on(cluster: ClusterInMemory) -> None:
    cluster.fail("create", "apps/v1/Deployment", status=503)
    refused = await cluster.api.post("/apis/apps/v1/namespaces/default/deployments", _deployment(1))
    assert refused.status == 503
    await cluster.client.create(_deployment(1))
    with pytest.raises(errors.AlreadyExists):
        await cluster.client.create(_deployment(1))
    await cluster.settle()
    assert (await _deployed(cluster))["readyReplicas"] == 1


@pytest.mark.cluster(nodes=1)
async def test_a_mark_says_how_many_nodes(cluster: ClusterInMemory) -> None:
    assert list(cluster.nodes) == ["n1"]
    assert [node["metadata"]["name"] async for node in cluster.client.list("v1/Node")] == ["n1"]


async def test_its_own_controllers_log_no_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Such as those about Endpoints, which are made for those who still read them."""
    async with ClusterInMemory(nodes=1) as cluster:
        await cluster.client.create(_deployment(1))
        await cluster.settle()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_several_clusters_are_apart(cluster: ClusterInMemory) -> None:
    async with ClusterInMemory(nodes=1) as other:
        await other.client.create(_deployment(1))
        await other.settle()
        assert (len(await _pods(other)), len(await _pods(cluster))) == (1, 0)


async def test_it_is_there_soon() -> None:
    took = []
    for _ in range(4):
        begin = time.process_time()
        async with ClusterInMemory() as cluster:
            await cluster.run(0)
            took.append(time.process_time() - begin)
    assert min(took) < 0.9  # 0.2 s where nothing else runs
