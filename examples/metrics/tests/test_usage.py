"""What clients see of pods and nodes of a cluster: a control plane in memory."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from oarlock import ControlPlane
from oarlock.testing import InMemory, TestClient, VirtualClock

from metrics.server import make_server

pytestmark = pytest.mark.anyio
METRICS = "/apis/metrics.k8s.io/v1beta1"
PODS = "/api/v1/namespaces/default/pods"
SAMPLES = Path(__file__).resolve().parents[1] / "samples"


@pytest.fixture
async def api() -> AsyncIterator[InMemory]:
    """The server, looking at a node with two pods that run, and a pod that waits."""
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as cluster:
        await clock.run(1)  # the namespace has a service account then
        assert (await cluster.post("/api/v1/nodes", {"metadata": {"name": "one"}})).status == 201
        for pod in yaml.safe_load_all((SAMPLES / "pods.yaml").read_text()):
            pod["spec"]["nodeName"] = "one"
            assert (await cluster.post(PODS, pod)).status == 201
            running = {"status": {"phase": "Running"}}
            name = pod["metadata"]["name"]
            assert (await cluster.patch(f"{PODS}/{name}/status", running)).status == 200
        waiting = {"metadata": {"name": "waiting"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
        assert (await cluster.post(PODS, waiting)).status == 201
        async with InMemory(make_server(cluster.client())) as api:
            yield api


def figures(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {item["metadata"]["name"]: {one["name"]: one["usage"] for one in item["containers"]} for item in items}


async def test_what_runs_has_metrics(api: InMemory) -> None:
    pods = (await api.get(f"{METRICS}/pods")).json
    assert pods["kind"] == "PodMetricsList"
    assert figures(pods["items"]) == {
        "batch": {"main": {"cpu": "1500m", "memory": "1Gi"}},
        "web": {"main": {"cpu": "250m", "memory": "128Mi"}, "proxy": {"cpu": "50m", "memory": "32Mi"}},
    }
    chosen = (await api.get(f"{METRICS}/namespaces/default/pods?labelSelector=app%3Dweb")).json["items"]
    assert list(figures(chosen)) == ["web"]
    assert (await api.get(f"{METRICS}/namespaces/other/pods")).json["items"] == []
    assert (await api.get(f"{METRICS}/namespaces/default/pods/web")).json["window"] == "10s"
    assert (await api.get(f"{METRICS}/namespaces/default/pods/waiting")).status == 404

    (node,) = (await api.get(f"{METRICS}/nodes")).json["items"]
    assert node["usage"] == {"cpu": "1900m", "memory": "1696Mi"}
    assert (await api.get(f"{METRICS}/nodes/one")).json["usage"] == node["usage"]
    assert (await api.get(f"{METRICS}/nodes/two")).status == 404


def test_nothing_can_be_written(client: TestClient) -> None:
    resources = client.get(METRICS).json["resources"]
    found = {resource["name"]: (resource["kind"], resource["namespaced"], resource["verbs"]) for resource in resources}
    assert found == {"nodes": ("NodeMetrics", False, ["get", "list"]), "pods": ("PodMetrics", True, ["get", "list"])}
