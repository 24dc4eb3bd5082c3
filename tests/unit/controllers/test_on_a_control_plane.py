"""Leases and events are such as Kubernetes' own kinds take them, in both groups of events."""

from __future__ import annotations

from typing import Any

import pytest
from fleet import Ship, ship

from oarlock import APIServer
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.kinds.core import objects as core
from oarlock.controllers import Controller, ControllerGroup, LeaderElection, ObjectKey
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio


class Builder(Controller[Ship]):
    """Tells of each ship that it sees."""

    async def reconcile(self, key: ObjectKey) -> None:
        found = self.informer.get(key.name, key.namespace)
        assert found is not None
        self.events.warning(found, "Leaking", "Water comes in")


async def rounds(server: APIServer, namespace: str) -> dict[str, list[dict[str, Any]]]:
    """The leases and events that there are after three rounds, as trees."""
    clock = VirtualClock()
    async with InMemory(server, clock=clock) as api:
        client = api.client()
        await client.create(ship("a", namespace=namespace))
        builder = Builder()
        election = LeaderElection(f"{namespace}/builders", identity="me")
        is_plane = isinstance(server, ControlPlane)
        group = ControllerGroup([builder], election=election if is_plane else None)
        async with group.running(client, clock) as run:
            for boats in (1, 2):
                await clock.run(3)
                await client.patch(Ship, "a", {"spec": {"boats": boats}}, namespace=namespace)
            await clock.run(3)
            await run.delivered()
        found: dict[str, list[dict[str, Any]]] = {}
        kinds = ["v1/Event", *(["events.k8s.io/v1/Event", "coordination.k8s.io/v1/Lease"] if is_plane else [])]
        for kind in kinds:
            found[kind] = [one async for one in client.list(kind, namespace=namespace)]
        return found


async def test_a_control_plane_takes_the_leases_and_the_events() -> None:
    found = await rounds(ControlPlane(serve=[Ship]), "default")
    [lease] = found["coordination.k8s.io/v1/Lease"]
    assert "holderIdentity" not in lease["spec"]
    assert lease["spec"]["leaseDurationSeconds"] == 1
    [event] = found["events.k8s.io/v1/Event"]
    assert (event["reason"], event["note"], event["series"]["count"]) == ("Leaking", "Water comes in", 3)
    [core_event] = found["v1/Event"]
    assert core_event["involvedObject"]["name"] == "a"


async def test_without_the_newer_group_the_core_group_has_the_events() -> None:
    found = await rounds(APIServer(serve=[Ship, core.Event]), "sea")
    [event] = found["v1/Event"]
    assert (event["reason"], event["message"], event["count"]) == ("Leaking", "Water comes in", 3)
    assert event["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert event["lastTimestamp"] > event["firstTimestamp"]
    assert event["source"] == {"component": "builder"}
