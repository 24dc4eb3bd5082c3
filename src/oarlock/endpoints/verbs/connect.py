"""GET or POST of a subresource that takes over the connection: ``exec``, ``attach``, ``port-forward`` and the like.

All checks happen before the upgrade: query, authorization, admission, existence of the object, protocol. Then a task
runs the user's method. It is cancelled when the client disconnects, on shutdown, and when the resource is withdrawn, so
that its `finally` blocks run. See also: ``channels``, the method's side. Source: k8s.io/apiserver
``endpoints/handlers`` ConnectResource.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, cast

from oarlock.endpoints import respond
from oarlock.endpoints.channels.end import GOING_AWAY, GONE, Ending
from oarlock.endpoints.channels.over_pipe import TunnelPipe
from oarlock.endpoints.channels.upgrades import VERSION, Headers, WrongVersion, pipe_upgrade, websocket_upgrade
from oarlock.endpoints.http import Response, Stream, Tunnel
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.route import Route
from oarlock.endpoints.verbs.long_running import held, until_begun
from oarlock.endpoints.verbs.subresource import parent_of
from oarlock.meta.context import Context
from oarlock.meta.errors import BadRequest, InternalError, ServiceUnavailable
from oarlock.registry.gate import AdmissionRequest
from oarlock.registry.parameters import values_of
from oarlock.registry.served import ConnectHook
from oarlock.registry.workers import at_once

if TYPE_CHECKING:
    from oarlock.endpoints.channels.over_websocket import WebSocketChannels

__all__ = ["connect", "load"]

log = logging.getLogger("oarlock.endpoints")


class _End(Protocol):
    """The method's `Channels` or `Pipe`, from this verb's side."""

    def start(self, tunnel: Tunnel, ended: Callable[[Ending], None]) -> None: ...

    def finish(self, ending: Ending) -> None: ...


def load() -> type[WebSocketChannels]:
    """Import the WebSocket code: takes a tenth of a server's start, so only done where something connects."""
    from oarlock.endpoints.channels import over_websocket  # noqa: PLC0415 (see above)

    return over_websocket.WebSocketChannels


async def connect(state: RequestState, route: Route) -> Response:
    """Pass the connection to the user's method. What it raises before it uses it is an ordinary error."""
    assert route.resource is not None
    hook = route.resource.served.hooks.subresources[route.target.subresource]
    assert isinstance(hook, ConnectHook)
    if any(name == "dryRun" for name, _ in route.pairs):
        raise BadRequest("dryRun is not supported")
    given = values_of(hook.arguments, route.pairs)
    ctx = state.context(options=given)
    await _admitted(ctx, route)
    parent = await parent_of(state, route)
    call = _Call(state, f"{route.target.group_resource}/{hook.name}")
    try:
        end, headers = _agreed(state, route, hook, call)
    except WrongVersion as error:
        response = respond.error_response(error, state)
        response.headers.append(("sec-websocket-version", VERSION))
        return response
    call.run(lambda: hook.connect(ctx, parent, end, given), end)
    await until_begun(call)
    return Response(101, headers, stream=held(call, route))


async def _admitted(ctx: Context, route: Route) -> None:
    """Check permission for ``create``, as read access mustn't suffice; then call admission, without an object."""
    assert route.gate is not None
    assert route.resource is not None
    if ctx.target.verb != "create":  # KEP-4006: a WebSocket is asked for with GET
        await route.gate.may(ctx, "create")
    reviewers = route.gate.reviewers(AdmissionRequest(ctx, "CONNECT", route.resource.served))
    if reviewers is not None:
        await reviewers.mutate(None, None, at_once)
        await reviewers.validate(None, None, at_once)


def _agreed(
    state: RequestState, route: Route, hook: ConnectHook, call: _Call
) -> tuple[WebSocketChannels | TunnelPipe, Headers]:
    if hook.upgrade:
        name, headers = pipe_upgrade(state.request, hook.upgrade)
        return TunnelPipe(name, call.used), headers
    protocol, headers = websocket_upgrade(state.request, route.target)
    return load()(protocol, hook.numbered, call.used), headers


class _Call:
    """The task of one method. `begun` resolves when it first uses the connection, ends, or fails."""

    def __init__(self, state: RequestState, what: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = self._loop.create_future()
        self._open: asyncio.Future[None] = self._loop.create_future()
        self._x = state
        self._what = what
        self._ending: Ending | None = None
        self._task: asyncio.Task[None] | None = None
        self._end: _End | None = None

    def used(self) -> None:
        if not self.begun.done():
            self.begun.set_result(None)

    def run(self, method: Callable[[], Awaitable[int | None]], end: _End) -> None:
        self._end = end
        self._task = self._loop.create_task(self._run(method))

    def cancel(self) -> None:
        """The connection won't be made."""
        if self._task is not None:
            self._task.cancel()

    def connected(self, stream: Stream) -> None:
        assert self._end is not None
        tunnel = cast(Tunnel, stream)
        if self._task is None or self._task.done():
            tunnel.abort()
            return
        self._open.set_result(None)
        self._end.start(tunnel, self._stop)
        tunnel.on_close(lambda: self._stop(GONE))

    def leave(self) -> None:
        """Shutdown, or the resource is withdrawn: cancel the method, then tell the client."""
        error = ServiceUnavailable("the server ends this connection: it is shutting down, or no longer serves this")
        self._stop(Ending(GOING_AWAY, "the server ends this connection", error=error))

    def _stop(self, ending: Ending) -> None:
        if self._ending is None and self._task is not None and not self._task.done():
            self._ending = ending
            self._task.cancel()

    async def _run(self, method: Callable[[], Awaitable[int | None]]) -> None:
        try:
            ending = await self._outcome(method)
        finally:
            if not self.begun.done():
                self.begun.cancel()
        if ending is None:
            return
        try:
            await asyncio.shield(self._open)
        except asyncio.CancelledError:
            if not self._open.done():
                raise
        self._ending = self._ending or ending  # from here on nothing may cancel it
        assert self._end is not None
        self._end.finish(self._ending)

    async def _outcome(self, method: Callable[[], Awaitable[int | None]]) -> Ending | None:
        """How the method ended; None when that was an answer of its own."""
        try:
            code = await method()
        except asyncio.CancelledError:
            if self._ending is None:
                if self._task is None or self._task.cancelling():
                    raise
                return self._failed(RuntimeError("it was cancelled from within"))
            return self._ending
        except Exception as error:
            if self._ending is not None or (self._task is not None and self._task.cancelling()):
                log.error("%s failed after its connection had ended", self._what, exc_info=error)
                return self._ending
            if not self.begun.done():
                self.begun.set_exception(error)
                return None
            return self._failed(error)
        self.used()
        return Ending(exit_code=code or 0)

    def _failed(self, error: Exception) -> Ending:
        self.used()
        known = respond.as_status_error(error, self._x)
        if known is None:
            log.error("%s failed halfway", self._what, exc_info=error)
            known = InternalError("the server's log has more")
        return Ending(error=known)
