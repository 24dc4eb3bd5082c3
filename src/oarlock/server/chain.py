"""The order of filters that every request passes, outermost first, and the time a request has.

The order is part of the API: every answer has an audit id; 401 comes before 429, which comes before 403; a server that
is shutting down says so before it checks credentials. It is three functions, one in the other: `_Chain.answer`, what
every answer has; `_Chain.carry_out`, what must end in time; `_Chain.begin`, what a known user's
request passes before it is dispatched.

`within` limits requests to the server's timeout, or to a shorter ``?timeout=``; not watches and streams. A request that
never waits needs neither timer nor task: only when the rest of the chain first suspends, `_Timed` takes over. Source:
k8s.io/apiserver ``endpoints/filters/request_deadline`` and ``server/filters/timeout``.

See also: ``filters``, the other steps; ``endpoints.router``, at the end of the chain.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import UNLIMITED, Handler, Request, Response, Unsent
from oarlock.endpoints.request_state import ANONYMOUS, RequestState
from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, InternalError, StatusError, Unauthorized
from oarlock.meta.options_parse import parse_query
from oarlock.meta.times import TimeError, parse_go_duration
from oarlock.policy.authn.authenticator import NOBODY, Anonymous, Authenticator
from oarlock.policy.authn.front_proxy_headers import FrontProxyHeaders
from oarlock.policy.authz.authorizer import AccessCounts, AlwaysAllow, Authorizer
from oarlock.server.filters.access import Attempted, authentication, authorization, identity_headers, uncounted
from oarlock.server.filters.answer_headers import Cors, add_audit_id, add_warnings, own_audit_id, uuid_pool
from oarlock.server.filters.audit import Audit
from oarlock.server.filters.fairness import FairnessFilter, MaxInFlight
from oarlock.server.filters.filter import FilterStep, Finish, Leaving, Next, Shutdown
from oarlock.server.filters.memory import MemoryReserve

if TYPE_CHECKING:
    from oarlock.server.pages.static_files import StaticFiles

LAST_ANSWER = ("connection", "close")
"""Ends a connection of HTTP/2 after this answer: an expensive protocol isn't for those whom nobody knows."""


def error_answer(error: Exception, state: RequestState) -> Response:
    """The Status of a known error. Any other is a bug, and raised again.

    Who isn't known gets one answer on a connection of HTTP/2: `LAST_ANSWER`.
    """
    response = error_response(error, state)
    if state.request.http2 and state.user is ANONYMOUS:
        response.headers.append(LAST_ANSWER)
    error.__traceback__ = None  # an error that a cached route raises again would keep the request's frames
    return response


log = logging.getLogger("oarlock.server")

LOGGED = 500
"""So many characters of a path are logged."""

TEXT = "This request caused apiserver to panic. Look in the logs for details."


def panic_answer(error: Exception, state: RequestState) -> Response:
    """Logs an exception with its traceback; the answer is 500."""
    text = "%s %s failed, audit id %s"
    info = (type(error), error, _below_the_chain(error))
    log.error(text, state.request.method, state.request.path[:LOGGED], state.audit_id, exc_info=info)
    return error_response(InternalError(TEXT), state)


def _below_the_chain(error: Exception) -> TracebackType | None:
    """The traceback without the filters, which are the same for every request."""
    step = start = error.__traceback__
    while step is not None and step.tb_next is not None:
        if step.tb_frame.f_globals.get("__name__", "").startswith("oarlock.server."):
            start = step.tb_next
        step = step.tb_next
    return start


def _unobserved(state: RequestState, response: Response) -> None:
    """Records no metrics."""


