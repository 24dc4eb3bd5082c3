"""What simulated pods do by annotation, as a kubelet reports it."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock_cluster.testing import ClusterInMemory

pytestmark = pytest.mark.anyio


async def _pod(cluster: ClusterInMemory, name: str, spec: dict[str, Any] | None = None, **annotations: str) -> None:
    sim = {f"sim/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": name, "namespace": "default", "annotations": sim}
    whole = {"containers": [{"name": "c", "image": "i:1"}], **(spec or {})}
    await cluster.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole})


async def _status(cluster: ClusterInMemory, name: str) -> Any:
    return (await cluster.client.get("v1/Pod", name, namespace="default"))["status"]


def _condition(status: Any, kind: str) -> str:
    return str(next(each["status"] for each in status["conditions"] if each["type"] == kind))


@pytest.mark.cluster(nodes=1)
async def test_pods_fail_start_slowly_and_recover_as_they_are_told(cluster: ClusterInMemory) -> None:
    await _pod(cluster, "no-image", image_error="not found")
    await _pod(cluster, "no-memory", crash="137", reason="OOMKilled", run_s="1")
    await _pod(cluster, "unready", notready="")
    await _pod(cluster, "recovers", fails="2", run_s="1")
    initial = [
        {"name": "sidecar", "image": "s:1", "restartPolicy": "Always"},
        {"name": "first", "image": "f:1"},
    ]
    await _pod(cluster, "initial", {"initContainers": initial}, start_s="4")
    await cluster.run(6)
    status = await _status(cluster, "initial")
    assert (status["phase"], _condition(status, "Initialized")) == ("Pending", "False")
    await cluster.run(60)

    status = await _status(cluster, "initial")
    assert (status["phase"], _condition(status, "Ready")) == ("Running", "True")
    sidecar, first = status["initContainerStatuses"]
    assert ("running" in sidecar["state"], sidecar["started"]) == (True, True)
    assert first["state"]["terminated"]["reason"] == "Completed"

    (container,) = (await _status(cluster, "no-image"))["containerStatuses"]
    assert container["state"]["waiting"]["reason"] == "ImagePullBackOff"
    (container,) = (await _status(cluster, "no-memory"))["containerStatuses"]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    ended = container["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    status = await _status(cluster, "unready")
    assert (status["phase"], _condition(status, "Ready")) == ("Running", "False")
    status = await _status(cluster, "recovers")
    assert (status["containerStatuses"][0]["restartCount"], _condition(status, "Ready")) == (2, "True")

    await cluster.client.patch(
        "v1/Pod", "no-image", {"metadata": {"annotations": {"sim/image-error": None}}}, namespace="default"
    )
    await cluster.run(400)
    assert (await _status(cluster, "no-image"))["phase"] == "Running"


@pytest.mark.cluster(nodes=1)
async def test_a_job_succeeds_after_some_tries(cluster: ClusterInMemory) -> None:
    template = {
        "metadata": {"annotations": {"sim/fails": "2"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    metadata = {"name": "job", "namespace": "default"}
    await cluster.client.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    )
    await cluster.run(120)
    status = (await cluster.client.get("batch/v1/Job", "job", namespace="default"))["status"]
    assert (status["failed"], status["succeeded"]) == (2, 1)
