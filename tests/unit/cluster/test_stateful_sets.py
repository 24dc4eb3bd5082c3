"""Pods of StatefulSets have names and claims of their own, and come, change and go one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from cluster_kit import HOLD, ClusterInMemory, cluster_in_memory, pod_template, ready_pods_part

from oarlock_cluster.controllers.stateful_set import desired, ordinal_of
from oarlock_cluster.workloads import workloads_part

pytestmark = pytest.mark.anyio

NOW_S = 1_767_225_600.0


@pytest.fixture
async def cluster() -> AsyncIterator[ClusterInMemory]:
    async with cluster_in_memory((workloads_part, ready_pods_part)) as made:
        yield made


def _spec(replicas: int = 3, image: str = "i:1", **rest: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "db"}}
    return {
        "replicas": replicas,
        "serviceName": "db",
        "selector": selector,
        "template": pod_template("db", image),
        **rest,
    }


def _pod(name: str, ready: bool = True, revision: str = "db-1", **metadata: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}] if ready else []
    return {
        "metadata": {"name": name, "labels": {"controller-revision-hash": revision}, **metadata},
        "spec": {},
        "status": {"phase": "Running", "conditions": conditions},
    }


@pytest.mark.parametrize(
    ("pods", "spec", "create", "delete"),
    [
        ([], {}, [0], []),
        ([], {"podManagementPolicy": "Parallel"}, [0, 1, 2], []),
        ([_pod("db-0", ready=False)], {}, [], []),
        ([_pod("db-0")], {"ordinals": {"start": 5}}, [5], []),
        ([_pod(f"db-{at}") for at in range(5)], {}, [], ["db-4"]),
        ([_pod(f"db-{at}") for at in range(5)], {"podManagementPolicy": "Parallel"}, [], ["db-4", "db-3"]),
        ([_pod("db-0"), _pod("db-1", ready=False), *(_pod(f"db-{at}") for at in (2, 3))], {}, [], []),
        ([_pod(f"db-{at}", revision="db-0") for at in range(3)], {}, [], ["db-2"]),
        ([_pod("db-0", revision="db-0"), _pod("db-1", revision="db-0"), _pod("db-2")], {}, [], ["db-1"]),
        (
            [_pod("db-0", revision="db-0"), _pod("db-1", revision="db-0"), _pod("db-2")],
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}},
            [],
            [],
        ),
        ([_pod(f"db-{at}", revision="db-0") for at in range(3)], {"updateStrategy": {"type": "OnDelete"}}, [], []),
    ],
)
def test_what_the_next_step_is(pods: Any, spec: dict[str, Any], create: list[int], delete: list[str]) -> None:
    stateful_set = {"metadata": {"name": "db"}, "spec": {"replicas": 3, **spec}}
    plan = desired(stateful_set, pods, "db-1", NOW_S)
    assert (plan.create, [pod["metadata"]["name"] for pod in plan.delete]) == (create, delete)


def test_an_ordinal_is_the_number_at_the_end() -> None:
    assert [ordinal_of({"metadata": {"name": name}}) for name in ("a-0", "a-b-12", "a-b", "a")] == [0, 12, -1, -1]


async def test_pods_are_made_rolled_and_deleted_in_order(cluster: ClusterInMemory) -> None:
    await cluster.create("statefulsets", "db", _spec())
    status = await cluster.until_status("statefulsets", "db", readyReplicas=3, observedGeneration=1)
    assert status["currentRevision"] == status["updateRevision"]
    pods = await cluster.all("pods")
    assert [pod["metadata"]["name"] for pod in pods] == ["db-0", "db-1", "db-2"]
    assert pods[1]["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert (pods[1]["spec"]["hostname"], pods[1]["spec"]["subdomain"]) == ("db-1", "db")
    await cluster.patch("statefulsets", "db", {"spec": {"template": pod_template("db", "i:2")}})
    status = await cluster.until_status("statefulsets", "db", updatedReplicas=3, readyReplicas=3, observedGeneration=2)
    pods = await cluster.all("pods")
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"i:2"}
    assert pods[2]["metadata"]["creationTimestamp"] <= pods[0]["metadata"]["creationTimestamp"]
    await cluster.patch("statefulsets", "db", {"spec": {"replicas": 1}})
    await cluster.until_count("pods", 1)
    revisions = await cluster.all("controllerrevisions")
    assert sorted(one["revision"] for one in revisions) == [1, 2]
    messages = [message for _, message in await cluster.events()]
    assert messages.count("Delete Pod db-2 in StatefulSet db successful") == 2


async def test_a_template_that_comes_back_has_its_old_revision_with_a_new_number(cluster: ClusterInMemory) -> None:
    await cluster.create("statefulsets", "db", _spec(1))
    first = await cluster.until_status("statefulsets", "db", readyReplicas=1, observedGeneration=1)
    for generation, image in enumerate(("i:2", "i:1"), 2):
        await cluster.patch("statefulsets", "db", {"spec": {"template": pod_template("db", image)}})
        status = await cluster.until_status("statefulsets", "db", observedGeneration=generation, updatedReplicas=1)
    assert status["updateRevision"] == first["updateRevision"]
    assert sorted(one["revision"] for one in await cluster.all("controllerrevisions")) == [2, 3]


async def test_claims_are_made_for_each_pod_and_go_as_the_policy_says(cluster: ClusterInMemory) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    rest = {"volumeClaimTemplates": [claim], "persistentVolumeClaimRetentionPolicy": policy}
    await cluster.create("statefulsets", "db", _spec(2, **rest))
    await cluster.until_status("statefulsets", "db", readyReplicas=2)
    pods = await cluster.all("pods")
    assert pods[1]["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "data-db-1"}
    assert len(await cluster.all("persistentvolumeclaims")) == 2
    assert "SuccessfulUpdate" not in {reason for reason, _ in await cluster.events()}
    policy["whenDeleted"] = "Retain"
    await cluster.patch("statefulsets", "db", {"spec": {"persistentVolumeClaimRetentionPolicy": policy}})

    async def told() -> bool:
        return ("SuccessfulUpdate", "Update Pod db-1 in StatefulSet db successful") in await cluster.events()

    await cluster.until(told)
    await cluster.patch("statefulsets", "db", {"spec": {"replicas": 1}})
    [left] = await cluster.until_count("persistentvolumeclaims", 1)
    assert left["metadata"]["name"] == "data-db-0"
    await cluster.delete("statefulsets", "db")
    await cluster.until_count("pods", 0)
    assert len(await cluster.all("persistentvolumeclaims")) == 1


async def test_what_is_told_of_a_set_is_told_of_its_revisions(cluster: ClusterInMemory) -> None:
    metadata = {"name": "db", "annotations": {"kubernetes.io/change-cause": "first"}}
    await cluster.create("statefulsets", "db", _spec(1), metadata=metadata)
    [revision] = await cluster.until_count("controllerrevisions", 1)
    assert revision["metadata"]["annotations"] == {"kubernetes.io/change-cause": "first"}


async def test_a_pod_that_waits_gets_its_claim_again_once_it_is_gone(cluster: ClusterInMemory) -> None:
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = pod_template("db")
    template["metadata"]["annotations"] = {HOLD: ""}
    claims = [{"metadata": {"name": "data"}, "spec": size}]
    await cluster.create("statefulsets", "db", _spec(1, template=template, volumeClaimTemplates=claims))
    await cluster.until_count("pods", 1)
    first = await cluster.get("persistentvolumeclaims", "data-db-0")
    await cluster.patch("persistentvolumeclaims", "data-db-0", {"metadata": {"finalizers": None}})
    await cluster.delete("persistentvolumeclaims", "data-db-0")
    await cluster.patch("pods", "db-0", {"metadata": {"labels": {"looked": "at"}}})

    async def another() -> bool:
        found = await cluster.get("persistentvolumeclaims", "data-db-0")
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await cluster.until(another)


async def test_a_pod_that_has_failed_is_made_again(cluster: ClusterInMemory) -> None:
    template = pod_template("db")
    template["metadata"]["annotations"] = {HOLD: ""}
    await cluster.create("statefulsets", "db", _spec(2, template=template))
    [pod] = await cluster.until_count("pods", 1)
    await cluster.report("db-0", "Failed", ready=False)

    async def another() -> Any:
        found = await cluster.get("pods", "db-0")
        return found if found and found["metadata"]["uid"] != pod["metadata"]["uid"] else None

    await cluster.until(another)
    assert ("SuccessfulDelete", "Delete Pod db-0 in StatefulSet db successful") in await cluster.events()
