"""Limits concurrent requests: priority and fairness, or a number of requests in flight (429 with Retry-After).

With fairness, a request begins when its priority level has seats for it, and waits in a queue until then. It keeps its
seats until its answer has been sent, a watch until its initial objects have been; others that go on for long take none.
A request that begins at once needs neither task nor timer. Without, a request counts until its answer is there, a watch
until it has started; an answer that is made while it is sent counts until it has been sent, or, if its client takes it
slowly, until another needs its place. Both answer 429 while the budget of unsent bytes is exhausted (``http.Unsent``).
Source: KEP-1040; k8s.io/apiserver ``server/filters`` priority-and-fairness and maxinflight. See also:
``policy.fairness``, which decides.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from oarlock.client.clock import TimerClock
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.policy.fairness.counts import Refusal
from oarlock.policy.fairness.engine import REBALANCE_S, Fairness
from oarlock.policy.fairness.level import Flow, Ticket
from oarlock.policy.fairness.work import NARROW, Work, list_work, write_work
from oarlock.server.filters.filter import ALWAYS_ANSWERED, plain

LONGEST_S = 32
_MANY = 3
"""Refusals a second that are so many that clients should wait longer."""


class RefusalHistory:
    """The refusals of one level by second; `seconds` is the ``Retry-After`` they lead to.

    It doubles while there are many refusals, and falls by one a second when there are few.
    """

    __slots__ = ("_changed", "_count", "_past", "_second", "seconds")

    def __init__(self) -> None:
        self.seconds = 1
        self._second = 0
        self._count = 0
        self._changed = 0
        self._past: deque[tuple[int, int]] = deque()

    def add(self, now: float) -> int:
        """Count a refused request; returns its Retry-After in seconds."""
        second = int(now)
        if second != self._second:
            if self._count:
                self._past.append((self._second, self._count))
            self._second, self._count = second, 0
            self._adapt(second)
        self._count += 1
        return self.seconds

    def _adapt(self, second: int) -> None:
        while self._past and second - self._past[0][0] > LONGEST_S:
            self._past.popleft()
        recent = sum(refused for at, refused in self._past if second - at <= self.seconds)
        if second - self._changed >= self.seconds and recent >= _MANY * self.seconds:
            self.seconds = min(LONGEST_S, 2 * self.seconds)
            self._changed = second
        elif recent < self.seconds and self.seconds > 1:
            self.seconds -= 1


TEXT = "Too many requests, please try again later.\n"
MASTERS = "system:masters"
ReleaseSlot = Callable[[bool], None]
READING = frozenset({"get", "list", "watch", "head", "options"})
SLOW_S = 0.05
"""An answer that takes longer to send is taken slowly, in seconds."""


class MaxInFlight:
    """A filter with two counters. 0 means no limit; members of ``system:masters`` are never refused."""

    __slots__ = ("_reads", "_sending", "_writes", "mutating", "mutating_limit", "read_only", "read_only_limit")

    def __init__(self, read_only_limit: int = 400, mutating_limit: int = 200) -> None:
        self.read_only_limit = read_only_limit
        self.mutating_limit = mutating_limit
        self.read_only = 0
        self.mutating = 0
        self._reads, self._writes = self._read, self._mutated  # bound once, not with each request
        self._sending: dict[ReleaseSlot, dict[RequestState, float]] = {self._reads: {}, self._writes: {}}

    def begin(self, state: RequestState) -> Response | None:
        """Count a request, or refuse it."""
        unsent = state.unsent
        if unsent.size >= unsent.limit and not state.request.path.startswith(ALWAYS_ANSWERED):
            return too_many_requests()
        verb = state.target.verb
        if verb != "watch" and state.is_long_running:
            return None
        if verb in READING:
            if self.read_only >= self.read_only_limit > 0 and not self._may_yet(state, self._reads):
                return too_many_requests()
            self.read_only += 1
            state.release_slot = self._reads
        else:
            if self.mutating >= self.mutating_limit > 0 and not self._may_yet(state, self._writes):
                return too_many_requests()
            self.mutating += 1
            state.release_slot = self._writes
        return None

    def answered(self, state: RequestState, response: Response) -> None:
        """The answer to a request that was counted begins."""
        release_slot = state.release_slot
        assert release_slot is not None
        if type(response.body) is bytes or response.stream is not None:
            state.release_slot = None
            release_slot(True)
        else:
            self._sending[release_slot][state] = state.clock.monotonic()
            state.release_slot = partial(self._sent, release_slot, state)

    def _may_yet(self, state: RequestState, release_slot: ReleaseSlot) -> bool:
        """Whether a request may begin although all places are taken: it may take that of a slow client's answer."""
        if MASTERS in state.user.groups:
            return True
        sending = self._sending[release_slot]
        oldest = next(iter(sending), None)
        if oldest is None or state.clock.monotonic() - sending[oldest] < SLOW_S:
            return False
        oldest.release_slot = None
        self._sent(release_slot, oldest, False)
        return True

    def _sent(self, release_slot: ReleaseSlot, state: RequestState, whole: bool) -> None:
        del self._sending[release_slot][state]
        state.release_slot = None  # it holds the request, which holds it
        release_slot(whole)

    def _read(self, whole: bool) -> None:
        self.read_only -= 1

    def _mutated(self, whole: bool) -> None:
        self.mutating -= 1