@dataclass(frozen=True, slots=True)
class ChainConfig:
    """The parameters of the filters of one server."""

    resolve: Callable[[RequestState], None]
    authenticator: Authenticator
    authorizer: Authorizer = field(default_factory=AlwaysAllow)
    access: AccessCounts = field(default_factory=AccessCounts)
    observe: Callable[[RequestState, Response], None] = _unobserved
    shutdown: Shutdown = field(default_factory=Shutdown)
    max_in_flight: MaxInFlight | FairnessFilter | None = field(default_factory=MaxInFlight)
    memory: MemoryReserve | None = None
    anonymous: Anonymous = NOBODY
    front_proxy: FrontProxyHeaders = field(default_factory=FrontProxyHeaders)
    audit: Audit | None = None
    cors: Cors | None = None
    files: Sequence[StaticFiles] = ()
    connection_headers: Sequence[Finish] = ()
    audiences: frozenset[str] = frozenset()
    attempted: Attempted = uncounted
    request_timeout_s: float = 60.0
    random: Callable[[int], bytes] = os.urandom


TIMED_OUT = (
    b'{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout",'
    b'"reason":"Timeout","details":{},"code":504}'
)


def build(config: ChainConfig, dispatch: Next, clock: Clock, unsent: Unsent = UNLIMITED) -> Handler:
    """The filters around `dispatch`, as what is called with every request."""
    return _Chain(config, dispatch, clock, unsent).answer


class _Chain:
    """See the module. Functions call one another, and not filters that are given the rest, as each level takes time."""

    def __init__(self, config: ChainConfig, dispatch: Next, clock: Clock, unsent: Unsent) -> None:
        self._config = config
        self._dispatch = dispatch
        self._clock = clock
        self._unsent = unsent
        self._uuid = uuid_pool(config.random)
        self._authenticate = authentication(config.authenticator, config.anonymous, config.audiences, config.attempted)
        self._in_flight = config.max_in_flight
        begin = None if self._in_flight is None else self._in_flight.begin
        authorize = authorization(config.authorizer, config.access)
        follow = identity_headers(config.front_proxy, config.authorizer)
        steps: tuple[FilterStep | None, ...] = (follow, begin, authorize, config.memory)
        self._steps = tuple(step for step in steps if step is not None)

    async def answer(self, request: Request) -> Response:
        config, state = self._config, RequestState(request, self._clock, self._unsent)
        given = request.headers.get("audit-id")
        state.audit_id = (given and own_audit_id(given)) or self._uuid()
        try:
            try:
                config.resolve(state)
            except StatusError as error:
                response = error_response(error, state)
            else:
                refusal = config.shutdown(state) if config.shutdown.leaving is not Leaving.NO else None
                answer = refusal or within(state, config.request_timeout_s, self.carry_out, self.refuse)
                response = answer if isinstance(answer, Response) else await answer
        except Exception as error:
            response = panic_answer(error, state)
        config.observe(state, response)
        response.on_sent(state.sent)
        for finish in config.connection_headers:
            finish(state, response)
        add_audit_id(response, state.audit_id)
        return response

    async def refuse(self, state: RequestState, error: StatusError) -> Response:
        """The answer to a request that is refused before it is known who sends it: it is recorded too."""
        if self._config.audit is not None:
            await self._config.audit.refused(state, error)
        return error_response(error, state)

    async def carry_out(self, state: RequestState) -> Response:
        audit, cors = self._config.audit, self._config.cors
        response = None if cors is None else cors.preflight(state)
        for files in self._config.files:
            response = response or files.respond(state)
        if response is None:
            try:
                try:
                    asking = self._authenticate(state)
                    if asking is not None:
                        await asking
                    if audit is None:
                        answer = self.begin(state)
                        response = answer if isinstance(answer, Response) else await answer
                    else:
                        response = await audit.record(state, self.admit)
                    if state.user is ANONYMOUS and state.request.http2:
                        response.headers.append(LAST_ANSWER)
                except Exception as error:
                    if audit is not None and isinstance(error, Unauthorized):
                        await audit.unauthenticated(state, error)
                    response = error_answer(error, state)
            except BaseException:
                release_slot, state.release_slot = state.release_slot, None
                if release_slot is not None:
                    release_slot(False)
                raise
            if state.release_slot is not None and self._in_flight is not None:
                self._in_flight.answered(state, response)
        if cors is not None:
            cors.allow(state, response)
        if state.notes.warnings:
            add_warnings(state, response)
        return response

    async def admit(self, state: RequestState) -> Response:
        answer = self.begin(state)
        return answer if isinstance(answer, Response) else await answer

    def begin(self, state: RequestState) -> Response | Awaitable[Response]:
        for step in self._steps:
            answer = step(state)
            if answer is not None:
                return answer if isinstance(answer, Response) else self._go_on(state, step, answer)
        return self._dispatch(state)

    async def _go_on(self, state: RequestState, waiting: FilterStep, answers: Awaitable[Response | None]) -> Response:
        """The steps from the one on that has to wait."""
        refusal = await answers
        for step in self._steps[self._steps.index(waiting) + 1 :]:
            if refusal is None:
                answer = step(state)
                refusal = answer if answer is None or isinstance(answer, Response) else await answer
        return await self._dispatch(state) if refusal is None else refusal


