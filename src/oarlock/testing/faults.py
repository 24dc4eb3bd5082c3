"""`RequestFaults`: what goes wrong on purpose with requests to a server under test, for those who test its clients.

    with ServerThread(server) as running:
        running.faults.fail("update", Order, status=409, times=3)
        running.faults.cut_watches(Order)

A fault stands between authorization and what carries out a request: it is answered, counted and audited like any other.
The control plane's own code meets none. Must not know: pytest. See also: ``server``, ``thread``, which have one each.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, TypedDict, TypeVar, Unpack

from oarlock.apps.api_server import APIServer
from oarlock.apps.controllers.leading import OWN_AGENT
from oarlock.client.clock import TimerClock
from oarlock.client.kinds import ref_of_class, split_kind
from oarlock.endpoints.catalog import Catalog
from oarlock.endpoints.http import Response, Stream
from oarlock.endpoints.request_state import RequestState
from oarlock.meta import errors
from oarlock.meta.context import Target
from oarlock.meta.kinds import GroupResource
from oarlock.schema.types.declaring import did_you_mean
from oarlock.server.filters.filter import Next

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "connect")
_HTTP_VERBS = {"post": "create", "put": "update", "read": "get"}
MOST_RECORDED = 10_000

T = TypeVar("T")


class FaultKeywords(TypedDict, total=False):
    """Which requests a fault applies to, and how it is reported.

    - `name`, `namespace`, `user` and `subresource` (``""`` for the objects themselves) select requests.
    - `after`: this number of requests pass first.
    - `seconds`: how long the fault lasts, by the server's clock.
    - `message`: the message of the Status. `retry_after_s`: its Retry-After.
    - `applied`: the request is executed, and only its answer is replaced.
    """

    name: str
    namespace: str
    user: str
    subresource: str
    after: int
    seconds: float
    message: str
    retry_after_s: int
    applied: bool


class Injected(NamedTuple):
    """A request that met a fault. `what` is the status that it got, or ``slow``, ``expired`` or ``cut``."""

    what: int | str
    verb: str
    resource: str
    namespace: str
    name: str
    user: str


class RequestFault:
    """A fault. It lasts until it has happened `times` times, its time is over, `end` is called, or its context ends."""

    def __init__(self, what: int | float, verb: str, resource: GroupResource | None, times: int | None) -> None:
        self.count = 0
        """How often it has happened."""
        self.ended = False
        self.until = float("inf")
        """When it is over, in monotonic seconds of the server's clock."""
        self.keywords = FaultKeywords()
        self._what, self._verb, self._resource, self._times = what, verb, resource, times
        self._passed = 0

    def end(self) -> None:
        """End the fault."""
        self.ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def takes(self, state: RequestState) -> bool:
        """Whether this request meets the fault. If so, it is counted."""
        if self.ended or not self._is_for(state):
            return False
        if state.clock.monotonic() >= self.until:
            self.ended = True
            return False
        self._passed += 1
        if self._passed <= self.keywords.get("after", 0):
            return False
        self.count += 1
        self.ended = self.count == self._times
        return True

    def _is_for(self, state: RequestState) -> bool:
        target, wanted = state.target, self.keywords
        if not target.resource and (self._verb, self._resource) != ("*", None):
            return False
        return (
            self._verb in ("*", target.verb)
            and self._resource in (None, target.group_resource)
            and wanted.get("name", target.name) == target.name
            and wanted.get("namespace", target.namespace) == target.namespace
            and wanted.get("subresource", target.subresource) == target.subresource
            and wanted.get("user", state.user.name) == state.user.name
        )

    @property
    def slow_s(self) -> float:
        """How long a request is delayed, in seconds."""
        return self._what if isinstance(self._what, float) else 0.0

    def error(self, target: Target) -> errors.StatusError | None:
        """The error to answer with; None if the request is only delayed."""
        if isinstance(self._what, float):
            return None
        return _error(self._what, target, self.keywords)