def too_many_requests(retry_after_s: int = 1) -> Response:
    response = plain(429, TEXT)
    response.headers.append(("retry-after", str(retry_after_s)))
    return response


LONGEST_WAIT_S = 60.0
"""An answer that takes between this and twice this to send keeps no seat that somebody waits for."""

_PART_OF_DEADLINE = 4
"""A request may wait for this part of its time."""

_LISTING = ("list", "watch")
_READING = frozenset({"get", "list", "watch", "head", "options"})
StoredCount = Callable[[str, str], int | None]
"""How many objects of a group and resource are stored; None for one whose objects are elsewhere."""

_Watched = tuple[str, str, str, str]
"""Group, resource, namespace, name."""


def _ignore() -> None:
    """Do nothing."""


class FairnessFilter:
    """A filter. `clock` ends what waits for too long; `timeout_s` is for requests without a deadline."""

    def __init__(self, fairness: Fairness, clock: TimerClock, stored: StoredCount, timeout_s: float = 60.0) -> None:
        self.fairness = fairness
        self._clock = clock
        self._stored = stored
        self._timeout_s = timeout_s
        self._history: dict[str, RefusalHistory] = {}
        self._watches: dict[_Watched, int] = {}
        self._ticking: asyncio.Task[None] | None = None
        fairness.shared.on_wide = self._await_turn
        self._freeing: asyncio.Task[None] | None = None
        fairness.shared.on_due = self._await_due

    @property
    def read_only(self) -> int:
        """The reading requests that are carried out."""
        return sum(ticket.flow.verb in _READING for ticket in self._begun())

    @property
    def mutating(self) -> int:
        """The writing requests that are carried out."""
        return sum(ticket.flow.verb not in _READING for ticket in self._begun())

    def _begun(self) -> list[Ticket]:
        return [ticket for level in self.fairness.levels.values() for ticket in level.tickets if ticket.has_begun]

    async def run(self, renew: Callable[[], None] = _ignore) -> None:
        """Every 10 s, call `renew` and divide the seats again, until cancelled."""
        try:
            while True:
                await self._clock.sleep(REBALANCE_S)
                renew()
                self.fairness.rebalance()
        finally:
            for task in (self._ticking, self._freeing):
                if task is not None:
                    task.cancel()

    def begin(self, state: RequestState) -> Response | Awaitable[Response | None] | None:
        """Let a request begin, at once or after its time in a queue, or refuse it."""
        unsent, route = state.unsent, state.route
        if unsent.size >= unsent.limit and not state.request.path.startswith(ALWAYS_ANSWERED):
            return too_many_requests()
        if state.target.verb != "watch" and state.is_long_running:
            return None
        user, flow = state.user, None if route is None else route.flow
        if (
            flow is None
            or flow.groups is not user.groups
            or flow.user_name != user.name
            or flow.generation is not self.fairness.generation
        ):
            flow = self._flow(state)
        ticket = flow.level.arrive(flow, flow.work or self._estimate(state, flow))
        if ticket is None:
            return self._refuse(flow)
        ticket.about = state
        if not ticket.has_begun:
            return self._begin_later(ticket, state)
        state.ticket = ticket
        state.release_slot = ticket.sent
        if ticket.work.most > 1:
            state.on_initial_sent = partial(ticket.sent, True)
        return None

    async def _begin_later(self, ticket: Ticket, state: RequestState) -> Response | None:
        if not await self._has_begun(ticket, state):
            return self._refuse(ticket.flow)
        state.ticket = ticket
        state.release_slot = ticket.sent
        if ticket.work.most > 1:
            state.on_initial_sent = partial(ticket.sent, True)
        return None

    def answered(self, state: RequestState, response: Response) -> None:
        """The answer to a request that has begun begins: it keeps its seats until that is sent."""
        ticket = state.ticket
        assert ticket is not None
        ticket.is_answered = True
        response.headers += ticket.flow.headers
        if response.stream is not None:
            state.release_slot = None
            self._stream(state, response, ticket)

    # Before

    def _flow(self, state: RequestState) -> Flow:
        target, user = state.target, state.user
        resource = target.resource
        key = (
            *(user.name, user.groups, target.verb, target.group, resource, target.subresource, target.namespace),
            "" if resource else target.path,
        )
        flow = self.fairness.known_flow(key) or self._classify(key, state)
        if state.route is not None and flow.groups is not None:
            flow.groups = user.groups  # equal, and now the same
            state.route.flow = flow
        return flow

    def _classify(self, key: tuple[object, ...], state: RequestState) -> Flow:
        target = state.target
        flow = self.fairness.flow_of(key, state.user, target, target.path)
        uids = {"flowschema": flow.schema.uid, "prioritylevel": flow.level.settings.uid}
        flow.headers = [(f"x-kubernetes-pf-{name}-uid", uid) for name, uid in uids.items() if uid]
        return flow

    def _estimate(self, state: RequestState, flow: Flow) -> Work:
        target, most = state.target, flow.level.most_seats
        if target.verb in _LISTING:
            stored = self._stored(target.group, target.resource)
            if not stored or state.route is None:
                return NARROW
            return list_work(stored, state.route.pairs, most, watch=target.verb == "watch", named=bool(target.name))
        watches = self._watches
        if not watches or (target.resource == "serviceaccounts" and target.subresource == "token"):
            return NARROW
        place = (target.group, target.resource)
        watchers = watches.get((*place, "", ""), 0)
        if target.namespace:
            watchers += watches.get((*place, target.namespace, ""), 0)
        if target.name:
            watchers += watches.get((*place, target.namespace, target.name), 0)
        return write_work(watchers, most)

    async def _has_begun(self, ticket: Ticket, state: RequestState) -> bool:
        """Wait in the queue: True once the request may be carried out, False when it has waited for too long."""
        future = asyncio.get_running_loop().create_future()
        ticket.wake = partial(_settle, future)
        received = state.request.received
        allowed_s = min(state.deadline - received, self._timeout_s) / _PART_OF_DEADLINE
        rest_s = received + min(allowed_s, LONGEST_WAIT_S) - self._clock.monotonic()
        self._free_seats()
        timer = asyncio.create_task(self._expire(ticket, future, rest_s), name="fairness: a place in a queue")
        try:
            await future
        except BaseException:
            ticket.flow.level.leave(ticket)
            raise
        finally:
            timer.cancel()
        return ticket.has_begun

    async def _expire(self, ticket: Ticket, future: asyncio.Future[None], rest_s: float) -> None:
        await self._clock.sleep(rest_s)
        if not ticket.has_begun:
            ticket.flow.level.leave(ticket, Refusal.TIME_OUT)
            _settle(future)

    def _refuse(self, flow: Flow) -> Response:
        self._free_seats()
        name = flow.level.settings.name
        history = self._history.get(name)
        if history is None:
            self._history = {name: self._history[name] for name in self.fairness.levels if name in self._history}
            history = self._history[name] = RefusalHistory()
        response = too_many_requests(history.add(self._clock.monotonic()))
        response.headers += flow.headers
        return response

    # After

    def _stream(self, state: RequestState, response: Response, ticket: Ticket) -> None:
        if state.target.verb != "watch":
            ticket.sent(True)
            return
        if ticket.work.most == 1:
            ticket.sent(True)
        else:
            response.on_sent(ticket.sent)
        target = state.target
        watched = (target.group, target.resource, target.namespace, target.name)
        self._watches[watched] = self._watches.get(watched, 0) + 1
        response.on_sent(partial(self._forget, watched))

    def _forget(self, watched: _Watched, whole: bool) -> None:
        left = self._watches[watched] - 1
        if left:
            self._watches[watched] = left
        else:
            del self._watches[watched]

    # Time

    def _free_seats(self) -> None:
        if self._freeing is None:
            self._freeing = asyncio.create_task(self._free_slow(), name="fairness: answers that are sent slowly")

    async def _free_slow(self) -> None:
        """While requests wait or were refused, free the seats of answers that clients read slowly."""
        levels, rounds = self.fairness.levels, 2
        try:
            while rounds > 0 or any(level.waiting for level in levels.values()):
                await self._clock.sleep(SLOW_S)
                levels, rounds = self.fairness.levels, rounds - 1
                for level in levels.values():
                    level.free_slow()
        finally:
            self._freeing = None

    def _await_turn(self) -> None:
        asyncio.get_running_loop().call_soon(self.fairness.next_turn)

    def _await_due(self) -> None:
        if self._ticking is None:
            self._ticking = asyncio.create_task(self._tick(), name="fairness: seats that become free")
            self._ticking.add_done_callback(self._ticked)

    def _ticked(self, task: asyncio.Task[None]) -> None:
        self._ticking = None

    async def _tick(self) -> None:
        while (due := self.fairness.due) is not None:
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            self.fairness.tick()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