Refuse = Callable[[RequestState, StatusError], Awaitable[Response]]
"""Makes the answer to a request that is refused before it is known who sends it."""


def within(state: RequestState, timeout_s: float, rest: Next, refuse: Refuse) -> Response | Awaitable[Response]:
    """The answer of the rest of the chain: at once, if that doesn't wait.

    `timeout_s` counts from the receipt; ``?timeout=`` can only make it shorter. One that can't be read is refused.
    """
    request = state.request
    if state.is_long_running:
        return rest(state)
    allowed_s = timeout_s
    if "timeout=" in request.query:
        try:
            allowed_s = _requested_timeout(request.query, timeout_s)
        except BadRequest as error:
            return refuse(state, error)
    state.deadline = request.received + allowed_s
    coroutine = rest(state)
    try:
        waits_for = coroutine.send(None)
    except StopIteration as done:
        response: Response = done.value
        return response
    return _Timed(coroutine, waits_for, state.deadline - state.clock.monotonic())


def _requested_timeout(query: str, most_s: float) -> float:
    """The timeout in seconds; 0, less, or more than `most_s` in ``?timeout=`` mean `most_s`."""
    for key, value in parse_query(query):
        if key == "timeout" and value:
            try:
                timeout_s = parse_go_duration(value)
            except TimeError as error:
                raise BadRequest(f"invalid timeout specified in the request URL - {error}") from None
            return timeout_s if 0 < timeout_s < most_s else most_s
    return most_s


class _Timed:
    """Runs a suspended coroutine until it ends or the time is up.

    It passes on the futures that the coroutine waits for, so the request's task waits for them directly. There is no
    task yet when the timer starts, so the timer cancels the future, not the task.
    """

    __slots__ = ("_cut", "_remaining_s", "_rest", "_waits_for", "late")

    def __init__(self, rest: Coroutine[Any, Any, Response], waits_for: Any, remaining_s: float) -> None:
        self._rest = rest
        self._waits_for = waits_for
        self._remaining_s = remaining_s
        self._cut = False
        self.late = False

    def __await__(self) -> Generator[Any, None, Response]:
        timer = asyncio.get_running_loop().call_later(max(0.0, self._remaining_s), self._expire)
        cancelled = False
        try:
            while True:
                error: BaseException | None = None
                try:
                    yield self._waits_for
                except BaseException as caught:
                    error = caught
                from_outside = error is not None and not self._cut
                self._cut = False
                if self.late and not cancelled:
                    cancelled, error = True, error or asyncio.CancelledError()
                try:
                    self._waits_for = self._rest.throw(error) if error is not None else self._rest.send(None)
                except StopIteration as done:
                    response: Response = done.value
                    return response
                except asyncio.CancelledError:
                    if cancelled and not from_outside:
                        return _timed_out()
                    raise
        finally:
            timer.cancel()

    def _expire(self) -> None:
        """Cancel the future that is waited for, as cancelling a task does."""
        self.late = True
        if asyncio.isfuture(self._waits_for):
            self._cut = self._waits_for.cancel()


def _timed_out() -> Response:
    return Response(504, [("content-type", "text/plain; charset=utf-8")], TIMED_OUT)
