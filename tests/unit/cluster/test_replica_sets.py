"""ReplicaSets have as many pods as they say; those that fit are adopted, and those that are missed least go first."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_kit import ClusterInMemory, cluster_in_memory, pod_template

from oarlock_cluster.controllers.replica_set import deletion_order, desired

EPOCH_S = 1_767_225_600.0


def pod(name: str, **changes: Any) -> dict[str, Any]:
    """A pod as a tree: running and ready on a node, unless changed."""
    given = {"node": "n1", "phase": "Running", "ready": "2026-01-01T00:00:00Z", "restarts": 0, "cost": ""} | changes
    annotations = {"controller.kubernetes.io/pod-deletion-cost": given["cost"]} if given["cost"] else {}
    ready = {"type": "Ready", "status": "True" if given["ready"] else "False", "lastTransitionTime": given["ready"]}
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "annotations": annotations,
            "creationTimestamp": given["ready"] or None,
        },
        "spec": {"nodeName": given["node"]},
        "status": {
            "phase": given["phase"],
            "conditions": [ready],
            "containerStatuses": [{"restartCount": given["restarts"]}],
        },
    }


@pytest.mark.parametrize(
    ("first", "changes"),
    [
        ("without a node", {"node": ""}),
        ("pending", {"phase": "Pending"}),
        ("not ready", {"ready": ""}),
        ("of lower cost", {"cost": "-5"}),
        ("ready for less long", {"ready": "2026-01-01T00:30:00Z"}),
        ("restarted", {"restarts": 3}),
    ],
)
def test_those_go_first_that_are_missed_least(first: str, changes: dict[str, Any]) -> None:
    pods = [pod("a"), pod(first, **changes), pod("b")]
    assert deletion_order(pods, pods, EPOCH_S + 3600)[0]["metadata"]["name"] == first


def test_of_several_on_a_node_one_goes() -> None:
    pods = [pod("a", node="n1"), pod("b", node="n2"), pod("c", node="n2")]
    assert deletion_order(pods, pods, EPOCH_S + 60)[0]["spec"]["nodeName"] == "n2"


def test_at_most_five_hundred_at_once() -> None:
    replica_set = {"spec": {"replicas": 2000}}
    assert desired(replica_set, [], list, EPOCH_S).create == 500
    pods = [pod(f"p{number}") for number in range(2600)]
    assert len(desired(replica_set, pods, lambda: pods, EPOCH_S).delete) == 500


def replica_set(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    template = pod_template(name)
    return {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, **spec}


@pytest.mark.anyio
async def test_pods_are_adopted_made_released_and_deleted() -> None:
    async with cluster_in_memory() as cluster:
        template = pod_template("web")
        await cluster.create("pods", "stray", template["spec"], metadata={"name": "stray", **template["metadata"]})
        await cluster.create("replicasets", "web", replica_set("web", 3))
        status = await cluster.until_status("replicasets", "web", replicas=3)
        counts = {"replicas": 3, "fullyLabeledReplicas": 3, "terminatingReplicas": 0, "observedGeneration": 1}
        assert status == counts
        pods = await cluster.all("pods")
        assert [each["metadata"]["ownerReferences"][0]["name"] for each in pods] == ["web"] * 3

        await cluster.patch("pods", "stray", {"metadata": {"labels": {"app": "other"}}})
        await cluster.until_count("pods", 4)
        assert "ownerReferences" not in (await cluster.get("pods", "stray"))["metadata"]

        await cluster.patch("replicasets", "web", {"spec": {"replicas": 1}})
        await cluster.until_count("pods", 2)
        await cluster.until(lambda: _events(cluster, 5))
        events = await cluster.all("events")
        assert {event["source"]["component"] for event in events} == {"replicaset-controller"}
        told = [reason for reason, _ in await cluster.events()]
        assert told == ["SuccessfulCreate"] * 3 + ["SuccessfulDelete"] * 2


@pytest.mark.anyio
async def test_a_replication_controller_is_the_same_with_a_selector_of_labels() -> None:
    async with cluster_in_memory() as cluster:
        spec = {"replicas": 2, "selector": {"app": "old"}, "template": pod_template("old")}
        await cluster.create("replicationcontrollers", "old", spec)
        status = await cluster.until_status("replicationcontrollers", "old", replicas=2)
        assert status == {"replicas": 2, "fullyLabeledReplicas": 2, "observedGeneration": 1}
        await cluster.patch("replicationcontrollers", "old", {"spec": {"replicas": 1}})
        [pod] = await cluster.until_count("pods", 1)
        assert pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicationController"
        await cluster.until(lambda: _events(cluster, 3))
        assert {event["source"]["component"] for event in await cluster.all("events")} == {"replication-controller"}


async def _events(cluster: ClusterInMemory, count: int) -> bool:
    return len(await cluster.events()) == count


@pytest.mark.anyio
async def test_a_pod_is_available_when_it_has_been_ready_long_enough() -> None:
    async with cluster_in_memory() as cluster:
        await cluster.create("replicasets", "slow", replica_set("slow", 1, minReadySeconds=4))
        pods = await cluster.until_count("pods", 1)
        since = cluster.clock.now()
        await cluster.report(pods[0]["metadata"]["name"])
        await cluster.until_status("replicasets", "slow", readyReplicas=1, availableReplicas=None)
        await cluster.until_status("replicasets", "slow", availableReplicas=1)
        assert 3 <= cluster.clock.now() - since <= 5


@pytest.mark.anyio
async def test_a_refused_pod_is_told_by_a_condition_and_an_event() -> None:
    async with cluster_in_memory() as cluster:
        quotas = "/api/v1/namespaces/default/resourcequotas"
        await cluster.api.post(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
        await cluster.create("replicasets", "web", replica_set("web", 1))

        async def refused() -> Any:
            return ((await cluster.get("replicasets", "web")).get("status") or {}).get("conditions")

        condition = (await cluster.until(refused))[0]
        assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
        assert "exceeded quota" in condition["message"]
        await cluster.until(cluster.events)
        assert (await cluster.events())[0][1].startswith("Error creating: pods ")
        await cluster.api.delete(f"{quotas}/none")
        await cluster.until_status("replicasets", "web", replicas=1, conditions=None)
