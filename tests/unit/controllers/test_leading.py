"""One process leads; one that was paused for longer than its lease writes nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fleet import Lease, Ship, ShipStatus, fleet, ship

from oarlock import APIServer
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.client import Client
from oarlock.client.transport import ClientConnection, ClientRequest, ClientResponse, Transport, TransportError
from oarlock.controllers import (
    ClusterControllers,
    Controller,
    ControllerGroup,
    ControllerRun,
    LeaderElection,
    LeaderLost,
    ObjectKey,
    Result,
    write_status,
)
from oarlock.controllers.running.leases import LeaseTimes
from oarlock.server.options.option import ConfigError
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio

LEASE = "sea/captains"


class Captain(Controller[Ship]):
    """Counts on ships; holds still while `still` is set."""

    def __init__(self, name: str) -> None:
        self.me = name
        self.done: list[str] = []
        self.errors: list[BaseException] = []
        self.go = asyncio.Event()
        self.go.set()

    async def reconcile(self, key: ObjectKey) -> Result | None:
        try:
            ship = await self.client.get(Ship, key.name, namespace=key.namespace)
            await self.go.wait()
            boats = (ship.status.boats if ship.status else 0) + 1
            await write_status(self.client, ship, ShipStatus(boats=boats))
        except BaseException as error:
            self.errors.append(error)
            raise
        self.done.append(key.name)
        return Result(requeue_after_s=1)


@asynccontextmanager
async def candidate(captain: Captain, client: Client, clock: VirtualClock) -> AsyncIterator[ControllerRun]:
    election = LeaderElection(LEASE, identity=captain.me)
    async with ControllerGroup([captain], election=election, grace_s=0.5).running(client, clock) as run:
        yield run


async def holder(client: Client) -> Any:
    spec = (await client.get(Lease, "captains", namespace="sea")).spec
    assert spec is not None
    return spec.holder_identity


async def test_one_leads_and_another_follows_at_once_when_it_stops() -> None:
    clock, ahab, nemo = VirtualClock(), Captain("ahab"), Captain("nemo")
    async with fleet(clock) as client:
        await client.create(ship("a"))
        async with candidate(nemo, client, clock) as second, candidate(ahab, client, clock) as first:
            await clock.run(30)
            assert {first.leading, second.leading} == {True, False}
            leader, other = (ahab, nemo) if first.leading else (nemo, ahab)
            assert len(leader.done) > 25
            assert other.done == []
            assert await holder(client) == leader.me
            assert [one.leading for one in first.numbers()] == [first.leading]
            await (first if leader is ahab else second).stop()
            assert await holder(client) is None
            await clock.run(3)
            assert await holder(client) == other.me
            assert other.done
            lease = await client.get(Lease, "captains", namespace="sea")
            assert lease.spec is not None
            assert lease.spec.lease_transitions == 1


class Cut:
    """A transport that can be cut."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.is_cut = False

    async def send(self, request: ClientRequest) -> ClientResponse:
        if self.is_cut:
            raise TransportError("cut", sent=True)
        return await self.transport.send(request)

    async def connect(self, request: ClientRequest, protocols: Any) -> ClientConnection | ClientResponse:
        return await self.transport.connect(request, protocols)

    async def close(self) -> None: ...


async def test_a_leader_that_reaches_nobody_stops_before_another_begins() -> None:
    clock, ahab, nemo = VirtualClock(), Captain("ahab"), Captain("nemo")
    async with fleet(clock) as client:
        await client.create(ship("a"))
        cuts: list[Cut] = []

        def cutting(transport: Transport) -> Transport:
            cuts.append(Cut(transport))
            return cuts[-1]

        async with candidate(ahab, client.over(cutting), clock) as first:
            await clock.run(5)
            async with candidate(nemo, client, clock) as second:
                await clock.run(5)
                assert (first.leading, second.leading) == (True, False)
                cuts[0].is_cut = True
                times: dict[str, float] = {}
                for _ in range(60):
                    await clock.run(0.4)
                    if not first.leading:
                        times.setdefault("stopped", clock.monotonic() - 10)
                    if second.leading:
                        times.setdefault("begun", clock.monotonic() - 10)
                    assert not (first.leading and second.leading)
                assert 7.5 <= times["stopped"] <= 10.5
                assert 14.5 <= times["begun"] <= 20


