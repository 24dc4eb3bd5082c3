"""Claims are bound to the smallest volume that fits, or to one that is made; ResourceClaims are made for pods."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_kit import ClusterInMemory, cluster_in_memory

from oarlock_cluster.controllers.persistent_volumes import DEFAULT_CLASS
from oarlock_cluster.scheduling.volumes import misfit
from oarlock_cluster.up import PARTS, SimulationOptions
from oarlock_cluster.workloads import workloads_part

pytestmark = pytest.mark.anyio


def _claim(size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    requests = {"requests": {"storage": size}}
    return {"accessModes": ["ReadWriteOnce"], "resources": requests, "storageClassName": "", **spec}


def _volume(size: str, **spec: Any) -> dict[str, Any]:
    return {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/x"}, **spec}


async def _phase(cluster: ClusterInMemory, plural: str, name: str, phase: str) -> Any:
    await cluster.until_status(plural, name, phase=phase)
    return await cluster.get(plural, name)


async def test_a_claim_gets_the_smallest_volume_that_fits_and_leaves_it_behind() -> None:
    async with cluster_in_memory((workloads_part,)) as cluster:
        for name, size in (("large", "8Gi"), ("small", "512Mi"), ("right", "2Gi")):
            await cluster.create("persistentvolumes", name, _volume(size))
        await _phase(cluster, "persistentvolumes", "right", "Available")
        await cluster.create("persistentvolumeclaims", "c", _claim())
        claim = await _phase(cluster, "persistentvolumeclaims", "c", "Bound")
        assert claim["spec"]["volumeName"] == "right"
        assert claim["status"]["capacity"] == {"storage": "2Gi"}
        volume = await _phase(cluster, "persistentvolumes", "right", "Bound")
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        await cluster.create("persistentvolumeclaims", "named", _claim(volumeName="small", size="1Mi"))
        named = await _phase(cluster, "persistentvolumeclaims", "named", "Bound")
        assert "pv.kubernetes.io/bound-by-controller" not in named["metadata"]["annotations"]
        await cluster.delete("persistentvolumeclaims", "c")
        await _phase(cluster, "persistentvolumes", "right", "Released")


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        (_volume("1Mi"), "requested PV is too small"),
        (_volume("1Gi", storageClassName="x"), "storageClassName does not match"),
        (_volume("1Gi", volumeMode="Block"), "incompatible volumeMode"),
        (_volume("1Gi", accessModes=["ReadOnlyMany"]), "incompatible accessMode"),
    ],
)
async def test_why_a_claim_does_not_get_the_volume_that_it_names(volume: dict[str, Any], text: str) -> None:
    claim = {"metadata": {"name": "c"}, "spec": _claim(volumeName="v")}
    assert misfit({"metadata": {"name": "v"}, "spec": volume}, claim) == text


async def test_a_volume_that_nobody_can_delete_has_failed() -> None:
    async with cluster_in_memory((workloads_part,)) as cluster:
        await cluster.create("persistentvolumes", "v", _volume("1Gi", persistentVolumeReclaimPolicy="Delete"))
        await cluster.create("persistentvolumeclaims", "c", _claim())
        await _phase(cluster, "persistentvolumeclaims", "c", "Bound")
        await cluster.delete("persistentvolumeclaims", "c")
        volume = await _phase(cluster, "persistentvolumes", "v", "Failed")
        text = "host_path deleter only supports /tmp/.+ but received provided /x"
        assert volume["status"]["message"] == text
        assert ("VolumeFailedDelete", text) in await cluster.events()


async def test_a_claim_whose_volume_is_gone_is_lost() -> None:
    async with cluster_in_memory((workloads_part,)) as cluster:
        await cluster.create("persistentvolumes", "v", _volume("1Gi"))
        await cluster.create("persistentvolumeclaims", "c", _claim())
        await _phase(cluster, "persistentvolumeclaims", "c", "Bound")
        await cluster.delete("persistentvolumes", "v")
        await cluster.patch("persistentvolumes", "v", {"metadata": {"finalizers": None}})
        await _phase(cluster, "persistentvolumeclaims", "c", "Lost")
        assert "ClaimLost" in {reason for reason, _ in await cluster.events()}


async def test_the_provisioner_makes_a_volume_for_the_node_of_the_first_pod_and_takes_it_away() -> None:
    async with cluster_in_memory(PARTS.parts(SimulationOptions(nodes="2"))) as cluster:
        await cluster.until_count("storageclasses", 1)
        spec = {key: value for key, value in _claim().items() if key != "storageClassName"}
        claim = await cluster.create("persistentvolumeclaims", "c", spec)
        assert claim["spec"]["storageClassName"] == DEFAULT_CLASS["metadata"]["name"]
        container = {"name": "c", "image": "i:1"}
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        await cluster.create("pods", "user", {"containers": [container], "volumes": volumes})
        await _phase(cluster, "pods", "user", "Running")
        pod, claim = await cluster.get("pods", "user"), await cluster.get("persistentvolumeclaims", "c")
        [volume] = await cluster.all("persistentvolumes")
        assert volume["metadata"]["name"] == claim["spec"]["volumeName"] == f"pvc-{claim['metadata']['uid']}"
        [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == [pod["spec"]["nodeName"]]
        await cluster.delete("pods", "user")
        await cluster.delete("persistentvolumeclaims", "c")
        await cluster.until_count("persistentvolumes", 0)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"storageClassName": ""}, "FailedBinding"),
        ({"storageClassName": "unknown"}, "ProvisioningFailed"),
        ({"storageClassName": "waits"}, "WaitForFirstConsumer"),
        ({"storageClassName": "other"}, "ExternalProvisioning"),
    ],
)
async def test_why_a_claim_waits_is_told(spec: dict[str, str], reason: str) -> None:
    async with cluster_in_memory((workloads_part,)) as cluster:
        for name, mode in (("waits", "WaitForFirstConsumer"), ("other", "Immediate")):
            kind = {"metadata": {"name": name}, "provisioner": "example.com/x", "volumeBindingMode": mode}
            await cluster.api.post(cluster.path("storageclasses"), kind)
        await cluster.create("persistentvolumeclaims", "c", _claim(**spec))

        async def told() -> bool:
            return reason in {each for each, _ in await cluster.events()}

        await cluster.until(told)


async def test_a_pod_waits_for_the_claim_that_is_made_from_its_template() -> None:
    async with cluster_in_memory(PARTS.parts(SimulationOptions(nodes="1"))) as cluster:
        claims = [{"name": "r", "resourceClaimTemplateName": "t"}]
        await cluster.create("pods", "p", {"containers": [{"name": "c", "image": "i:1"}], "resourceClaims": claims})
        text = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'

        async def told(text: str = text) -> bool:
            return any(text in message for _, message in await cluster.events())

        await cluster.until(told)
        request = {"name": "d", "exactly": {"deviceClassName": "gpu"}}
        await cluster.create("resourceclaimtemplates", "t", {"spec": {"devices": {"requests": [request]}}})
        [claim] = await cluster.until_count("resourceclaims", 1)
        assert claim["metadata"]["name"].startswith("p-r-")
        await cluster.until(lambda: told("0/1 nodes are available: request d: device class gpu does not exist."))
        await cluster.delete("pods", "p")
        await cluster.until_count("resourceclaims", 0)
