"""What can't be deleted, or isn't served, costs next to nothing while it stays."""

from __future__ import annotations

import asyncio
import re

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory, VirtualClock

NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUOTA = f"{NAMESPACES}/default/resourcequotas/q"


async def answered(api: InMemory) -> int:
    """How many requests the server has answered, also those of its own code."""
    text = (await api.get("/metrics")).body.decode()
    return sum(int(float(one)) for one in re.findall(r"^apiserver_request_total\{.*\} (\S+)$", text, re.MULTILINE))


async def asked_meanwhile(api: InMemory, clock: VirtualClock, seconds: float) -> int:
    before = await answered(api)
    await clock.run(seconds)
    return await answered(api) - before - 1


@pytest.mark.anyio
async def test_a_namespace_that_cannot_go_is_looked_at_ever_less_often() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(30)
        idle = await asked_meanwhile(api, clock, 600)
        for number in range(5):
            await api.post(NAMESPACES, {"metadata": {"name": f"n{number}"}})
            held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
            assert (await api.post(f"{NAMESPACES}/n{number}/configmaps", held)).status == 201
            assert (await api.delete(f"{NAMESPACES}/n{number}")).status == 200
        await clock.run(120)
        version = (await api.get(f"{NAMESPACES}/n0")).json["metadata"]["resourceVersion"]
        asked = await asked_meanwhile(api, clock, 600)
        assert asked - idle <= 5 * (600 / 60 + 1) * 3  # each minute the list, and the namespace for its status
        assert (await api.get(f"{NAMESPACES}/n0")).json["metadata"]["resourceVersion"] == version
        for number in range(5):
            await api.patch(f"{NAMESPACES}/n{number}/configmaps/held", {"metadata": {"finalizers": None}})
        await clock.run(61)
        assert [(await api.get(f"{NAMESPACES}/n{number}")).status for number in range(5)] == [404] * 5


@pytest.mark.anyio
async def test_what_comes_into_a_namespace_on_its_way_is_found() -> None:
    """The last look is at everything, also at what had been empty."""
    clock = VirtualClock()
    async with InMemory(ControlPlane(disable=["garbagecollection"]), clock=clock) as api:
        await api.post(NAMESPACES, {"metadata": {"name": "n"}})
        for kind in ("configmaps", "secrets"):
            held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
            assert (await api.post(f"{NAMESPACES}/n/{kind}", held)).status == 201
        await api.delete(f"{NAMESPACES}/n")
        await clock.run(10)
        await api.patch(f"{NAMESPACES}/n/secrets/held", {"metadata": {"finalizers": None}})
        await clock.run(61)
        told = {one["type"]: one for one in (await api.get(f"{NAMESPACES}/n")).json["status"]["conditions"]}
        remaining = "Some resources are remaining: configmaps. has 1 resource instances"
        assert told["NamespaceContentRemaining"]["message"] == remaining
        await api.patch(f"{NAMESPACES}/n/configmaps/held", {"metadata": {"finalizers": None}})
        await clock.run(61)
        assert (await api.get(f"{NAMESPACES}/n")).status == 404


async def used_has(api: InMemory, clock: VirtualClock, name: str) -> None:
    """Wait until the quota says how much of `name` is used: large quotas are checked in threads, in real time."""
    async with asyncio.timeout(60):
        while name not in ((await api.get(QUOTA)).json["status"].get("used") or {}):
            await clock.run(0.1)


@pytest.mark.anyio
async def test_a_quota_waits_for_what_is_not_served_without_asking() -> None:
    clock = VirtualClock()
    name = "count/widgets.example.com"
    hard = {name: "5", "count/configmaps": "9", **{f"count/things{n}.example.org": "1" for n in range(300)}}
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(30)
        idle = await asked_meanwhile(api, clock, 250)
        assert (
            await api.post(QUOTA.rpartition("/")[0], {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        ).status == 201
        await used_has(api, clock, "count/configmaps")
        await clock.run(20)
        assert (await api.get(QUOTA)).json["status"]["used"].keys() == {"count/configmaps"}
        assert await asked_meanwhile(api, clock, 250) - idle <= 5
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }
        names = {"plural": "widgets", "kind": "Widget"}
        spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
        made = await api.post(DEFINITIONS, {"metadata": {"name": "widgets.example.com"}, "spec": spec})
        assert made.status == 201, made.body
        began = clock.monotonic()
        await used_has(api, clock, name)
        assert clock.monotonic() - began < 100
