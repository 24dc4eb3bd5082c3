"""Limits the duration of requests to the server's timeout, or to a shorter ``?timeout=``; not of watches and streams.

A request that never waits needs neither timer nor task: only when the rest of the chain first suspends, `_Timed` takes
over. Source: k8s.io/apiserver ``endpoints/filters/request_deadline`` and ``server/filters/timeout``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.errors import BadRequest, StatusError
from oarlock.meta.options_parse import parse_query
from oarlock.meta.times import TimeError, parse_go_duration
from oarlock.server.filters.filter import Next

__all__ = ["within"]

TIMED_OUT = (
    b'{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout",'
    b'"reason":"Timeout","details":{},"code":504}'
)


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
            allowed_s = _asked_for(request.query, timeout_s)
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


def _asked_for(query: str, most_s: float) -> float:
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
