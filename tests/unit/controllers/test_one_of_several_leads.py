"""Never two at a time lead, whatever happens to the way to the server and to the leader; soon somebody does."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from fleet import Lease, fleet

from oarlock.client import Client
from oarlock.client.transport import ClientConnection, ClientRequest, ClientResponse, Transport, TransportError
from oarlock.controllers.running.leases import LeaderElection, LeaseElection, LeaseTimes, unique_identity
from oarlock.testing import VirtualClock

pytestmark = pytest.mark.anyio

TIMES = LeaseTimes()


class WrongClock:
    """A clock whose wall time is wrong by `error_s`."""

    def __init__(self, clock: VirtualClock, error_s: float) -> None:
        self.clock = clock
        self.error_s = error_s
        self.monotonic = clock.monotonic
        self.sleep = clock.sleep

    def now(self) -> float:
        return self.clock.now() + self.error_s


class Line:
    """One process's way to the server: `bad` says what becomes of the next requests."""

    def __init__(self, transport: Transport, clock: VirtualClock) -> None:
        self.transport = transport
        self.clock = clock
        self.bad = ""

    async def send(self, request: ClientRequest) -> ClientResponse:
        writes = request.method != "GET"
        if self.bad == "hangs":
            await self.clock.sleep(request.timeout_s or 100)
            raise TransportError("timed out", sent=True)
        if self.bad == "slow":
            await self.clock.sleep(7)
        if self.bad == "refuses" or (self.bad == "answers are lost" and not writes):
            raise TransportError("no connection", sent=False)
        response = await self.transport.send(request)
        if self.bad == "answers are lost":
            raise TransportError("the answer is lost", sent=True)
        if self.bad == "answers late" and writes:
            await self.clock.sleep(1)
        return response

    async def connect(self, request: ClientRequest, protocols: Any) -> ClientConnection | ClientResponse:
        return await self.transport.connect(request, protocols)

    async def close(self) -> None: ...


class Candidate:
    """A process that works while it leads."""

    def __init__(
        self, client: Client, clock: VirtualClock, working: list[Candidate], error_s: float = 0.0, ending_s: float = 0.0
    ) -> None:
        lines: list[Line] = []

        def over(transport: Transport) -> Transport:
            lines.append(Line(transport, clock))
            return lines[-1]

        own_clock = WrongClock(clock, error_s)
        self.election = LeaseElection(client.over(over), LeaderElection("sea/work", times=TIMES), own_clock)
        self.lines = lines
        self.clock = clock
        self.working = working
        self.ending_s = ending_s
        self.terms = 0
        self.task = asyncio.ensure_future(self.election.run(self.lead))

    def goes(self, bad: str) -> None:
        """Let all its requests go as `Line` says."""
        for line in self.lines:
            line.bad = bad

    async def lead(self) -> None:
        self.terms += 1
        assert not self.working, "two work at the same time"
        self.working.append(self)
        try:
            await asyncio.Event().wait()
        finally:
            self.working.remove(self)
            await self.clock.sleep(self.ending_s)

    async def end(self) -> None:
        self.task.cancel()
        await self.clock.run(60)
        assert self.task.done()


async def lease(client: Client) -> Any:
    spec = (await client.get(Lease, "work", namespace="sea")).spec
    assert spec is not None
    return spec


async def test_one_leads_and_the_lease_says_who() -> None:
    clock, working = VirtualClock(), list[Candidate]()
    async with fleet(clock) as client:
        every = [Candidate(client, clock, working) for _ in range(5)]
        await clock.run(60)
        [leader] = working
        spec = await lease(client)
        assert spec.holder_identity == leader.election.identity
        assert (spec.lease_duration_seconds, spec.lease_transitions) == (15, 0)
        assert 50 < (spec.renew_time - spec.acquire_time).total_seconds() <= 60
        assert {one.election.holder for one in every} == {leader.election.identity}
        assert sum(one.terms for one in every) == 1
        for one in every:
            await one.end()


