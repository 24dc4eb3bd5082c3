"""Stored objects are rewritten when an object asks for it, and the definition forgets their old versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory, VirtualClock

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MIGRATIONS = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"
MERGE = {"content-type": "application/merge-patch+json"}


def definition(stored: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == stored, "schema": schema} for name in ("v1", "v2")]
    names = {"plural": "gadgets", "kind": "Gadget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": "gadgets.example.com"}, "spec": spec}


async def done(clock: VirtualClock, condition: Callable[[], Awaitable[bool]]) -> None:
    """Let time pass until `condition`: definitions are worked on in threads, too."""
    for _ in range(60):
        if await condition():
            return
        await clock.run(0.5)
    raise AssertionError("it takes too long")


async def migrated(api: InMemory, clock: VirtualClock, resource: str, group: str) -> dict[str, str]:
    """The reasons of a migration's conditions, by type."""
    asked = {"metadata": {"name": resource}, "spec": {"resource": {"resource": resource, "group": group}}}
    assert (await api.post(MIGRATIONS, asked)).status == 201

    async def conditions() -> dict[str, str]:
        status = (await api.get(f"{MIGRATIONS}/{resource}")).json.get("status") or {}
        return {one["type"]: one["status"] for one in status.get("conditions", ())}

    async def over() -> bool:
        return (await conditions()).get("Running") == "False"

    await done(clock, over)
    return await conditions()


@pytest.mark.anyio
async def test_objects_are_rewritten_and_their_old_version_is_forgotten() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        where, gadgets = f"{DEFINITIONS}/gadgets.example.com", "/apis/example.com/v1/namespaces/default/gadgets"
        assert (await api.post(DEFINITIONS, definition("v1"))).status == 201

        async def created() -> bool:
            return (await api.post(gadgets, {"metadata": {"name": "a"}})).status == 201

        async def stored_as_v2() -> bool:
            entry = api.server.live.current.find("example.com", "v2", "gadgets") if api.server.live.current else None
            return entry is not None and entry.definition.stored_as == "v2"

        await done(clock, created)
        await api.request("PATCH", where, {"spec": definition("v2")["spec"]}, MERGE)
        await done(clock, stored_as_v2)
        assert (await api.get(where)).json["status"]["storedVersions"] == ["v1", "v2"]
        assert await migrated(api, clock, "gadgets", "example.com") == {"Running": "False", "Succeeded": "True"}
        assert (await api.get(where)).json["status"]["storedVersions"] == ["v2"]
        stored = (await api.parts.storage.backend.list("/registry/", "/registry0")).kvs
        values = [kv.value for kv in stored if "/gadgets/" in kv.key]
        assert [b"example.com/v2" in value for value in values] == [True]


@pytest.mark.anyio
async def test_what_is_not_stored_here_has_failed() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        assert await migrated(api, clock, "nothing", "example.com") == {"Running": "False", "Failed": "True"}
        refused = await api.post(MIGRATIONS, {"metadata": {"name": "empty"}, "spec": {}})
        assert refused.status == 422
