"""What is served: the catalog tells the same as discovery, and of what has not changed nothing is made again."""

from __future__ import annotations

import pytest

from oarlock.apps.controllers.served_kinds import LiveKinds, served_kinds
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.meta.kinds import GroupResource
from oarlock.testing import InMemory, VirtualClock


@pytest.mark.anyio
async def test_the_catalog_tells_what_discovery_tells() -> None:
    server = ControlPlane()
    async with InMemory(server, clock=VirtualClock()) as api:
        kinds = LiveKinds()
        catalog = await server.live.after(None)
        read = kinds.read(catalog)
        asked = await served_kinds(api.client())
        assert read == asked
        assert ("v1", "ConfigMap") in read.by_kind
        await server.live.change(remove=[GroupResource("coordination.k8s.io", "leases")])
        after = kinds.read(await server.live.after(catalog))
        assert after == await served_kinds(api.client())
        assert read.by_kind.keys() - after.by_kind.keys() == {("coordination.k8s.io/v1", "Lease")}
        assert all(after.by_kind[name] is read.by_kind[name] for name in after.by_kind)


@pytest.mark.anyio
async def test_what_extends_the_api_is_in_a_category() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        found = {
            resource["name"]
            for path in ("admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "apiregistration.k8s.io/v1")
            for resource in (await api.get(f"/apis/{path}")).json["resources"]
            if resource.get("categories") == ["api-extensions"]
        }
    assert found == {
        "apiservices",
        "customresourcedefinitions",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    }