async def test_a_renewal_in_flight_keeps_the_lease_from_nobody() -> None:
    """Who ends gives the lease back, also when a renewal of which it has no answer yet was done."""
    clock, working = VirtualClock(), list[Candidate]()
    async with fleet(clock) as client:
        one = Candidate(client, clock, working)
        await clock.run(1)
        one.goes("answers late")
        before = (await lease(client)).renew_time
        while (await lease(client)).renew_time == before:
            await clock.run(0.1)
        one.goes("")
        await one.end()
        assert not (await lease(client)).holder_identity


async def test_who_dies_is_followed_when_the_lease_has_ended() -> None:
    clock, working = VirtualClock(), list[Candidate]()
    async with fleet(clock) as client:
        # Wall clocks a day apart: they are for people only.
        every = [Candidate(client, clock, working, error_s) for error_s in (0.0, 86_400.0, -86_400.0)]
        await clock.run(31)
        [dead] = working
        dead.goes("refuses")  # it can't give the lease back
        dead.task.cancel()
        await clock.run(TIMES.duration_s - 2 * TIMES.retry_s)
        assert working == [], "the lease hasn't ended"
        await clock.run(4 * TIMES.retry_s)
        assert len(working) == 1
        for one in every:
            await one.end()


@pytest.mark.parametrize("bad", ["hangs", "refuses", "answers are lost", "slow"])
async def test_who_cannot_renew_stops_before_another_begins(bad: str) -> None:
    clock, working = VirtualClock(), list[Candidate]()
    async with fleet(clock) as client:
        every = [Candidate(client, clock, working) for _ in range(2)]
        await clock.run(31)
        [leader] = working
        leader.goes(bad)
        await clock.run(TIMES.renew_deadline_s + 0.1)
        assert working == []
        assert not leader.election.leading
        leader.goes("refuses")
        await clock.run(TIMES.duration_s + 2.4 * TIMES.retry_s)
        assert len(working) == 1
        assert leader not in working
        leader.goes("")
        await clock.run(60)
        assert leader not in working, "who comes back waits"
        for one in every:
            await one.end()


@pytest.mark.parametrize("seed", range(6))
async def test_never_two_at_a_time(seed: int) -> None:
    dice, clock, working = random.Random(seed), VirtualClock(), list[Candidate]()
    async with fleet(clock) as client:
        every = [Candidate(client, clock, working, dice.random() * 1e5) for _ in range(4)]
        for _ in range(40):
            one = dice.choice(every)
            one.goes(dice.choice(["", "", "hangs", "refuses", "answers are lost", "slow"]))
            if dice.random() < 0.2:
                await one.end()
                every.remove(one)
                every.append(Candidate(client, clock, working))
            await clock.run(dice.random() * 20)
            for other in every:
                if other.task.done():
                    other.task.result()
        for one in every:
            one.goes("")
        await clock.run(200)  # what hangs has ended
        assert len(working) == 1
        for one in every:
            await one.end()


async def test_what_the_leader_raises_ends_its_candidacy() -> None:
    clock = VirtualClock()
    async with fleet(clock) as client:

        async def fail() -> None:
            raise ZeroDivisionError("work")

        with pytest.raises(ZeroDivisionError):
            await LeaseElection(client, LeaderElection("sea/work"), clock).run(fail)
        assert not (await lease(client)).holder_identity

        async def once() -> None:
            return None

        await LeaseElection(client, LeaderElection("sea/work"), clock).run(once)
        assert (await lease(client)).lease_transitions == 1


async def test_work_that_ends_late_is_waited_for() -> None:
    clock, working = VirtualClock(), list[Candidate]()
    async with fleet(clock) as client:
        one = Candidate(client, clock, working, ending_s=3)
        await clock.run(1)
        one.goes("refuses")
        await clock.run(20)
        one.goes("")
        await clock.run(20)
        assert one.terms == 2, "it leads again"
        await one.end()


def test_times_that_make_no_sense_are_refused() -> None:
    for times in ((10, 10.0, 2.0), (15, 2.0, 2.0), (15, 10.0, 0.0)):
        with pytest.raises(ValueError, match="a lease must last longer"):
            LeaseTimes(*times)
    assert unique_identity() != unique_identity()
