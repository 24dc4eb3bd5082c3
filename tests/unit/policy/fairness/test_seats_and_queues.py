"""A priority level in virtual time: nobody starves, seats are conserved, limits are kept."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.policy.fairness.borrowing import SeatLimits
from oarlock.policy.fairness.level import Flow, PriorityLevel, SharedBounds, Ticket
from oarlock.policy.fairness.settings import LevelSettings, QueueSettings, SchemaSettings
from oarlock.policy.fairness.work import NARROW, Work


@dataclass
class Time:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def level_of(time: Time, seats: int, queues: int = 64, hand: int = 6, length: int = 50, **how: Any) -> PriorityLevel:
    queuing = QueueSettings(queues, hand, length) if queues else None
    configured = LevelSettings("level", "u", how.pop("exempt", False), 1, 0, None, queuing)
    level = PriorityLevel(configured, SeatLimits(seats, seats, seats), how.pop("shared", SharedBounds(10_000)), time)
    level.limit = seats
    return level


def flow_of(level: PriorityLevel, name: str, schema: str = "schema") -> Flow:
    return Flow(level, SchemaSettings(schema, "", 1, "level", "ByUser", ()), name, "get")


@dataclass
class World:
    """Requests that take as long as they are told to, on one level."""

    level: PriorityLevel
    time: Time
    begun: list[Ticket] = field(default_factory=list)
    ends: list[tuple[float, int, Ticket]] = field(default_factory=list)
    takes: dict[int, float] = field(default_factory=dict)
    served: dict[str, float] = field(default_factory=dict)

    def send(self, flow: Flow, takes_s: float, work: Work = NARROW) -> Ticket | None:
        ticket = self.level.arrive(flow, work)
        if ticket is not None:
            self.takes[id(ticket)] = takes_s
            if ticket.has_begun:
                self._began(ticket)
            else:
                ticket.wake = lambda: self._began(ticket)
        return ticket

    def _began(self, ticket: Ticket) -> None:
        self.begun.append(ticket)
        heapq.heappush(self.ends, (self.time.seconds + self.takes[id(ticket)], len(self.begun), ticket))

    def run(self, until: float) -> None:
        """Let requests end in their order up to a time."""
        while True:
            due = self.level.due
            next_end = self.ends[0][0] if self.ends else None
            times = [one for one in (due, next_end) if one is not None and one <= until]
            if not times:
                break
            self.time.seconds = max(self.time.seconds, min(times))
            if next_end is not None and next_end <= self.time.seconds:
                _, _, ticket = heapq.heappop(self.ends)
                name = ticket.flow.distinguisher
                self.served[name] = self.served.get(name, 0.0) + ticket.work.seats * self.takes[id(ticket)]
                self.level.leave(ticket)
            else:
                self.level.tick()
        self.time.seconds = until
        self.level.tick()


def test_a_request_begins_at_once_while_there_are_seats() -> None:
    level = level_of(Time(), 2)
    first, second = level.arrive(flow_of(level, "a"), NARROW), level.arrive(flow_of(level, "a"), NARROW)
    third = level.arrive(flow_of(level, "a"), NARROW)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.has_begun, second.has_begun, third.has_begun) == (True, True, False)
    woken: list[str] = []
    third.wake = lambda: woken.append("third")
    level.leave(first)
    assert woken == ["third"]
    assert third.has_begun
    assert (level.seats_in_use, level.waiting) == (2, 0)


def test_a_request_that_leaves_twice_frees_its_seats_once() -> None:
    level = level_of(Time(), 3)
    ticket, other = level.arrive(flow_of(level, "a"), NARROW), level.arrive(flow_of(level, "b"), NARROW)
    assert ticket is not None
    assert other is not None
    level.leave(ticket)
    level.leave(ticket)
    assert (level.seats_in_use, level.executing) == (1, 1)


def test_a_full_queue_refuses_and_another_flow_still_finds_one() -> None:
    level = level_of(Time(), 1, queues=64, hand=2, length=3)
    greedy = flow_of(level, "greedy")
    tickets = [level.arrive(greedy, NARROW) for _ in range(20)]
    assert sum(one is not None for one in tickets) == 1 + 2 * 3
    assert greedy.counts.refused == {"queue-full": 13}
    other = next(one for one in (flow_of(level, str(i)) for i in range(9)) if not set(one.hand) & set(greedy.hand))
    assert level.arrive(other, NARROW) is not None


def test_what_waits_is_bounded_on_all_levels_together() -> None:
    time, shared = Time(), SharedBounds(5)
    levels = [level_of(time, 1, shared=shared) for _ in range(3)]
    waiting = [level.arrive(flow_of(level, "a"), NARROW) for level in levels for _ in range(10)]
    assert sum(one is not None and not one.has_begun for one in waiting) == 5
    assert shared.waiting == 5
    for ticket in waiting:
        if ticket is not None:
            ticket.flow.level.leave(ticket)
    assert shared.waiting == 0


def test_a_level_without_queues_refuses_what_finds_no_seat() -> None:
    level = level_of(Time(), 2, queues=0)
    flow = flow_of(level, "a")
    assert [level.arrive(flow, NARROW) is not None for _ in range(3)] == [True, True, False]
    assert flow.counts.refused == {"concurrency-limit": 1}


def test_an_exempt_level_takes_everything_at_once() -> None:
    level = level_of(Time(), 0, queues=0, exempt=True)
    tickets = [level.arrive(flow_of(level, "a"), Work(5)) for _ in range(100)]
    assert all(one is not None and one.has_begun for one in tickets)


def test_a_level_with_no_seats_holds_its_requests() -> None:
    level = level_of(Time(), 0)
    ticket = level.arrive(flow_of(level, "a"), NARROW)
    assert ticket is not None
    assert not ticket.has_begun
    level.limit = 1
    level.tick()
    assert ticket.has_begun


def test_a_request_wider_than_the_level_begins_when_it_is_alone() -> None:
    level = level_of(Time(), 3)
    narrow = level.arrive(flow_of(level, "a"), NARROW)
    wide = level.arrive(flow_of(level, "b"), Work(8))
    assert narrow is not None
    assert wide is not None
    assert not wide.has_begun
    level.leave(narrow)
    assert wide.has_begun
    late = level.arrive(flow_of(level, "a"), NARROW)
    assert late is not None
    assert not late.has_begun


def test_seats_stay_taken_for_the_watches_of_a_write() -> None:
    time = Time()
    level = level_of(time, 4)
    write = level.arrive(flow_of(level, "a"), Work(1, 4, 0.5))
    waits = level.arrive(flow_of(level, "b"), NARROW)
    assert write is not None
    assert waits is not None
    assert not waits.has_begun
    level.leave(write)
    assert level.due == 0.5
    time.seconds = 0.4
    level.tick()
    assert not waits.has_begun
    time.seconds = 0.5
    level.tick()
    assert waits.has_begun
    assert level.seats_in_use == 1


def test_final_seats_over_the_limit_are_taken_for_longer_instead() -> None:
    assert Work(1, 10, 0.1).within(5) == Work(1, 5, 0.2)
    assert Work(1, 3, 0.1).within(5) == Work(1, 3, 0.1)


def test_one_wide_request_begins_a_turn_and_narrow_ones_pass() -> None:
    shared = SharedBounds(100)
    asked: list[str] = []
    shared.on_wide = lambda: asked.append("turn")
    level = level_of(Time(), 100, shared=shared)
    wide = [level.arrive(flow_of(level, "greedy"), Work(8)) for _ in range(3)]
    narrow = level.arrive(flow_of(level, "other"), NARROW)
    assert [one is not None and one.has_begun for one in wide] == [True, False, False]
    assert narrow is not None
    assert narrow.has_begun
    assert asked == ["turn"]
    shared.is_taken = False
    level.tick()
    assert sum(one is not None and one.has_begun for one in wide) == 2


def test_wide_requests_leave_a_quarter_of_the_seats_to_narrow_ones() -> None:
    level = level_of(Time(), 40)
    for number in range(20):
        level.arrive(flow_of(level, str(number)), Work(8))
    assert (level.wide_seats, level.waiting) == (24, 17)
    narrow = [level.arrive(flow_of(level, "narrow"), NARROW) for _ in range(16)]
    assert all(one is not None and one.has_begun for one in narrow)
    late = level.arrive(flow_of(level, "narrow"), NARROW)
    assert late is not None
    assert not late.has_begun


def test_an_answer_that_is_taken_slowly_keeps_no_seats() -> None:
    level = level_of(Time(), 1)
    slow, waits = level.arrive(flow_of(level, "slow"), NARROW), level.arrive(flow_of(level, "other"), NARROW)
    assert slow is not None
    assert waits is not None
    level.free_slow()
    slow.is_answered = True
    level.free_slow()
    assert not waits.has_begun
    level.free_slow()
    assert waits.has_begun
    slow.sent(True)
    assert level.seats_in_use == 1


def test_a_greedy_flow_delays_another_by_two_requests_at_most() -> None:
    """1,000 lists are in flight; a GET of somebody else begins when seats become free for the second time at most."""
    time = Time()
    level = level_of(time, 49, queues=128, hand=6)
    world = World(level, time)
    greedy = flow_of(level, "greedy")
    for _ in range(1000):
        world.send(greedy, 0.010, Work(8))
    waits = []
    for number in range(200):
        world.run(time.seconds + 0.003)
        ticket = world.send(flow_of(level, "other"), 0.001)
        assert ticket is not None, number
        world.run(time.seconds + 0.050)
        assert ticket.has_begun
        waits.append(ticket.began - ticket.arrived)
        for _ in range(40):
            world.send(greedy, 0.010, Work(8))
    assert max(waits) <= 2 * 0.010
    assert sum(waits) / len(waits) <= 0.010
    assert greedy.counts.refused["queue-full"] > 100


@pytest.mark.parametrize("wide", [1, 5])
def test_two_flows_get_the_same_however_much_one_sends(wide: int) -> None:
    """Each of two flows that always have something to do gets half of the seat-seconds."""
    time = Time()
    level = level_of(time, 10, queues=64, hand=1)
    world = World(level, time)
    greedy, modest = flow_of(level, "greedy"), flow_of(level, "modest")
    assert greedy.hand != modest.hand
    for _ in range(100):
        for _ in range(50):
            world.send(greedy, 0.02, Work(wide))
        for _ in range(12):
            world.send(modest, 0.02)
        world.run(time.seconds + 0.1)
        while len([one for one in level.tickets if one.flow is modest]) < 12:
            world.send(modest, 0.02)
    assert world.served["modest"] == pytest.approx(world.served["greedy"], rel=0.15)


Step = tuple[str, int, int, float]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "arrive", "arrive", "leave", "pass", "limit"]),
        st.integers(0, 7),
        st.integers(1, 6),
        st.sampled_from([0.0, 0.001, 0.02, 1.0]),
    ),
    max_size=60,
)


@given(steps=STEPS, queues=st.sampled_from([0, 1, 3, 8]), seats=st.integers(0, 7))
@examples(150)
def test_seats_are_conserved_and_limits_kept(steps: list[Step], queues: int, seats: int) -> None:
    """After whatever happens: every seat is one of a request; the limit holds but for one that is wider than it."""
    time = Time()
    level = level_of(time, seats, queues=queues, hand=min(queues, 2), length=3)
    flows = [flow_of(level, str(number)) for number in range(4)]
    alive: list[Ticket] = []
    largest = seats
    for what, which, width, seconds in steps:
        if what == "arrive":
            ticket = level.arrive(flows[which % 4], Work(width, which if which > 5 else 0, 0.01 if which > 5 else 0.0))
            if ticket is not None:
                alive.append(ticket)
        elif what == "leave" and alive:
            level.leave(alive.pop(which % len(alive)))
        elif what == "limit":
            level.limit = width
            largest = max(largest, width)
            level.tick()
        else:
            time.seconds += seconds
            level.tick()
        begun = [one for one in alive if one.has_begun]
        assert level.tickets == set(alive)
        assert level.executing == len(begun)
        assert level.waiting == len(alive) - len(begun)
        assert level.seats_in_use == sum(line.seats for line in level.lines.values()) or not queues
        assert level.demand.seats == level.seats_in_use + sum(one.work.most for one in alive if not one.has_begun)
        assert level.seats_in_use <= largest or level.executing <= 1 or len(begun) == 1
        assert all(len(line.waiting) <= 3 for line in level.lines.values())
        waiting = [line.waiting[0] for line in level.lines.values() if line.waiting]
        if waiting and level.limit:
            assert level.seats_in_use, "somebody waits although nothing else goes on"
    for ticket in alive:
        level.leave(ticket)
    time.seconds += 10
    level.tick()
    assert (level.seats_in_use, level.executing, level.waiting, level.demand.seats) == (0, 0, 0, 0)
    assert level.is_idle


@given(
    arrivals=st.lists(st.tuples(st.integers(0, 5), st.floats(0, 0.05), st.integers(1, 4)), min_size=1, max_size=60),
    seats=st.integers(1, 5),
)
@examples(100)
def test_everything_that_is_taken_is_served(arrivals: list[tuple[int, float, int]], seats: int) -> None:
    """Nobody starves: once nothing new comes, every request that was queued has begun and ended."""
    time = Time()
    level = level_of(time, seats, queues=8, hand=2, length=20)
    world = World(level, time)
    taken = 0
    for who, pause, width in arrivals:
        world.run(time.seconds + pause)
        taken += world.send(flow_of(level, str(who)), 0.01, Work(width)) is not None
    world.run(time.seconds + 100)
    assert len(world.begun) == taken
    assert level.is_idle
