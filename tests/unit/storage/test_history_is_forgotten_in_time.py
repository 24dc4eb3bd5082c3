"""However many servers compact, and whichever of them die or stand still: one to two intervals of history are kept."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from oarlock.storage.backend import Compacted, OutcomeUnknown, Rev, Unavailable, WriteResult
from oarlock.storage.compactor import INTERVAL_S, KEY, LOOKS, Compactor
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import refused

LOOK_S = INTERVAL_S / LOOKS
STEP_S = LOOK_S / 3


class Counting(MemoryBackend):
    """Counts compactions, and fails as it is told to."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.compacted: list[Rev] = []
        self.fail: Callable[[str], None] = lambda call: None

    async def compact(self, rev: Rev) -> None:
        self.fail("compact")
        await super().compact(rev)
        self.compacted.append(rev)

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = -1) -> WriteResult:
        result = await super().put(key, value, expect=expect, ttl_ms=ttl_ms)
        if key == KEY:
            self.fail("put")
        return result


@dataclass
class Servers:
    """Compactors on one store, a writer that writes all the time, and how old the oldest history is."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    writes: list[tuple[float, Rev]] = field(default_factory=list)
    next_look: dict[Compactor, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.backend = Counting(self.clock)

    def start(self, phase: float = 0.0) -> Compactor:
        one = Compactor(self.backend, self.clock)
        self.next_look[one] = self.clock.monotonic() + phase * LOOK_S
        return one

    def end(self, one: Compactor) -> None:
        del self.next_look[one]

    async def go_on(self, intervals: float, each_step: Callable[[], None] = lambda: None) -> None:
        until = self.clock.monotonic() + intervals * INTERVAL_S
        while self.clock.monotonic() < until:
            result = await self.backend.put(f"/t/{len(self.writes)}", b"", expect=0)
            self.writes.append((self.clock.monotonic(), result.rev))
            now = self.clock.monotonic()
            due = [one for one, at in self.next_look.items() if at <= now]
            await asyncio.gather(*(one.look() for one in due))
            for one in self.next_look.keys() & due:
                self.next_look[one] = max(self.next_look[one] + LOOK_S, now)
            each_step()
            self.clock.advance(STEP_S)

    async def kept(self) -> float:
        """How much history there is, in intervals."""
        oldest = await self.backend.compact_rev()
        since = max((at for at, rev in self.writes if rev <= oldest), default=0.0)
        return (self.clock.monotonic() - since) / INTERVAL_S


@pytest.mark.parametrize("count", [1, 2, 7])
def test_one_compaction_an_interval_and_one_to_two_intervals_of_history(count: int) -> None:
    async def scenario() -> None:
        dice = random.Random(count)
        servers = Servers()
        for _ in range(count):
            servers.start(dice.random())
        await servers.go_on(2.0)
        begun = len(servers.backend.compacted)
        for _ in range(200):
            await servers.go_on(0.1)
            assert 1.0 <= await servers.kept() <= 2.0
        # A few looks earlier than an interval each time, however many servers there are.
        assert 20 <= len(servers.backend.compacted) - begun <= 25

    asyncio.run(scenario())


def test_whoever_dies_or_stands_still_no_more_than_two_intervals_are_kept() -> None:
    async def scenario() -> None:
        dice = random.Random(1)
        servers = Servers()
        for _ in range(5):
            servers.start(dice.random())
        await servers.go_on(2.0)
        for round_ in range(60):
            one, *rest = servers.next_look  # the oldest; one that has noted an interval is always left
            if round_ % 2:
                servers.end(one)
                servers.start(dice.random())
            else:
                servers.next_look[rest[0]] += dice.random() * INTERVAL_S  # it is stopped, and continued later
            for _ in range(7):
                await servers.go_on(0.1)
                assert 1.0 <= await servers.kept() <= 2.0

    asyncio.run(scenario())


def test_servers_that_start_at_the_same_moment_compact_once() -> None:
    async def scenario() -> None:
        servers = Servers()
        for _ in range(8):
            servers.start()
        await servers.go_on(10.5)
        assert 9 <= len(servers.backend.compacted) <= 12
        assert servers.backend.compacted == sorted(set(servers.backend.compacted))

    asyncio.run(scenario())


@pytest.mark.parametrize("lost", [True, False])
def test_what_was_announced_and_not_done_is_done_by_another(lost: bool) -> None:
    async def scenario() -> None:
        servers = Servers()
        first = servers.start()
        servers.start(0.5)

        def die(call: str) -> None:
            if not lost and call == "put":
                return
            servers.backend.fail = lambda call: None
            servers.end(first) if first in servers.next_look else None
            raise OutcomeUnknown("the connection is gone") if lost else Unavailable("killed")

        servers.backend.fail = die
        await servers.go_on(1.3)
        assert len(servers.backend.compacted) == 1
        await servers.go_on(0.7)
        for _ in range(30):
            await servers.go_on(0.1)
            assert 1.0 <= await servers.kept() <= 2.0

    asyncio.run(scenario())


def test_a_server_that_was_stopped_compacts_nothing_too_new() -> None:
    async def scenario() -> None:
        servers = Servers()
        one = servers.start()
        await servers.go_on(3.0)
        servers.next_look[one] += 5 * INTERVAL_S
        await servers.go_on(5.0)
        assert await servers.kept() > 5, "nobody was there to compact"
        await servers.go_on(0.1)
        assert await servers.kept() >= 1
        await servers.go_on(1.9)
        assert 1.0 <= await servers.kept() <= 2.0

    asyncio.run(scenario())


def test_a_quiet_store_is_left_alone() -> None:
    async def scenario() -> None:
        servers = Servers()
        compactor = servers.start()
        await servers.go_on(3.0)
        for _ in range(4 * LOOKS):
            servers.clock.advance(LOOK_S)
            await compactor.look()
        last = servers.writes[-1][1]
        assert await servers.backend.compact_rev() >= last
        rev = await servers.backend.current_rev()
        for _ in range(10 * LOOKS):
            servers.clock.advance(LOOK_S)
            await compactor.look()
        assert await servers.backend.current_rev() == rev, "nothing is written"
        await refused(servers.backend.get("/t/0", rev=servers.writes[0][1]), Compacted)

    asyncio.run(scenario())


def test_a_store_that_went_back_is_started_over_with() -> None:
    async def scenario() -> None:
        servers = Servers()
        compactor = servers.start()
        await servers.go_on(3.0)
        servers.backend = compactor._backend = Counting(servers.clock)
        servers.writes.clear()
        await servers.go_on(0.9)
        assert servers.backend.compacted == [], "what was noted of the other store doesn't count"
        await servers.go_on(1.1)
        assert 1.0 <= await servers.kept() <= 2.0

    asyncio.run(scenario())


def test_a_store_that_fails_is_asked_again() -> None:
    async def scenario() -> None:
        servers = Servers()
        servers.start()
        await servers.go_on(0.8)
        get = servers.backend.get

        async def refuse(*_: object, **__: object) -> None:
            raise Unavailable("gone for a while")

        servers.backend.get = refuse  # type: ignore[method-assign, assignment]
        await servers.go_on(0.5)
        servers.backend.get = get  # type: ignore[method-assign]
        await servers.go_on(0.3)
        assert len(servers.backend.compacted) == 1

    asyncio.run(scenario())


def test_a_value_that_is_no_ones_stops_nobody() -> None:
    async def scenario() -> None:
        servers = Servers()
        await servers.backend.put(KEY, b"\xff?", expect=0)
        servers.start()
        await servers.go_on(2.0)
        assert 1.0 <= await servers.kept() <= 2.0

    asyncio.run(scenario())


def test_it_sleeps_between() -> None:
    async def scenario() -> None:
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                raise asyncio.CancelledError

        wait: Callable[[float], Awaitable[None]] = sleep
        clock = VirtualClock()
        run = Compactor(MemoryBackend(clock), clock, interval_s=10, sleep=wait).run()
        await asyncio.gather(run, return_exceptions=True)
        assert slept == [10 / LOOKS] * 3

    asyncio.run(scenario())
