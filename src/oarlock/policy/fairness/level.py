"""`PriorityLevel`: a number of seats, and queues of requests that wait for them, served fairly.

The seats are divided among the queues as if they were served all at once, each at the same rate ("virtual time", in
seat-seconds per queue). A request begins when it is at the head of the queue whose virtual finish is the earliest, and
enough seats are free. A flow that sends much is thereby only ahead of itself.

Pure: it is called with what happens, and calls `Ticket.wake` when a request may begin. Nothing here waits.
Source: KEP-1040, "Fair queuing for server requests"; k8s.io/apiserver ``fairqueuing/queueset``.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Container
from itertools import count
from typing import Protocol

from msgspec import Struct

from oarlock.meta.context import Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.policy.fairness.borrowing import SeatLimits
from oarlock.policy.fairness.counts import FlowCounts, Refusal
from oarlock.policy.fairness.settings import LevelSettings, SchemaSettings, flow_number, hand
from oarlock.policy.fairness.work import ESTIMATED_S, Work

KEPT = 0.977
"""The part of the smoothed demand that outlasts a period: half of it is left after five minutes."""


@dataclass(frozen=True, slots=True)
class DemandFigures:
    """The demand of a period, in seats. `smoothed` rises at once and falls slowly."""

    most: int = 0
    average: float = 0.0
    deviation: float = 0.0
    smoothed: float = 0.0


class Demand:
    """Integrates a number of seats over time. `seats` is its present value; `most` its highest in this period.

    `integral` and `squares` are those of the seats and of their squares over the `elapsed_s` of this period; whoever
    changes `seats` adds to them before, with every request.
    """

    __slots__ = ("elapsed_s", "figures", "integral", "most", "seats", "squares")

    def __init__(self) -> None:
        self.seats = 0
        self.most = 0
        self.figures = DemandFigures()
        """Of the last period."""
        self.elapsed_s = 0.0
        self.integral = 0.0
        self.squares = 0.0

    def end_period(self) -> None:
        """Make the figures of the period that ends, and begin the next."""
        figures = self.figures
        if self.elapsed_s > 0:
            average = self.integral / self.elapsed_s
            deviation = math.sqrt(max(0.0, self.squares / self.elapsed_s - average * average))
            envelope = average + deviation
            smoothed = max(envelope, KEPT * figures.smoothed + (1 - KEPT) * envelope)
            figures = DemandFigures(self.most, average, deviation, smoothed)
        else:
            figures = DemandFigures(self.most, figures.average, figures.deviation, figures.smoothed)
        self.figures = figures
        self.most = self.seats
        self.elapsed_s = self.integral = self.squares = 0.0


KEPT_QUEUES = 512
"""How many queues are kept although they are empty."""


class SharedBounds:
    """What all levels share: how many requests wait, and the rule for wide requests.

    In a process with one thread, requests on many seats that begin in the same turn of the event loop hold up
    everything else, however few there may be. So once one has begun, `on_wide` is called, and no other begins until
    `Fairness.next_turn`. `on_due` is called when seats that somebody waits for will become free by themselves.
    """

    __slots__ = ("is_taken", "most_waiting", "on_due", "on_wide", "waiting")

    def __init__(self, most_waiting: int) -> None:
        self.most_waiting = most_waiting
        self.waiting = 0
        self.is_taken = False
        self.on_wide: Callable[[], None] | None = None
        self.on_due: Callable[[], None] | None = None


class Flow:
    """The requests of a schema with the same distinguisher and verb. `hand` are the queues they may wait in.

    `work` is what each of them takes; None if that has to be estimated. `headers` is for whoever answers. `generation`
    is the engine's when it was made, `user_name` and `groups` are the user's it was made for; no groups if they are too
    long to be kept elsewhere.
    """

    __slots__ = (
        *("counts", "distinguisher", "durations", "generation", "groups", "hand", "headers", "level", "schema"),
        *("user_name", "verb", "work"),
    )

    def __init__(self, level: PriorityLevel, schema: SchemaSettings, distinguisher: str, verb: str) -> None:
        self.level = level
        self.schema = schema
        self.distinguisher = distinguisher
        self.verb = verb
        self.hand: tuple[int, ...] = ()
        if level.settings.queuing is not None:
            queuing = level.settings.queuing
            self.hand = hand(flow_number(schema.name, distinguisher), queuing.queues, queuing.hand_size)
        self.work: Work | None = None
        self.generation: object = None
        self.user_name = ""
        self.groups: tuple[str, ...] | None = None
        self.headers: list[tuple[str, str]] = []
        self.counts = level.counts_of(schema.name)
        self.durations = self.counts.watched if verb == "watch" else self.counts.executed


class RequestPath(Protocol):
    """A request as it came, as far as it is shown."""

    @property
    def path(self) -> str: ...


class TicketSubject(Protocol):
    """Who sent a request, and what it is about."""

    @property
    def request(self) -> RequestPath: ...
    @property
    def user(self) -> User: ...
    @property
    def target(self) -> Target: ...


class Ticket(Struct, eq=False):
    """A request on a level: it waits in a queue, then takes its seats, until `PriorityLevel.leave`.

    `has_begun` says which; `wake` is called when one that waits begins. Times are monotonic seconds.
    """

    flow: Flow
    work: Work
    arrived: float
    arrived_r: float = 0.0
    began: float = 0.0
    has_begun: bool = False
    is_answered: bool = False
    """Whether all that is left is to send the answer."""
    about: TicketSubject | None = None
    """The request, for somebody who looks at the tables of all requests."""
    wake: Callable[[], None] | None = None
    line: WaitingLine | None = None
    """The queue it is or was in; None on a level without queues."""

    def sent(self, whole: bool) -> None:
        """The answer to the request has been sent, or was cut."""
        self.flow.level.leave(self)


class WaitingLine:
    """A queue of a level. `start_r` is when, in virtual time, its head would begin."""

    __slots__ = ("executing", "index", "seats", "start_r", "waiting", "waiting_work")

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting: deque[Ticket] = deque()
        self.waiting_work = 0.0
        self.executing = 0
        self.seats = 0
        self.start_r = 0.0

    def bound(self) -> None:
        """A queue that had less to do than it might is not ahead for that: its head can't begin before it arrived."""
        if self.waiting and self.start_r < self.waiting[0].arrived_r:
            self.start_r = self.waiting[0].arrived_r


