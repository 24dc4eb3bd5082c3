"""Admission by classes: default storage and ingress classes, runtime classes of pods; and the taint of new nodes."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
INGRESS_CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def api() -> Any:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as server:
        await server.clock.run(1)
        yield server


async def made(api: InMemory, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await api.post(path, body)
    assert answer.status == 201, answer.json
    return answer.json


def default(name: str, prefix: str) -> dict[str, Any]:
    return {"name": name, "annotations": {f"{prefix}.kubernetes.io/is-default-class": "true"}}


def claim(name: str, **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": {**wanted, **spec}}


def ingress(name: str, **spec: Any) -> dict[str, Any]:
    backend = {"service": {"name": "a", "port": {"number": 80}}}
    return {"metadata": {"name": name}, "spec": {"defaultBackend": backend, **spec}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "app:1"}], **spec}}


async def test_a_claim_without_a_class_has_the_newest_default(api: InMemory) -> None:
    assert "storageClassName" not in (await made(api, CLAIMS, claim("none")))["spec"]
    for name in ("b", "a"):
        await made(api, STORAGE, {"metadata": default(name, "storageclass"), "provisioner": "example.com/disk"})
    assert (await made(api, CLAIMS, claim("first")))["spec"]["storageClassName"] == "a"
    await api.clock.run(2)
    await made(api, STORAGE, {"metadata": default("c", "storageclass"), "provisioner": "example.com/disk"})
    assert (await made(api, CLAIMS, claim("newest")))["spec"]["storageClassName"] == "c"
    assert (await made(api, CLAIMS, claim("own", storageClassName="x")))["spec"]["storageClassName"] == "x"
    assert (await made(api, CLAIMS, claim("empty", storageClassName="")))["spec"]["storageClassName"] == ""


async def test_an_ingress_without_a_class_has_the_default(api: InMemory) -> None:
    await made(api, INGRESS_CLASSES, {"metadata": default("a", "ingressclass"), "spec": {"controller": "x.com/a"}})
    assert (await made(api, INGRESSES, ingress("a")))["spec"]["ingressClassName"] == "a"
    old = ingress("b")
    old["metadata"]["annotations"] = {"kubernetes.io/ingress.class": "old"}
    assert "ingressClassName" not in (await made(api, INGRESSES, old))["spec"]


async def test_a_pod_has_the_overhead_and_scheduling_of_its_runtime_class(api: InMemory) -> None:
    scheduling = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "slow", "operator": "Exists"}]}
    overhead = {"podFixed": {"cpu": "250m"}}
    body = {"metadata": {"name": "box"}, "handler": "box", "overhead": overhead, "scheduling": scheduling}
    await made(api, RUNTIMES, body)
    spec = (await made(api, PODS, pod("a", runtimeClassName="box", overhead={"cpu": "0.25"})))["spec"]
    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert scheduling["tolerations"][0] in spec["tolerations"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "no"}, 'pod rejected: RuntimeClass "no" not found'),
        (
            {"runtimeClassName": "box", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"runtimeClassName": "box", "nodeSelector": {"disk": "hdd"}},
            "conflict: runtimeClass.scheduling.nodeSelector[disk] = ssd; pod.spec.nodeSelector[disk] = hdd",
        ),
    ],
)
async def test_a_pod_that_contradicts_its_runtime_class_is_refused(api: InMemory, spec: Any, why: str) -> None:
    scheduling = {"nodeSelector": {"disk": "ssd"}}
    overhead = {"podFixed": {"cpu": "250m"}}
    body = {"metadata": {"name": "box"}, "handler": "box", "overhead": overhead, "scheduling": scheduling}
    await made(api, RUNTIMES, body)
    refused = await api.post(PODS, pod("a", **spec))
    assert (refused.status, refused.json["message"]) == (403, f'pods "a" is forbidden: {why}')


async def test_a_new_node_is_tainted_unless_the_plugin_is_off(api: InMemory) -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    node = {"metadata": {"name": "n"}}
    assert (await made(api, "/api/v1/nodes", node))["spec"]["taints"] == [taint]
    options = ControlPlaneOptions(disable_admission_plugins=("TaintNodesByCondition",))
    async with InMemory(ControlPlane(options=options), clock=VirtualClock()) as other:
        assert "taints" not in (await made(other, "/api/v1/nodes", node))["spec"]
