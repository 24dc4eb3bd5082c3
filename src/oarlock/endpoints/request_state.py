"""`RequestState`: one request on its way through the filters; and `Route`, where it goes.

The filters of ``server.chain`` fill the state, the verb reads it and makes the immutable `Context` for the packages
below, which never see a RequestState. A `WaitGroup` counts the requests of one route table, so that it can be released
when the last of them has ended.
Must not know: how routes are found (`router`). See also: `route`, the two kinds of route.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any, Protocol

from msgspec import Struct, field

from oarlock.endpoints.http import UNLIMITED, Request, Response, Unsent
from oarlock.meta.context import Clock, Context, Notes, Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.policy.audit.event import AuditRecord
from oarlock.policy.fairness.level import Flow, Ticket


class WaitGroup:
    """A counter of requests, which the caller increments and decrements."""

    __slots__ = ("_idle", "closed", "count")

    def __init__(self) -> None:
        self.count = 0
        self.closed = False
        """Whether new requests are refused."""
        self._idle: Callable[[], None] | None = None

    def settle(self) -> None:
        """One of the `count` requests has ended after `close`."""
        if self.count:
            return
        idle, self._idle = self._idle, None
        if idle is not None:
            idle()

    def close(self, idle: Callable[[], None]) -> None:
        """Refuse new requests, and call `idle` when none is left: at once, or when the last has ended."""
        self.closed = True
        self._idle = idle
        self.settle()


def close_all(groups: Sequence[WaitGroup], idle: Callable[[], None]) -> None:
    """Close all `groups`; `idle` is called when none has a request left."""
    busy = len(groups)

    def one_is_idle() -> None:
        nonlocal busy
        busy -= 1
        if not busy:
            idle()

    for group in groups:
        group.close(one_is_idle)


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))
NO_TARGET = Target("")


class RouteKind(Enum):
    """What a route leads to, for metrics and deadlines."""

    PATH = "a path of the server's own, or one that isn't served"
    RESOURCE = "a resource"
    STREAM = "a subresource that answers for as long as somebody listens"
    CONNECTION = "a subresource that takes over the connection"
    FORWARDED = "what another server answers for as long as somebody listens"


@dataclass(slots=True)
class Route:
    """Where a request goes: all that its method, path and query alone determine. `pairs` is the decoded query.

    `answer` is called with the state and the route, and carries out the request.
    `requests` counts the requests that are carried out with the same route table. `is_cached` says that the router has
    cached it, or won't. `options` are those in its query, once they have been parsed. `series` is where the metrics
    count its requests, once they have looked that up; `audit_texts` is what every audit event of such a request has;
    `flow` what its last request belonged to.
    `is_long_running` says that no deadline ends the answer, and that it doesn't count as in flight.
    """

    target: Target
    pairs: Sequence[tuple[str, str]]
    requests: WaitGroup
    kind: RouteKind
    answer: Callable[[RequestState, Any], Awaitable[Response]]
    is_cached: bool = dataclasses.field(default=False, init=False)
    series: Any = dataclasses.field(default=None, init=False)
    options: Any = dataclasses.field(default=None, init=False)
    audit_texts: tuple[bytes, bytes] | None = dataclasses.field(default=None, init=False)
    flow: Flow | None = dataclasses.field(default=None, init=False)
    is_long_running: bool = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.is_long_running = self.target.verb == "watch" or self.kind not in (RouteKind.RESOURCE, RouteKind.PATH)

    def query(self, name: str) -> str | None:
        """The first value of a query parameter."""
        for key, value in self.pairs:
            if key == name:
                return value
        return None


class RequestSeries(Protocol):
    """Where metrics count requests of one kind."""

    def sent(self, status: int, seconds: float) -> None:
        """An answer with this status has been sent, or cut, so many seconds after its request was received."""
        ...


class RequestState(Struct, eq=False):
    """The state of a request. `deadline` is in monotonic seconds; `route` is None until the router has found it.

    `unsent` is the process's budget of bytes that wait for slow clients. `audit` is None for one that isn't recorded.
    `release_slot` ends the time in which the request counts among those in flight; None while it doesn't. `ticket` is
    its place on a priority level. `series` gets the `status` when the answer has been sent. `on_initial_sent`,
    if there is one, is called once a watch has sent the objects it begins with. `is_long_running` is the route's.
    """

    request: Request
    clock: Clock
    unsent: Unsent = UNLIMITED
    audit_id: str = ""
    target: Target = NO_TARGET
    user: User = ANONYMOUS
    deadline: float = float("inf")
    notes: Notes = field(default_factory=Notes)
    route: Route | None = None
    is_long_running: bool = False
    on_initial_sent: Callable[[], None] | None = None
    audit: AuditRecord | None = None
    release_slot: Callable[[bool], None] | None = None
    ticket: Ticket | None = None
    series: RequestSeries | None = None
    status: int = 0

    def sent(self, whole: bool) -> None:
        """The answer has been sent, or cut."""
        release_slot, series = self.release_slot, self.series
        if release_slot is not None:
            release_slot(whole)
        if series is not None:
            series.sent(self.status, self.clock.monotonic() - self.request.received)

    def context(self, *, target: Target | None = None, options: Any = None, dry_run: bool = False) -> Context:
        """The immutable facts of this request for the packages below."""
        return Context(
            user=self.user,
            target=target or self.target,
            clock=self.clock,
            options=options,
            dry_run=dry_run,
            audit_id=self.audit_id,
            deadline=self.deadline,
            notes=self.notes,
            user_agent=self.request.headers.get("user-agent", ""),
        )
