"""Claims, volumes and classes of attributes stay as long as they are used; claims grow only where they may."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory

MERGE = {"content-type": "application/merge-patch+json"}
PODS, CLAIMS = (f"/api/v1/namespaces/default/{plural}" for plural in ("pods", "persistentvolumeclaims"))
VOLUMES, CLASSES = "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/volumeattributesclasses"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
CLAIM: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
pytestmark = pytest.mark.anyio


@pytest.fixture
async def api() -> AsyncIterator[InMemory]:
    async with InMemory(ControlPlane()) as api:
        await api.clock.run(1)  # type: ignore[attr-defined]  # the default service account is made
        yield api


async def is_there(api: InMemory, path: str) -> bool:
    """Whether an object is there after the controllers have had some time."""
    await api.clock.run(2)  # type: ignore[attr-defined]
    return (await api.get(path)).status == 200


async def made(api: InMemory, path: str, name: str, **fields: Any) -> list[str]:
    answer = await api.post(path, {"metadata": {"name": name}, **fields})
    assert answer.status == 201, answer.json
    finalizers: list[str] = answer.json["metadata"].get("finalizers", [])
    return finalizers


async def test_a_claim_goes_with_the_last_pod_that_has_it(api: InMemory) -> None:
    assert await made(api, CLAIMS, "c", spec=CLAIM) == ["kubernetes.io/pvc-protection"]
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume], "nodeName": "n"}
    await made(api, PODS, "p", spec=spec)
    await api.request("DELETE", f"{CLAIMS}/c")
    assert await is_there(api, f"{CLAIMS}/c")
    await api.request("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    assert not await is_there(api, f"{CLAIMS}/c")


async def test_a_volume_goes_when_it_is_bound_no_more(api: InMemory) -> None:
    assert await made(api, VOLUMES, "v", spec=VOLUME) == ["kubernetes.io/pv-protection"]
    await api.request("PATCH", f"{VOLUMES}/v/status", {"status": {"phase": "Bound"}}, headers=MERGE)
    await api.request("DELETE", f"{VOLUMES}/v")
    assert await is_there(api, f"{VOLUMES}/v")
    await api.request("PATCH", f"{VOLUMES}/v/status", {"status": {"phase": "Released"}}, headers=MERGE)
    assert not await is_there(api, f"{VOLUMES}/v")


async def test_a_class_of_attributes_goes_when_no_claim_has_it(api: InMemory) -> None:
    fields = {"driverName": "d.example.com", "parameters": {"a": "b"}}
    assert await made(api, CLASSES, "a", **fields) == ["kubernetes.io/vac-protection"]
    await made(api, CLAIMS, "c", spec={**CLAIM, "volumeAttributesClassName": "a"})
    await api.request("DELETE", f"{CLASSES}/a")
    assert await is_there(api, f"{CLASSES}/a")
    await api.request("DELETE", f"{CLAIMS}/c")
    assert not await is_there(api, f"{CLAIMS}/c")
    assert not await is_there(api, f"{CLASSES}/a")


async def test_a_claim_grows_once_it_is_bound_if_its_class_lets_it(api: InMemory) -> None:
    more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    for name, expands in (("grows", True), ("stays", False)):
        await made(api, STORAGE, name, provisioner="a.example.com/b", allowVolumeExpansion=expands)
        await made(api, CLAIMS, name, spec={**CLAIM, "storageClassName": name})
        assert (await api.request("PATCH", f"{CLAIMS}/{name}", more, headers=MERGE)).status == 422
        bound = {"status": {"phase": "Bound"}}
        assert (await api.request("PATCH", f"{CLAIMS}/{name}/status", bound, headers=MERGE)).status == 200
        grown = await api.request("PATCH", f"{CLAIMS}/{name}", more, headers=MERGE)
        assert grown.status == (200 if expands else 403), grown.json


async def test_a_claim_is_filled_from_what_stands_in_two_fields(api: InMemory) -> None:
    source = {"kind": "PersistentVolumeClaim", "name": "x"}
    answer = await api.post(CLAIMS, {"metadata": {"name": "f"}, "spec": {**CLAIM, "dataSource": source}})
    whole = {"apiGroup": None, **source}
    assert (answer.json["spec"]["dataSource"], answer.json["spec"]["dataSourceRef"]) == (whole, whole)
    unknown = {**CLAIM, "dataSource": {"kind": "Foo", "name": "x"}}
    answer = await api.post(CLAIMS, {"metadata": {"name": "u"}, "spec": unknown})
    assert not answer.json["spec"].keys() & {"dataSource", "dataSourceRef"}
