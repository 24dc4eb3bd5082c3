"""Never two at a time lead, whatever happens to the store and to the leader; soon somebody does."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from virtual_time import HastyLoop

from oarlock.meta.times import parse_rfc3339_micro
from oarlock.storage.backend import KEEP_TTL, KV, OutcomeUnknown, Rev, Unavailable, WriteResult
from oarlock.storage.election import Election, LeaseTimes, unique_identity
from oarlock.storage.memory import MemoryBackend

KEY = "/oarlock/leases/work"
TIMES = LeaseTimes()


class LoopClock:
    """The loop's time, and a wall clock that is wrong by `error_s`."""

    def __init__(self, error_s: float = 0.0) -> None:
        self.error_s = error_s

    def now(self) -> float:
        return 1_767_225_600.0 + self.error_s + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Line:
    """One process's way to the store: `bad` says what becomes of the next calls."""

    def __init__(self, store: MemoryBackend) -> None:
        self.store = store
        self.bad = ""

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        await self._pass(writes=False)
        return await self.store.get(key, rev=rev)

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        await self._pass(writes=True)
        result = await self.store.put(key, value, expect=expect, ttl_ms=ttl_ms)
        if self.bad == "answers are lost":
            raise OutcomeUnknown("the answer is lost")
        return result

    async def _pass(self, *, writes: bool) -> None:
        if self.bad == "hangs":
            await asyncio.sleep(100)
        if self.bad == "slow":
            await asyncio.sleep(7)
        if self.bad == "refuses" or (self.bad == "answers are lost" and not writes):
            raise Unavailable("no connection")


class Candidate:
    """A process that works while it leads."""

    def __init__(self, store: MemoryBackend, working: list[Candidate], error_s: float = 0.0) -> None:
        self.line = Line(store)
        self.election = Election(self.line, KEY, LoopClock(error_s), times=TIMES)  # type: ignore[arg-type]
        self.working = working
        self.terms = 0
        self.task = asyncio.ensure_future(self.election.run(self.lead))

    async def lead(self) -> None:
        self.terms += 1
        assert not self.working, "two work at the same time"
        self.working.append(self)
        try:
            while True:
                assert self.election.leading
                await asyncio.sleep(0.25)
        finally:
            self.working.remove(self)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        runner.run(scenario())


async def lease(store: MemoryBackend) -> dict[str, Any]:
    kv, _ = await store.get(KEY)
    assert kv is not None
    found: dict[str, Any] = json.loads(kv.value)
    return found


class LateLine(Line):
    """A write goes on although who asked for it was cancelled meanwhile, as one in a thread."""

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        result = await self.store.put(key, value, expect=expect, ttl_ms=ttl_ms)
        if self.bad == "answers late":
            await asyncio.sleep(1)
        return result


def test_a_renewal_in_flight_keeps_the_lease_from_nobody() -> None:
    """Who ends gives the lease back, also when a renewal of which it has no answer yet was done."""

    async def scenario() -> None:
        store = MemoryBackend(LoopClock())
        line = LateLine(store)
        task = asyncio.ensure_future(
            Election(line, KEY, LoopClock(), times=TIMES).run(asyncio.Event().wait)  # type: ignore[arg-type]
        )
        await asyncio.sleep(1)
        line.bad = "answers late"
        before = (await lease(store))["renewTime"]
        for _ in range(100):
            if (await lease(store))["renewTime"] != before:
                break
            await asyncio.sleep(0.1)
        line.bad = ""
        task.cancel()
        await asyncio.wait((task,))
        assert (await lease(store))["holderIdentity"] == ""

    run(scenario)


def test_one_leads_and_the_lease_says_who() -> None:
    async def scenario() -> None:
        store, working = MemoryBackend(LoopClock()), list[Candidate]()
        every = [Candidate(store, working) for _ in range(5)]
        await asyncio.sleep(60)
        [leader] = working
        spec = await lease(store)
        assert set(spec) == {
            *("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions")
        }
        assert spec["holderIdentity"] == leader.election.identity
        assert spec["leaseDurationSeconds"] == 15
        assert spec["leaseTransitions"] == 0
        renewed = parse_rfc3339_micro(spec["renewTime"]) - parse_rfc3339_micro(spec["acquireTime"])
        assert 50 < renewed <= 60
        assert {one.election.holder for one in every} == {leader.election.identity}
        assert sum(one.terms for one in every) == 1
        for one in every:
            await one.end()

    run(scenario)


def test_who_leaves_gives_the_lease_back() -> None:
    async def scenario() -> None:
        store, working = MemoryBackend(LoopClock()), list[Candidate]()
        every = [Candidate(store, working) for _ in range(3)]
        for _ in range(2):
            await asyncio.sleep(30)
            [leader] = working
            await leader.end()
            assert (await lease(store))["holderIdentity"] == ""
            await asyncio.sleep(TIMES.retry_s + 0.1)
            assert len(working) == 1
        assert (await lease(store))["leaseTransitions"] == 2
        for one in every:
            await one.end()
        assert working == []

    run(scenario)