class RequestFaults:
    """The faults of one server under test: none at first.

    `in_loop` calls a function in the server's event loop.
    """

    def __init__(self, server: APIServer, in_loop: Callable[[Callable[[], T]], T] | None = None) -> None:
        self.in_loop: Callable[[Callable[[], Any]], Any] = in_loop or (lambda call: call())
        self._server = server
        self._faults: list[RequestFault] = []
        self._lock = threading.Lock()
        self._injected: deque[Injected] = deque(maxlen=MOST_RECORDED)
        self._streams: dict[int, tuple[Stream, RequestState]] = {}
        self._numbers = itertools.count()
        self._expired: dict[GroupResource | None, int] = {}

    @property
    def injected(self) -> Sequence[Injected]:
        """The requests that met a fault, the oldest first; at most the last 10,000."""
        return tuple(self._injected)

    def fail(
        self,
        verb: str,
        kind: Any = "*",
        *,
        status: int = 500,
        times: int | None = 1,
        **keywords: Unpack[FaultKeywords],
    ) -> RequestFault:
        """Answer the next `times` requests with an error, or all of them with None.

        `verb` is Kubernetes' verb (``update`` for a PUT) or ``*``. `kind` is a declared class, a text such as
        ``apps/v1/Deployment``, or ``*``. Requests to subresources are included unless `subresource` selects some. 409
        is AlreadyExists for a create, else Conflict. With ``*`` for both, paths without a kind are included, such as
        ``/readyz`` and discovery. Raises ValueError for a kind that isn't served, and for an unknown verb or status.
        """
        if status not in _REASONS:
            raise ValueError(f"status={status}: there are {', '.join(map(str, sorted(_REASONS)))}")
        return self._add(RequestFault(status, self._verb(verb), self._resource(kind), times), keywords)

    def slow(
        self,
        verb: str,
        kind: Any = "*",
        *,
        by_s: float,
        times: int | None = None,
        **keywords: Unpack[FaultKeywords],
    ) -> RequestFault:
        """Delay requests by `by_s` seconds of the server's clock. Other arguments are those of `fail`."""
        return self._add(RequestFault(float(by_s), self._verb(verb), self._resource(kind), times), keywords)

    def away(self, **keywords: Unpack[FaultKeywords]) -> RequestFault:
        """Answer everything with 503 and cut all watches, until the fault is ended, or for `seconds`."""
        fault = self.fail("*", "*", status=503, times=None, **keywords)
        self.cut_watches()
        return fault

    def cut_watches(self, kind: Any = "*") -> int:
        """Break off the open watches of a kind in the middle of the answer. Returns their number.

        Informers of a client in the server's process have no watches, because they read its cache.
        """
        resource = self._resource(kind)
        cut: int = self.in_loop(lambda: self._cut(resource))
        return cut

    def expire(self, kind: Any = "*") -> int:
        """Forget the history of a kind. Its watches are cut; returns their number.

        Clients that continue a watch get 410 until they have listed again. Lists that continue from an earlier page get
        410 too.
        """
        running = self._server.running
        if running is None:
            raise RuntimeError("the server isn't running")
        resource = self._resource(kind)
        self._expired[resource] = running.revision
        return self.cut_watches(kind)

    def clear(self) -> None:
        """End all faults."""
        for fault in self._faults:
            fault.end()
        self._expired.clear()

    # What requests meet

    def around(self, rest: Next) -> Next:
        """`rest`, behind the faults."""

        async def meet(state: RequestState) -> Response:
            if _is_own(state):
                return await rest(state)
            self._meet_expiry(state)
            lost = await self._meet_faults(state)
            response = await rest(state)
            if lost is not None:
                raise lost
            if state.target.verb == "watch" and response.stream is not None:
                response.stream = self._kept(state, response.stream)
            return response

        return meet

    async def _meet_faults(self, state: RequestState) -> errors.StatusError | None:
        """The error to answer when the request has been carried out. Raises the one to answer in its place."""
        with self._lock:
            met = [fault for fault in self._faults if fault.takes(state)]
            self._faults = [fault for fault in self._faults if not fault.ended]
        for fault in met:
            error = fault.error(state.target)
            self._record("slow" if error is None else error.code, state)
            if error is None:
                clock: Any = state.clock
                await clock.sleep(fault.slow_s)
            elif fault.keywords.get("applied"):
                return error
            else:
                raise error
        return None

    def _meet_expiry(self, state: RequestState) -> None:
        """Answer with 410 who goes on from what is forgotten."""
        target, route = state.target, state.route
        if not self._expired or route is None or target.verb not in ("list", "watch"):
            return
        places = [place for place in (None, target.group_resource) if place in self._expired]
        if target.verb == "list" and route.query("continue") and places:
            self._record("expired", state)
            raise errors.Expired("The provided continue parameter is too old to display a consistent list result.")
        text = "" if target.verb == "list" else route.query("resourceVersion")
        for place in places:
            if text in (None, "", "0"):  # it begins anew, and may go on from where the store is now
                self._expired[place] = min(self._expired[place], self._rev() - 1)
                continue
            if text is not None and text.isdecimal() and int(text) <= self._expired[place]:
                self._record("expired", state)
                raise errors.Expired(f"too old resource version: {text} ({self._expired[place] + 1})")

    def _rev(self) -> int:
        running = self._server.running
        return 0 if running is None else running.revision

    def _kept(self, state: RequestState, begin: Callable[[Any], None]) -> Callable[[Any], None]:
        number = next(self._numbers)

        def forget() -> None:
            self._streams.pop(number, None)

        def begin_and_keep(stream: Stream) -> None:
            self._streams[number] = (stream, state)
            stream.on_close(forget)
            begin(stream)

        return begin_and_keep

    def _cut(self, resource: GroupResource | None) -> int:
        cut = [
            (stream, state)
            for stream, state in self._streams.values()
            if resource in (None, state.target.group_resource)
        ]
        for stream, state in cut:
            self._record("cut", state)
            stream.abort()
        return len(cut)

    def _record(self, what: int | str, state: RequestState) -> None:
        target = state.target
        self._injected.append(
            Injected(what, target.verb, target.resource, target.namespace, target.name, state.user.name)
        )

    # What users say

    def _add(self, fault: RequestFault, keywords: FaultKeywords) -> RequestFault:
        for name in keywords:
            if name not in FaultKeywords.__annotations__:
                raise TypeError(f"{name}: {did_you_mean(name, FaultKeywords.__annotations__)}")
        fault.keywords = keywords
        if "seconds" in keywords:
            fault.until = self._clock().monotonic() + keywords["seconds"]
        with self._lock:
            self._faults.append(fault)
        return fault

    def _clock(self) -> TimerClock:
        running = self._server.running
        if running is None:
            raise RuntimeError("seconds are those of a server that runs: start it first")
        return running.clock

    def _verb(self, verb: str) -> str:
        if verb == "*" or verb in VERBS:
            return verb
        meant = _HTTP_VERBS.get(verb.lower())
        hint = f"did you mean {meant!r}?" if meant else did_you_mean(verb, VERBS)
        raise ValueError(f"there is no verb {verb!r}: {hint}")

    def _resource(self, kind: Any) -> GroupResource | None:
        """The resource of a kind; None for all. Raises ValueError for what isn't served."""
        if kind == "*":
            return None
        catalog = self._server.live.current or self._server.catalog
        if isinstance(kind, str):
            return _resource_of_text(kind, catalog)
        ref = ref_of_class(kind)
        if ref.group not in catalog.groups or ref.plural not in catalog.groups[ref.group].resources:
            raise ValueError(f"{ref.kind} is not served here: add it to serve=[…]")
        return ref.resource


