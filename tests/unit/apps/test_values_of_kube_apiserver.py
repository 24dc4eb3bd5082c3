"""What a kube-apiserver stored as protobuf is served, and stored as JSON when it is next written."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.crds.part import from_v1beta1
from oarlock.codec import protobuf
from oarlock.codec.kubernetes_messages import kubernetes_message
from oarlock.registry.stored.object_documents import broken_objects, tree_in
from oarlock.storage.memory import MemoryBackend
from oarlock.testing import InMemory, VirtualClock

KEY = "/registry//configmaps/default/a"
MAPS = "/api/v1/namespaces/default/configmaps"
META = {"name": "a", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}


def stored(message: str, tree: dict[str, Any]) -> bytes:
    return protobuf.envelope(tree["apiVersion"], tree["kind"], kubernetes_message(message).write(tree))


def config_map(**data: str) -> bytes:
    return stored("core.v1.ConfigMap", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": META, "data": data})


def stored_range() -> bytes:
    """What kube-apiserver notes for itself."""
    return protobuf.envelope("v1", "RangeAllocation", b"")


@pytest.mark.anyio
async def test_a_protobuf_value_is_read_listed_and_watched() -> None:
    backend = MemoryBackend(VirtualClock())
    await backend.start()
    await backend.put(KEY, config_map(k="v"), expect=0)
    async with InMemory(ControlPlane(), backend=backend) as api:
        found = (await api.get(f"{MAPS}/a")).json
        assert (found["data"], found["metadata"]["uid"]) == ({"k": "v"}, "u")
        listed = (await api.get("/api/v1/configmaps")).json
        assert [item["data"] for item in listed["items"] if item["metadata"]["name"] == "a"] == [{"k": "v"}]
        async with api.watch(f"{MAPS}?resourceVersion={listed['metadata']['resourceVersion']}") as events:
            kv, _ = await backend.get(KEY)
            assert kv is not None
            await backend.put(KEY, config_map(k="w"), expect=kv.mod_rev)
            kind, seen = await events.next()
            assert (kind, seen["data"]) == ("MODIFIED", {"k": "w"})


@pytest.mark.anyio
async def test_the_next_write_makes_it_json_even_if_it_changes_nothing() -> None:
    backend = MemoryBackend(VirtualClock())
    await backend.start()
    await backend.put(KEY, config_map(k="v"), expect=0)
    async with InMemory(ControlPlane(), backend=backend) as api:
        found = (await api.get(f"{MAPS}/a")).json
        assert (await api.put(f"{MAPS}/a", found)).status == 200
        kv, _ = await backend.get(KEY)
        assert kv is not None
        tree = json.loads(kv.value)
        assert (tree["kind"], tree["data"], tree["metadata"]["uid"]) == ("ConfigMap", {"k": "v"}, "u")
        assert (await api.delete(f"{MAPS}/a")).status == 200


@pytest.mark.anyio
async def test_a_migration_makes_all_of_a_resource_json() -> None:
    clock = VirtualClock()
    backend = MemoryBackend(clock)
    await backend.start()
    await backend.put(KEY, config_map(k="v"), expect=0)
    async with InMemory(ControlPlane(), backend=backend, clock=clock) as api:
        asked = {"metadata": {"name": "m"}, "spec": {"resource": {"resource": "configmaps", "group": ""}}}
        path = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"
        assert (await api.post(path, asked)).status == 201
        for _ in range(60):
            await clock.run(0.5)
            kv, _ = await backend.get(KEY)
            assert kv is not None
            if kv.value.startswith(b"{"):
                break
        assert json.loads(kv.value)["data"] == {"k": "v"}


@pytest.mark.anyio
async def test_a_kind_without_fields_here_is_named_and_stays() -> None:
    backend = MemoryBackend(VirtualClock())
    await backend.start()
    value = protobuf.envelope("v1", "Mystery", b"")
    await backend.put(KEY, value, expect=0)
    async with InMemory(ControlPlane(), backend=backend) as api:
        answer = await api.get(f"{MAPS}/a")
        assert answer.status == 500
        assert "a Mystery of v1 isn't known here" in answer.json["message"]
        assert "--storage-media-type=application/json" in answer.json["message"]


@pytest.mark.anyio
@pytest.mark.parametrize("cut", [1, 22, 43, 60])
async def test_a_damaged_protobuf_value_is_named_and_stops_nothing(cut: int) -> None:
    backend = MemoryBackend(VirtualClock())
    await backend.start()
    await backend.put(KEY, config_map(k="v" * 40)[:-cut], expect=0)
    await backend.put("/registry//configmaps/default/b", config_map(k="v"), expect=0)
    async with InMemory(ControlPlane(), backend=backend) as api:
        assert (await api.get(f"{MAPS}/a")).status in (200, 500)
        assert (await api.get("/api/v1/namespaces/default/secrets")).status == 200


OF_KUBE_APISERVER = {
    "poddisruptionbudgets/default/pdb": (
        "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQS3QEKtwEKA3BkYhIAGgdkZWZhdWx0IgAqJGNiYjNhYjI2LTU0"
        "NGYtNGY2MS05MjZhLTBlODJjZDYzOTY1NDIAOAFCCAj1xpLYBhAAigFuCg1QeXRob24tdXJsbGliEgZVcGRhdGUaCXBvbGljeS92"
        "MSIICPXGktgGEAAyCEZpZWxkc1YxOjQKMnsiZjpzcGVjIjp7ImY6bWF4VW5hdmFpbGFibGUiOnt9LCJmOnNlbGVjdG9yIjp7fX19"
        "QgASFRIICgYKAWESAWIaCQgBEAAaAzUwJRoKCAAYACAAKAAwABoAIgA="
    ),
    "leases/default/le": (
        "azhzAAofChZjb29yZGluYXRpb24uazhzLmlvL3YxEgVMZWFzZRLZAQrEAQoCbGUSABoHZGVmYXVsdCIAKiRmOGJjNjJkNi00MWQx"
        "LTRjNGEtOWZmMC0yNDg3MDYxNDFhMzYyADgAQggI9caS2AYQAIoBfAoNUHl0aG9uLXVybGxpYhIGVXBkYXRlGhZjb29yZGluYXRp"
        "b24uazhzLmlvL3YxIggI9caS2AYQADIIRmllbGRzVjE6NQozeyJmOnNwZWMiOnsiZjpob2xkZXJJZGVudGl0eSI6e30sImY6cmVu"
        "ZXdUaW1lIjp7fX19QgASEAoBaCILCIDy1soGEICU7zoaACIA"
    ),
}
"""What kube-apiserver 1.36.3 had in etcd below ``/registry/``."""


@pytest.mark.anyio
async def test_the_bytes_of_a_real_kube_apiserver_are_read() -> None:
    backend = MemoryBackend(VirtualClock())
    await backend.start()
    for key, value in OF_KUBE_APISERVER.items():
        await backend.put(f"/registry//{key}", base64.b64decode(value), expect=0)
    async with InMemory(ControlPlane(), backend=backend) as api:
        budget = (await api.get("/apis/policy/v1/namespaces/default/poddisruptionbudgets/pdb")).json
        assert budget["spec"] == {"maxUnavailable": "50%", "selector": {"matchLabels": {"a": "b"}}}
        assert budget["metadata"]["creationTimestamp"] == "2026-11-23T20:35:01Z"
        assert budget["metadata"]["managedFields"][0]["fieldsV1"] == {
            "f:spec": {"f:maxUnavailable": {}, "f:selector": {}}
        }
        lease = (await api.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/le")).json
        assert lease["spec"] == {"holderIdentity": "h", "renewTime": "2026-01-01T00:00:00.123456Z"}


DEFINITION = {
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1beta1",
    "metadata": {"name": "kites.toys.example.com", "uid": "u", "creationTimestamp": "2026-11-23T20:35:01Z"},
    "spec": {
        "group": "toys.example.com",
        "version": "v1",
        "names": {"plural": "kites", "singular": "kite", "kind": "Kite", "listKind": "KiteList"},
        "scope": "Namespaced",
        "validation": {"openAPIV3Schema": {"type": "object", "properties": {"colour": {"type": "string"}}}},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Colour", "type": "string", "JSONPath": ".colour"}],
        "versions": [
            {"name": "v1", "served": True, "storage": True},
            {"name": "v2", "served": True, "storage": False},
        ],
        "conversion": {"strategy": "None"},
        "preserveUnknownFields": False,
    },
    "status": {
        "conditions": [
            {"type": one, "status": "True", "lastTransitionTime": "2026-11-23T20:35:01Z", "reason": "r", "message": "m"}
            for one in ("NamesAccepted", "Established")
        ],
        "acceptedNames": {"plural": "kites", "singular": "kite", "kind": "Kite", "listKind": "KiteList"},
        "storedVersions": ["v1"],
    },
}


@pytest.mark.anyio
async def test_a_definition_in_v1beta1_as_kube_apiserver_stores_it_is_served() -> None:
    clock = VirtualClock()
    backend = MemoryBackend(clock)
    await backend.start()
    key = "/registry/apiextensions.k8s.io/customresourcedefinitions/kites.toys.example.com"
    await backend.put(key, json.dumps(DEFINITION).encode(), expect=0)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kites.toys.example.com"
    async with InMemory(ControlPlane(), backend=backend, clock=clock) as api:
        spec = (await api.get(path)).json["spec"]
        assert "version" not in spec
        assert "validation" not in spec
        for version in spec["versions"]:
            assert version["schema"]["openAPIV3Schema"]["properties"] == {"colour": {"type": "string"}}
            assert version["additionalPrinterColumns"] == [{"name": "Colour", "type": "string", "jsonPath": ".colour"}]
            assert version["subresources"] == {"status": {}}
        kite = {"apiVersion": "toys.example.com/v2", "kind": "Kite", "metadata": {"name": "k"}, "colour": "red"}
        assert (await api.post("/apis/toys.example.com/v2/namespaces/default/kites", kite)).status == 201
        found = (await api.get(path)).json
        assert (await api.put(path, found)).status == 200
        kv, _ = await backend.get(key)
        assert kv is not None
        assert json.loads(kv.value)["apiVersion"] == "apiextensions.k8s.io/v1"


@pytest.mark.parametrize(
    ("spec", "made"),
    [
        (
            {"version": "v1", "validation": {"openAPIV3Schema": {}}},
            {
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}],
                "conversion": {"strategy": "None"},
                "preserveUnknownFields": True,
            },
        ),
        (
            {
                "versions": [{"name": "v1", "additionalPrinterColumns": [{"name": "C", "JSONPath": ".c"}]}],
                "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://a"}},
                "preserveUnknownFields": False,
            },
            {
                "versions": [{"name": "v1", "additionalPrinterColumns": [{"name": "C", "jsonPath": ".c"}]}],
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1beta1"]},
                },
            },
        ),
    ],
)
def test_a_definition_in_v1beta1_says_the_same_in_v1(spec: dict[str, Any], made: dict[str, Any]) -> None:
    assert from_v1beta1({"apiVersion": "apiextensions.k8s.io/v1beta1", "spec": spec})["spec"] == made


@pytest.mark.anyio
async def test_check_and_export_read_protobuf() -> None:
    backend = MemoryBackend(VirtualClock())
    await backend.start()
    await backend.put(KEY, config_map(k="v"), expect=0)
    await backend.put("/registry//ranges/serviceips", stored_range(), expect=0)
    assert (await broken_objects(backend, lambda progress: None)).lines == []
    kv, _ = await backend.get(KEY)
    assert kv is not None
    assert tree_in(kv)["data"] == {"k": "v"}