def test_who_dies_is_followed_when_the_lease_has_ended() -> None:
    async def scenario() -> None:
        store, working = MemoryBackend(LoopClock()), list[Candidate]()
        # Wall clocks a day apart: they are for people only.
        every = [Candidate(store, working, error_s) for error_s in (0.0, 86_400.0, -86_400.0)]
        await asyncio.sleep(31)
        [dead] = working
        dead.line.bad = "refuses"  # it can't give the lease back
        await dead.end()
        await asyncio.sleep(TIMES.duration_s - 2 * TIMES.retry_s)
        assert working == [], "the lease hasn't ended"
        await asyncio.sleep(4 * TIMES.retry_s)
        assert len(working) == 1
        for one in every:
            await one.end()

    run(scenario)


@pytest.mark.parametrize("bad", ["hangs", "refuses", "answers are lost", "slow"])
def test_who_cannot_renew_stops_before_another_begins(bad: str) -> None:
    async def scenario() -> None:
        store, working = MemoryBackend(LoopClock()), list[Candidate]()
        every = [Candidate(store, working) for _ in range(2)]
        await asyncio.sleep(31)
        [leader] = working
        leader.line.bad = bad
        await asyncio.sleep(TIMES.renew_deadline_s + 0.1)
        assert working == []
        assert not leader.election.leading
        leader.line.bad = "refuses"
        await asyncio.sleep(TIMES.duration_s + 2 * TIMES.retry_s)
        assert len(working) == 1
        assert leader not in working
        leader.line.bad = ""
        await asyncio.sleep(60)
        assert leader not in working, "who comes back waits"
        for one in every:
            await one.end()

    run(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_never_two_at_a_time(seed: int) -> None:
    async def scenario() -> None:
        dice = random.Random(seed)
        store, working = MemoryBackend(LoopClock()), list[Candidate]()
        every = [Candidate(store, working, dice.random() * 1e5) for _ in range(4)]
        for _ in range(40):
            one = dice.choice(every)
            one.line.bad = dice.choice(["", "", "hangs", "refuses", "answers are lost", "slow"])
            if dice.random() < 0.2:
                await one.end()
                every.remove(one)
                every.append(Candidate(store, working))
            await asyncio.sleep(dice.random() * 20)
            for other in every:
                if other.task.done():
                    other.task.result()
        for one in every:
            one.line.bad = ""
        await asyncio.sleep(200)  # what hangs has ended
        assert len(working) == 1
        for one in every:
            await one.end()

    run(scenario)


def test_what_the_leader_raises_ends_its_candidacy() -> None:
    async def scenario() -> None:
        store = MemoryBackend(LoopClock())

        async def fail() -> None:
            raise ZeroDivisionError("work")

        with pytest.raises(ZeroDivisionError):
            await Election(store, KEY, LoopClock()).run(fail)
        assert (await lease(store))["holderIdentity"] == ""

        async def once() -> None:
            return None

        await Election(store, KEY, LoopClock()).run(once)
        assert (await lease(store))["leaseTransitions"] == 1

    run(scenario)


def test_work_that_ends_late_is_waited_for() -> None:
    async def scenario() -> None:
        store = MemoryBackend(LoopClock())
        line = Line(store)
        begun: list[float] = []

        async def lead() -> None:
            begun.append(LoopClock().monotonic())
            try:
                await asyncio.sleep(1_000)
            except asyncio.CancelledError:
                await asyncio.sleep(3)  # what it had begun

        task = asyncio.ensure_future(Election(line, KEY, LoopClock()).run(lead))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        line.bad = "refuses"
        await asyncio.sleep(20)
        line.bad = ""
        await asyncio.sleep(20)
        assert len(begun) == 2, "it leads again"
        task.cancel()
        await asyncio.wait((task,))

    run(scenario)


def test_a_value_that_is_no_lease_is_waited_for_like_one() -> None:
    async def scenario() -> None:
        store, working = MemoryBackend(LoopClock()), list[Candidate]()
        await store.put(KEY, b"\xff", expect=0)
        one = Candidate(store, working)
        await asyncio.sleep(TIMES.duration_s - 1)
        assert working == []
        await asyncio.sleep(2 * TIMES.retry_s)
        assert working == [one]
        await one.end()

    run(scenario)


def test_times_that_make_no_sense_are_refused() -> None:
    for times in ((10, 10.0, 2.0), (15, 2.0, 2.0), (15, 10.0, 0.0)):
        with pytest.raises(ValueError, match="a lease must last longer"):
            LeaseTimes(*times)
    assert unique_identity() != unique_identity()
