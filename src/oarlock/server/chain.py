"""The order of filters that every request passes, outermost first.

The order is part of the API: every answer has an audit id; 401 comes before 429, which comes before 403; a server that
is shutting down says so before it checks credentials. It is three functions, one in the other: `_Chain.answer`, what
every answer has; `_Chain.carry_out`, what must end in time; `_Chain.begin`, what a known user's
request passes before it is dispatched.

See also: ``filters``, one file per filter; ``endpoints.router``, at the end of the chain.
"""

from __future__ import annotations

from collections.abc import Awaitable

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import UNLIMITED, Handler, Request, Response, Unsent
from oarlock.endpoints.request_state import ANONYMOUS, RequestState
from oarlock.meta.context import Clock
from oarlock.meta.errors import StatusError, Unauthorized
from oarlock.server.chain_config import ChainConfig
from oarlock.server.filters.access import authentication, authorization, identity_headers
from oarlock.server.filters.answer_headers import add_audit_id, add_warnings, own_audit_id, uuid_pool
from oarlock.server.filters.deadline import within
from oarlock.server.filters.filter import FilterStep, Next
from oarlock.server.filters.recovery import LAST_ANSWER, error_answer, panic_answer
from oarlock.server.filters.shutdown import Leaving

__all__ = ["build"]


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
