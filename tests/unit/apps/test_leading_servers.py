"""Of the servers on a store one runs the controllers, and another goes on when it leaves."""

from __future__ import annotations

import logging

import pytest

from oarlock.apps.controllers.leading import LEASE, Elected, Leadership
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.running.leases import LeaderLost
from oarlock.storage.memory import MemoryBackend
from oarlock.testing import InMemory, VirtualClock

NAMESPACES = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + LEASE.partition("/")[2]


class SharedBackend(MemoryBackend):
    """A store of which no server knows that it is alone on it."""

    def known_rev(self) -> None:
        return None

    async def close(self) -> None:
        """It outlives the servers."""


async def holder(api: InMemory) -> str:
    found: str = (await api.get(LEASES)).json["spec"].get("holderIdentity", "")
    return found


async def account_of(api: InMemory, clock: VirtualClock, namespace: str, seconds: float = 3.0) -> int:
    """The status of the account that a controller makes in a new namespace."""
    assert (await api.post(NAMESPACES, {"metadata": {"name": namespace}})).status == 201
    await clock.run(seconds)
    return (await api.get(f"{NAMESPACES}/{namespace}/serviceaccounts/default")).status


@pytest.mark.anyio
async def test_a_server_alone_needs_no_lease() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        assert await account_of(api, clock, "a") == 200
        assert (await api.get(LEASES)).status == 404


@pytest.mark.anyio
async def test_of_two_servers_one_leads_and_the_other_goes_on() -> None:
    clock = VirtualClock()
    backend = SharedBackend(clock)
    async with InMemory(ControlPlane(), clock=clock, backend=backend) as second:
        async with InMemory(ControlPlane(), clock=clock, backend=backend) as first:
            await clock.run(5)
            leader = await holder(first)
            assert leader
            assert await account_of(second, clock, "a") == 200
            await clock.run(60)
            assert await holder(second) == leader
        assert await account_of(second, clock, "b", 30.0) == 200
        assert await holder(second)


@pytest.mark.anyio
async def test_a_server_that_is_not_alone_any_more_writes_nothing_until_it_is_elected() -> None:
    """Its controllers end within a second; nothing that they write meanwhile passes."""
    others: list[str] = []
    refused: list[str] = []
    leadership = Leadership(lambda: bool(others))

    class Writer:
        async def run(self, client: Client, clock: TimerClock) -> None:
            while True:
                wanted = {"metadata": {"generateName": "n-", "namespace": "default"}}
                try:
                    await client.create({"apiVersion": "v1", "kind": "ConfigMap", **wanted})
                except LeaderLost as error:
                    refused.append(str(error))
                await clock.sleep(0.1)

    clock = VirtualClock()
    plane = ControlPlane(controllers=[leadership, Elected("writer", Writer(), leadership)])
    maps = f"{NAMESPACES}/default/configmaps?fieldSelector=metadata.name!%3Dkube-root-ca.crt"
    async with InMemory(plane, clock=clock) as api:
        await clock.run(0.75)
        written = len((await api.get(maps)).json["items"])
        assert written
        others.append("another")
        await clock.run(0.2)
        assert len(refused) == 2
        assert len((await api.get(maps)).json["items"]) == written
        await clock.run(5)
        assert await holder(api)
        assert len((await api.get(maps)).json["items"]) > written


@pytest.mark.anyio
async def test_the_identity_of_a_server_that_has_ended_is_removed() -> None:
    clock = VirtualClock()
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    async with InMemory(ControlPlane(), clock=clock) as api:
        for name, renewed in (("ended", "2020-01-01T00:00:00.000000Z"), ("runs", "2030-01-01T00:00:00.000000Z")):
            labels = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
            spec = {"holderIdentity": name, "leaseDurationSeconds": 3600, "renewTime": renewed}
            await api.post(leases, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        await clock.run(2)
        assert [(await api.get(f"{leases}/{name}")).status for name in ("ended", "runs")] == [404, 200]


@pytest.mark.anyio
async def test_what_a_controller_raises_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    leadership = Leadership(lambda: False)

    class Broken:
        async def run(self, client: Client, clock: TimerClock) -> None:
            raise RuntimeError("broken")

    clock = VirtualClock()
    plane = ControlPlane(controllers=[leadership, Elected("broken-controller", Broken(), leadership)])
    with caplog.at_level(logging.ERROR):
        async with InMemory(plane, clock=clock) as api:
            assert await account_of(api, clock, "a") == 200
    assert "broken-controller failed, and runs again" in caplog.text