def _resource_of_text(text: str, catalog: Catalog) -> GroupResource:
    known = {
        f"{served.definition.api_version(version.name)}/{served.definition.names.kind}": served.definition
        for group in catalog.groups.values()
        for served in group.resources.values()
        for version in served.definition.served_versions()
    }
    split_kind(text)
    if text not in known:
        raise ValueError(f"{text} is not served here: {did_you_mean(text, known)}")
    return known[text].group_resource


def _is_own(state: RequestState) -> bool:
    """Whether it is a request of the control plane's own code."""
    return state.request.headers.get("user-agent", "").startswith(OWN_AGENT) and state.user.name == "system:apiserver"


def _error(status: int, target: Target, keywords: FaultKeywords) -> errors.StatusError:
    error = _REASONS[status](target)
    if keywords.get("message"):
        error.message = keywords["message"]
    wait_s = keywords.get("retry_after_s", error.retry_after_s)
    if wait_s:
        error.retry_after_s, error.details = wait_s, {**(error.details or {}), "retryAfterSeconds": wait_s}
    return error


def _conflict(target: Target) -> errors.StatusError:
    return (errors.AlreadyExists if target.verb == "create" else errors.Conflict)(target.group_resource, target.name)


_REASONS: dict[int, Callable[[Target], errors.StatusError]] = {
    400: lambda target: errors.BadRequest("the request was refused by a fault of the test"),
    401: lambda target: errors.Unauthorized(),
    403: lambda target: errors.Forbidden(target.group_resource, target.name, "a fault of the test"),
    404: lambda target: errors.NotFound(target.group_resource, target.name),
    409: _conflict,
    410: lambda target: errors.Expired("too old resource version: 1 (2)"),
    413: lambda target: errors.RequestEntityTooLarge("limit is 3145728"),
    422: lambda target: errors.Unprocessable(),
    429: lambda target: errors.TooManyRequests("too many requests, please try again later"),
    500: lambda target: errors.InternalError("a fault of the test"),
    503: lambda target: errors.ServiceUnavailable(
        "the server is currently unable to handle the request", retry_after_s=1
    ),
    504: lambda target: errors.Timeout("request did not complete within the allotted timeout"),
}
