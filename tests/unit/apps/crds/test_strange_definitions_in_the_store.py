"""Definitions that no server of today would accept take nothing down: they aren't served, and that is told."""

from __future__ import annotations

import json
import logging

import pytest
from crd_kit import DEFINITIONS, GROUP, Shared, conditions, definition, established, until

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.storage.memory import MemoryBackend
from oarlock.testing import InMemory, VirtualClock

PREFIX = "/registry/apiextensions.k8s.io/customresourcedefinitions/"


@pytest.mark.anyio
async def test_damaged_and_foreign_definitions_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryBackend(clock=VirtualClock())
    await store.start()
    async with InMemory(ControlPlane(), backend=Shared(store)) as api:
        await established(api, definition())
        await established(api, definition("others", "Other"))
    other = next(kv for kv in (await store.list(PREFIX, PREFIX + "~")).kvs if "others" in kv.key)
    tree = json.loads(other.value)
    tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"description": "no type"}
    await store.put(other.key, json.dumps(tree).encode(), expect=other.mod_rev)
    await store.put(f"{PREFIX}garbage.{GROUP}", b"{", expect=0)
    shapeless = {**tree, "metadata": {"name": f"shapeless.{GROUP}", "uid": "u"}, "spec": {"versions": 7}}
    await store.put(f"{PREFIX}shapeless.{GROUP}", json.dumps(shapeless).encode(), expect=0)
    with caplog.at_level(logging.ERROR, "oarlock.crds"):
        async with InMemory(ControlPlane(), backend=Shared(store)) as api:
            assert (await api.get(f"/apis/{GROUP}/v1/plains")).status == 200
            assert (await api.get(f"/apis/{GROUP}/v1/others")).status == 404
            assert (await api.get(f"{DEFINITIONS}/garbage.{GROUP}")).status == 500
        garbage, _ = await store.get(f"{PREFIX}garbage.{GROUP}")
        assert garbage is not None
        await store.delete(garbage.key, expect=garbage.mod_rev)
        async with InMemory(ControlPlane(), backend=Shared(store)) as api:
            assert (await api.get(f"/apis/{GROUP}/v1/others")).status == 404
            found = await until(
                api, f"others.{GROUP}", lambda one: one is not None and "NonStructuralSchema" in conditions(one)
            )
            assert found is not None
            assert conditions(found)["NonStructuralSchema"] == ("True", "Violations")
    assert f"others.{GROUP} isn't served: properties[spec].type" in caplog.text
    await store.close()