async def test_a_leader_that_was_paused_for_longer_than_its_lease_writes_nothing_more() -> None:
    ahabs, nemos = VirtualClock(), VirtualClock()
    ahab, nemo = Captain("ahab"), Captain("nemo")
    async with fleet(nemos) as client:
        await client.create(ship("a"))
        async with candidate(ahab, client, ahabs) as first:
            await ahabs.run(5)
            count = len(ahab.done)
            assert count
            ahab.go.clear()
            await ahabs.run(1)
            before = await client.get(Ship, "a", namespace="sea")
            async with candidate(nemo, client, nemos) as second:
                await nemos.run(25)  # time in which the first process doesn't run
                assert second.leading
                nemo.go.clear()
                await nemos.run(5)
                after = await client.get(Ship, "a", namespace="sea")
                assert after != before
                ahab.go.set()  # what it waited for is there in the very moment in which it goes on
                ahabs.advance(30)
                await ahabs.run(0)
                assert not first.leading
                assert len(ahab.done) == count
                assert isinstance(ahab.errors[0], LeaderLost | asyncio.CancelledError)
                assert await client.get(Ship, "a", namespace="sea") == after
                await ahabs.run(10)
                assert await client.get(Ship, "a", namespace="sea") == after


async def test_what_goes_on_although_it_was_cancelled_writes_nothing_and_keeps_its_process_from_leading() -> None:
    clock = VirtualClock()
    go = asyncio.Event()
    refused: list[BaseException] = []

    class Stubborn(Captain):
        async def reconcile(self, key: ObjectKey) -> Result | None:
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    continue
            try:
                await self.client.patch(Ship, key.name, {"spec": {"boats": 9}}, namespace=key.namespace)
            except LeaderLost as error:
                refused.append(error)
            return None

    async with fleet(clock) as client:
        await client.create(ship("a"))
        async with candidate(Stubborn("ahab"), client, clock) as run:
            await clock.run(3)
            assert run.leading
            await client.delete(Lease, "captains", namespace="sea")
            await client.create(
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": "captains", "namespace": "sea"},
                    "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
                }
            )
            await clock.run(3)
            assert not run.leading
            await clock.run(60)
            assert await holder(client) == ""
            go.set()
            await clock.run(10)
            assert len(refused) == 1
            assert (await client.get(Ship, "a", namespace="sea")).spec.boats == 9


async def test_a_process_stops_although_what_was_cancelled_goes_on() -> None:
    clock = VirtualClock()
    go = asyncio.Event()

    class Stubborn(Captain):
        async def reconcile(self, key: ObjectKey) -> Result | None:
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    continue
            return None

    async with fleet(clock) as client:
        await client.create(ship("a"))
        election = LeaderElection(LEASE, identity="ahab")
        running = asyncio.create_task(ControllerGroup([Stubborn("ahab")], election=election).run(client, clock))
        await clock.run(3)
        taken = {"spec": {"holderIdentity": "nemo", "leaseDurationSeconds": 1}}
        await client.patch(Lease, "captains", taken, namespace="sea")
        await clock.run(10)
        running.cancel()
        await clock.run(60)
        assert running.done()
        go.set()
        assert await holder(client) == "nemo"


async def test_a_lease_with_nothing_in_it_is_free_and_a_wrong_name_is_told() -> None:
    clock, ahab = VirtualClock(), Captain("ahab")
    async with fleet(clock) as client:
        head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        await client.create({**head, "metadata": {"name": "captains", "namespace": "sea", "labels": {"x": "y"}}})
        async with candidate(ahab, client, clock):
            await clock.run(3)
            lease = await client.get(Lease, "captains", namespace="sea")
            assert lease.spec is not None
            assert lease.spec.holder_identity == "ahab"
            assert lease.metadata.labels == {"x": "y"}
    with pytest.raises(ValueError, match="'captains' names no lease: write namespace/name"):
        LeaderElection("captains")
    with pytest.raises(ValueError, match="longer than"):
        LeaderElection(LEASE, times=LeaseTimes(5, 10))


async def test_a_lease_that_nobody_can_hold_is_told_when_the_server_starts() -> None:
    class Anchored(Controller[Ship], lease="sea/captains"):
        async def reconcile(self, key: ObjectKey) -> None: ...

    for controllers in ([Anchored()], [ControllerGroup([Anchored()])]):
        server = APIServer(serve=[Ship], controllers=controllers)
        with pytest.raises(ConfigError, match="has the lease sea/captains, and this server has no Leases to hold"):
            async with InMemory(server):
                pass
    for good in (
        APIServer(serve=[Ship], controllers=[ClusterControllers([Anchored()])]),
        ControlPlane(serve=[Ship], controllers=[Anchored()]),
    ):
        async with InMemory(good):
            pass


async def test_waiting_for_controllers_that_never_run_raises() -> None:
    class Anchored(Controller[Ship], lease="sea/captains"):
        async def reconcile(self, key: ObjectKey) -> None: ...

    clock = VirtualClock()
    async with (
        InMemory(APIServer(serve=[Ship]), clock=clock) as api,
        ControllerGroup([Anchored()]).running(api.client(), clock) as run,
    ):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="never run: the server has no Leases"):
                await run.idle()