class PriorityLevel:
    """A level. `limit` is how many seats it has at present; `limits` say how many it may have.

    `monotonic` is the clock. `is_leaving` says that nothing configures it any more: it ends when it is idle.
    """

    def __init__(
        self, settings: LevelSettings, limits: SeatLimits, shared: SharedBounds, monotonic: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.limits = limits
        self.limit = limits.initial
        self.demand = Demand()
        self.target = 0.0
        self.is_leaving = False
        self.tickets: set[Ticket] = set()
        self.counts: dict[str, FlowCounts] = {}
        self.lines: dict[int, WaitingLine] = {}
        self.waiting = 0
        self.executing = 0
        self.seats_in_use = 0
        self.wide_seats = 0
        """Those in use by requests on more than one."""
        self.r = 0.0
        """The virtual time: how many seat-seconds each active queue has had."""
        self._shared = shared
        self._monotonic = monotonic
        self._synced = monotonic()
        self._active = 0
        self._enqueued = 0
        self._last_index = 0
        self._lingering: list[tuple[float, int, Ticket]] = []
        self._slow: set[Ticket] = set()
        self._numbers = count()

    def counts_of(self, schema: str) -> FlowCounts:
        counts = self.counts.get(schema)
        if counts is None:
            counts = self.counts[schema] = FlowCounts()
        return counts

    def forget_counts(self, schemas: Container[str]) -> None:
        """Only `schemas` are configured now; those of requests that are still here are remembered too."""
        here = {ticket.flow.schema.name for ticket in self.tickets}
        self.counts = {name: count for name, count in self.counts.items() if name in schemas or name in here}

    @property
    def is_idle(self) -> bool:
        return not self.tickets and not self._lingering

    @property
    def due(self) -> float | None:
        """The time at which seats that a request waits for become free by themselves; None if never."""
        return self._lingering[0][0] if self._lingering and self.waiting else None

    @property
    def most_seats(self) -> int:
        """The most seats that are estimated for one request, so that wide ones don't have the level for themselves."""
        queuing, nominal = self.settings.queuing, self.limits.nominal
        if queuing is None:
            return 10
        return max(1, min(-(-nominal * 15 // 100), nominal // queuing.hand_size))

    # What happens

    def arrive(self, flow: Flow, work: Work) -> Ticket | None:
        """A request comes: its ticket, which has begun or waits; None if the request is refused."""
        now = self._advance()
        ticket = Ticket(flow, work, now)
        if self.settings.queuing is None or not flow.hand:
            if not self.settings.exempt and not self._fits(work.most):
                flow.counts.refuse(Refusal.NO_SEATS)
                return None
            self._begin(ticket, None, now)
            return ticket
        line = self._choose(flow.hand)
        ticket.line = line
        ticket.arrived_r = self.r
        if not self.waiting and self._fits(work.most):
            if not line.executing:
                line.start_r = self.r
                self._active += 1
            elif line.start_r < self.r:
                line.start_r = self.r
            self._begin(ticket, line, now)
            return ticket
        return ticket if self._enqueue(ticket, line, now) else None

    def leave(self, ticket: Ticket, reason: str = Refusal.CANCELLED) -> None:
        """A request has ended, or waits no longer, for `reason`. Does nothing the second time."""
        if ticket not in self.tickets:
            return
        self.tickets.remove(ticket)
        now = self._advance()
        if ticket.has_begun:
            self._finish(ticket, now)
        else:
            self._give_up(ticket, now, reason)
        if self.waiting:
            self._dispatch(now)

    def free_slow(self) -> None:
        """Take the seats of answers that were being sent at the last call already: their clients take them slowly."""
        slow, self._slow = self._slow, {ticket for ticket in self.tickets if ticket.is_answered}
        for ticket in slow & self._slow:
            self.leave(ticket)

    def tick(self) -> None:
        """Time has passed, or a rule has changed: begin what can begin."""
        now = self._advance()
        if self.waiting:
            self._dispatch(now)

    # How

    def _advance(self) -> float:
        """Let virtual time pass up to now, with what has been going on since the last time; returns now."""
        now = self._monotonic()
        if not self._lingering:
            if now > self._synced:
                self._pass(now)
            return now
        while self._lingering and self._lingering[0][0] <= now:
            due, _, ticket = heapq.heappop(self._lingering)
            self._pass(due)
            self._release(ticket)
        self._pass(now)
        return now

    def _pass(self, now: float) -> None:
        elapsed = now - self._synced
        if elapsed > 0.0:
            demand = self.demand
            wanted = demand.seats
            demand.elapsed_s += elapsed
            if wanted:
                demand.integral += wanted * elapsed
                demand.squares += wanted * wanted * elapsed
            if self._active:
                self.r += elapsed * (wanted if wanted < self.limit else self.limit) / self._active
            self._synced = now

    def _choose(self, hand: tuple[int, ...]) -> WaitingLine:
        """The queue of the hand with the least work waiting; each in turn if that is the same."""
        size = len(hand)
        offset = self._enqueued % size
        self._enqueued += 1
        lines = self.lines
        best = lines.get(hand[offset])
        if best is None:
            best = self._line(hand[offset])
        if self.waiting:
            for step in range(1, size):
                index = hand[(offset + step) % size]
                line = lines.get(index)
                if line is None:
                    line = self._line(index)
                if line.waiting_work < best.waiting_work:
                    best = line
        return best

    def _line(self, index: int) -> WaitingLine:
        if len(self.lines) >= KEPT_QUEUES:
            self.lines = {i: line for i, line in self.lines.items() if line.waiting or line.executing or line.seats}
        line = self.lines[index] = WaitingLine(index)
        return line

    def _fits(self, seats: int) -> bool:
        """Whether a request can begin now. One that is wider than the limit begins when it is alone."""
        if seats > 1 and not self._lets_wide(seats):
            return False
        if seats > self.limit:
            return self.seats_in_use == 0 and self.limit > 0
        return self.seats_in_use + seats <= self.limit

    def _lets_wide(self, seats: int) -> bool:
        """Whether wide requests may have so many more seats: it is their turn, and a quarter is for narrow ones."""
        if self._shared.is_taken:
            return False
        return not self.wide_seats or self.wide_seats + seats <= self.limit - self.limit // 4

    def _enqueue(self, ticket: Ticket, line: WaitingLine, now: float) -> bool:
        queuing, shared, counts = self.settings.queuing, self._shared, ticket.flow.counts
        most = queuing.length_limit if queuing is not None else 0
        if len(line.waiting) >= most or shared.waiting >= shared.most_waiting:
            counts.refuse(Refusal.QUEUE_FULL)
            return False
        if not line.waiting and not line.executing:
            line.start_r = self.r
            self._active += 1
        line.waiting.append(ticket)
        line.waiting_work += ticket.work.estimate
        line.bound()
        self.tickets.add(ticket)
        self.waiting += 1
        shared.waiting += 1
        self._demand(ticket.work.most)
        self._dispatch(now)
        if not ticket.has_begun:
            counts.lengths.add(len(line.waiting))
            if self._lingering and shared.on_due is not None:
                shared.on_due()
        return True

    def _dispatch(self, now: float) -> None:
        """Begin as many waiting requests as can begin, the one with the earliest virtual finish first."""
        while self.waiting and self.seats_in_use < self.limit:
            line = self._next_line()
            if line is None:
                return
            ticket = line.waiting[0]
            if not self._fits(ticket.work.most):
                return
            self._unqueue(ticket, line)
            self._last_index = line.index
            if ticket.wake is not None:
                ticket.flow.counts.waited.add(now - ticket.arrived)
            ticket.work = ticket.work.within(self.limit)
            self._begin(ticket, line, now)
            line.bound()
            if ticket.wake is not None:
                ticket.wake()

    def _next_line(self) -> WaitingLine | None:
        """The queue whose head finishes first in virtual time; of several, the next one after the last that was.

        While no wide request may begin, queues with a wide head are passed over: they don't wait for seats.
        """
        best: WaitingLine | None = None
        best_finish, last = 0.0, self._last_index
        for line in self.lines.values():
            if line.waiting and ((seats := line.waiting[0].work.most) == 1 or self._lets_wide(seats)):
                finish = line.start_r + line.waiting[0].work.estimate
                if (
                    best is None
                    or finish < best_finish
                    or (finish == best_finish and (line.index <= last, line.index) < (best.index <= last, best.index))
                ):
                    best, best_finish = line, finish
        return best

    def _unqueue(self, ticket: Ticket, line: WaitingLine) -> None:
        line.waiting.remove(ticket)  # the first, but for one that is cancelled
        line.waiting_work = line.waiting_work - ticket.work.estimate if line.waiting else 0.0
        self.waiting -= 1
        self._shared.waiting -= 1
        self._demand(-ticket.work.most)

    def _begin(self, ticket: Ticket, line: WaitingLine | None, now: float) -> None:
        work, counts = ticket.work, ticket.flow.counts
        seats = work.most
        ticket.began = now
        ticket.has_begun = True
        self.tickets.add(ticket)
        self.executing += 1
        self.seats_in_use += seats
        demand = self.demand
        demand.seats = wanted = demand.seats + seats
        if wanted > demand.most:
            demand.most = wanted
        if line is not None:
            line.executing += 1
            line.seats += seats
            line.start_r += work.estimate
        if seats > 1:
            self.wide_seats += seats
        elif ticket.wake is None:
            counts.at_once += 1
            return
        counts.dispatched += 1
        counts.seats.add(seats)
        if ticket.wake is None:
            counts.waited.add(0.0)
            counts.lengths.add(1)
        if seats > 1:
            shared = self._shared
            if shared.on_wide is not None and not shared.is_taken:
                shared.is_taken = True
                shared.on_wide()

    def _finish(self, ticket: Ticket, now: float) -> None:
        work, line, took = ticket.work, ticket.line, now - ticket.began
        self.executing -= 1
        if line is not None:
            line.executing -= 1
            line.start_r += work.seats * (took - ESTIMATED_S)
            if line.waiting:
                line.bound()
            elif not line.executing:
                self._active -= 1
                if not self._active:
                    self.r = 0.0
        ticket.flow.durations.add(took)
        if work.final_s > 0.0:
            heapq.heappush(self._lingering, (now + work.final_s, next(self._numbers), ticket))
            if self.waiting and self._shared.on_due is not None:
                self._shared.on_due()
        else:
            self._release(ticket)

    def _release(self, ticket: Ticket) -> None:
        seats, line = ticket.work.most, ticket.line
        self.seats_in_use -= seats
        self.demand.seats -= seats
        if seats > 1:
            self.wide_seats -= seats
        if line is not None:
            line.seats -= seats

    def _give_up(self, ticket: Ticket, now: float, reason: str) -> None:
        line = ticket.line
        assert line is not None, "it waited in no queue"
        self._unqueue(ticket, line)
        line.bound()
        if not line.waiting and not line.executing:
            self._active -= 1
            if not self._active:
                self.r = 0.0
        ticket.flow.counts.refuse(reason)
        ticket.flow.counts.given_up.add(now - ticket.arrived)

    def _demand(self, seats: int) -> None:
        demand = self.demand
        demand.seats += seats
        if demand.seats > demand.most:
            demand.most = demand.seats
