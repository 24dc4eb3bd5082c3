"""Subresources that answer for long: streams (``log``), and those that take over the connection (``exec``).

All checks happen before the answer begins: query, authorization, admission, existence of the object, protocol. Then a
task runs the user's method. It is cancelled when the client disconnects, on shutdown, and when the resource is
withdrawn, so that its `finally` blocks run. See also: ``channels``, the method's side; ``hooks.object_hooks``, which
makes generators. Source: k8s.io/apiserver ``endpoints/handlers`` ConnectResource.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from oarlock.endpoints import errors
from oarlock.endpoints.channels.over_pipe import GOING_AWAY, GONE, Ending, TunnelPipe
from oarlock.endpoints.channels.upgrades import (
    PORT_FORWARD,
    VERSION,
    Headers,
    WrongVersion,
    pipe_upgrade,
    port_of,
    spdy_tunnel,
    spdy_tunnel_upgrade,
    spdy_upgrade,
    wants_websocket,
    websocket_upgrade,
)
from oarlock.endpoints.http import Response, Stream, Tunnel
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute, Verb
from oarlock.endpoints.verbs.subresource import connection_context, parent_of
from oarlock.meta.errors import BadRequest, InternalError, ServiceUnavailable
from oarlock.net.futures import shared
from oarlock.registry.hooks.hook_caller import values_of
from oarlock.registry.served import ConnectHook, StreamHook
from oarlock.storage.pacing import Pacer

if TYPE_CHECKING:
    from oarlock.endpoints.channels.over_websocket import WebSocketChannels

FIRST_S = 1.0
"""How long, in seconds, an answer waits for the method to begin: until then, what it raises is an ordinary answer."""

ABANDONED_S = 30.0
"""How long, in seconds, a method waits for its answer to be sent: the client may just have disconnected."""


class LongRunning(Protocol):
    """The task. `begun` resolves when the method first sends or reads, ends, or fails."""

    begun: asyncio.Future[None]

    def cancel(self) -> None:
        """End at once: the client has disconnected."""
        ...

    def connected(self, stream: Stream) -> None:
        """The answer is being sent."""
        ...

    def leave(self) -> None:
        """End: shutdown, or the resource is withdrawn."""
        ...


async def until_begun(task: LongRunning) -> None:
    """Wait for `begun`, at most `FIRST_S`. Raises what the method raised until then."""
    try:
        await asyncio.wait((task.begun,), timeout=FIRST_S)
        if not task.begun.done():
            task.begun.set_result(None)  # too late for an ordinary answer
        task.begun.result()
    except BaseException:
        task.cancel()
        raise


def held(task: LongRunning, route: ResourceRoute) -> Callable[[Stream], None]:
    """The callback that starts the answer; from then on `task` ends with the server and the resource."""
    abandoned = asyncio.get_running_loop().call_later(ABANDONED_S, task.cancel)

    def start(stream: Stream) -> None:
        abandoned.cancel()
        book, resource = route.watches, route.resource
        task.connected(stream)
        if not stream.closed:
            book.hold(task.leave, resource)
            stream.on_close(lambda: book.release(task.leave))

    return start


log = logging.getLogger("oarlock.endpoints")

AHEAD_BYTES = 256 * 1024


def stream_text(hook: StreamHook) -> Verb:
    """The verb that answers with what the user's generator yields.

    What it raises before its first piece is an ordinary error.
    """
    headers = [("content-type", hook.media_type), ("x-content-type-options", "nosniff")]

    async def answer_with_text(state: RequestState, route: ResourceRoute) -> Response:
        arguments = values_of(hook.arguments, route.pairs)
        parent = await parent_of(state, route)
        pieces = hook.stream(state.context(), parent, arguments)
        text_stream = _TextStream(pieces, f"{route.target.group_resource}/{hook.name}")
        await until_begun(text_stream)
        return Response(200, [*headers], stream=held(text_stream, route))

    return answer_with_text


class _TextStream:
    """The task of one generator. `begun` resolves with its first piece, its end or its error."""

    def __init__(self, pieces: AsyncIterator[bytes], what: str) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self._stream: asyncio.Future[Stream] = loop.create_future()
        self._what = what
        self._task = loop.create_task(self._run(pieces))

    def cancel(self) -> None:
        self._task.cancel()

    def connected(self, stream: Stream) -> None:
        stream.on_close(self.cancel)
        self._stream.set_result(stream)

    def leave(self) -> None:
        self._stream.result().close()

    async def _run(self, pieces: AsyncIterator[bytes]) -> None:
        try:
            await self._send(pieces)
        except Exception as error:
            if not self.begun.done():
                self.begun.set_exception(error)
                return
            log.exception("%s failed halfway", self._what)
            (await self._stream).abort()
        else:
            if not self.begun.done():
                self.begun.set_result(None)
            (await self._stream).close()
        finally:
            if not self.begun.done():
                self.begun.cancel()
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    async def _send(self, pieces: AsyncIterator[bytes]) -> None:
        pacer = Pacer()
        async for piece in pieces:
            if not isinstance(piece, bytes):
                raise TypeError(f"{self._what} yielded {piece!r:.100}: it yields bytes")
            if not self.begun.done():
                self.begun.set_result(None)
            stream = await self._stream
            stream.write(piece)
            if stream.buffered > AHEAD_BYTES:
                await stream.drained()
            await pacer.turn()  # let others run: a generator that never waits would block the event loop


_Answering = Callable[[], Awaitable[int | None]]


class _End(Protocol):
    """The method's `Channels` or `Pipe`, from this verb's side."""

    def start(self, tunnel: Tunnel, ended: Callable[[Ending], None]) -> None: ...

    def finish(self, ending: Ending) -> None: ...


def load() -> type[WebSocketChannels]:
    """Import the WebSocket code: takes a tenth of a server's start, so only done where something connects."""
    from oarlock.endpoints.channels import over_websocket  # noqa: PLC0415 (see above)

    return over_websocket.WebSocketChannels


def connect(hook: ConnectHook) -> Verb:
    """The verb that passes the connection to the user's method. What that raises before is an ordinary error."""

    async def pass_connection(state: RequestState, route: ResourceRoute) -> Response:
        if any(name == "dryRun" for name, _ in route.pairs):
            raise BadRequest("dryRun is not supported")
        arguments = values_of(hook.arguments, route.pairs)
        ctx = await connection_context(state, route, arguments)
        parent = await parent_of(state, route)
        begun = asyncio.get_running_loop().create_future()
        try:
            end, headers = _agreed(state, route, hook, partial(_resolve, begun))
        except WrongVersion as error:
            response = errors.error_response(error, state)
            response.headers.append(("sec-websocket-version", VERSION))
            return response
        name = f"{route.target.group_resource}/{hook.name}"
        call = _Call(state, name, end, begun, lambda: hook.connect(ctx, parent, end, arguments))
        await until_begun(call)
        return Response(101, headers, stream=held(call, route))

    return pass_connection


def _agreed(
    state: RequestState, route: ResourceRoute, hook: ConnectHook, used: Callable[[], None]
) -> tuple[WebSocketChannels | TunnelPipe, Headers]:
    """The method's end of the connection in the protocol that was agreed on; it calls `used` when it is first used."""
    if hook.ports:
        return _agreed_on_ports(state, route, used)
    if hook.upgrade:
        name, headers = pipe_upgrade(state.request, hook.upgrade)
        return TunnelPipe(name, used), headers
    protocol, headers = websocket_upgrade(state.request, route.target)
    return load()(protocol, hook.numbered, used), headers


MOST_PORTS = 127
"""How many ports a client may name, each with two channels."""


def _agreed_on_ports(
    state: RequestState, route: ResourceRoute, used: Callable[[], None]
) -> tuple[WebSocketChannels | TunnelPipe, Headers]:
    from oarlock.endpoints.channels import forwarded_ports  # noqa: PLC0415 (as in `load`)

    request = state.request
    if PORT_FORWARD in spdy_tunnel(request):
        return forwarded_ports.SpdyPorts(used, in_messages=True), spdy_tunnel_upgrade(request, PORT_FORWARD)
    if not wants_websocket(request):
        headers = spdy_upgrade(request, route.target, PORT_FORWARD)
        return forwarded_ports.SpdyPorts(used, in_messages=False), headers
    protocol, headers = websocket_upgrade(request, route.target)
    texts = [text for name, value in route.pairs if name == "ports" for text in value.split(",")]
    ports = [port_of(text) for text in texts]
    if not (0 < len(ports) <= MOST_PORTS and all(ports)):
        raise BadRequest(f"the query parameter ports must have 1 to {MOST_PORTS} port numbers")
    return forwarded_ports.NumberedPorts(protocol, ports, used), headers


def _resolve(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        begun.set_result(None)


class _Call:
    """The task of one method. `begun` resolves when it first uses the connection, ends, or fails."""

    def __init__(
        self, state: RequestState, name: str, end: _End, begun: asyncio.Future[None], method: _Answering
    ) -> None:
        loop = asyncio.get_running_loop()
        self.begun = begun
        self._open: asyncio.Future[None] = loop.create_future()
        self._state = state
        self._name = name
        self._ending: Ending | None = None
        self._end = end
        self._task = loop.create_task(self._run(method))

    def cancel(self) -> None:
        """The connection won't be made."""
        self._task.cancel()

    def connected(self, stream: Stream) -> None:
        tunnel = cast(Tunnel, stream)
        if self._task.done():
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
        if self._ending is None and not self._task.done():
            self._ending = ending
            self._task.cancel()

    async def _run(self, method: _Answering) -> None:
        try:
            ending = await self._outcome(method)
        finally:
            if not self.begun.done():
                self.begun.cancel()
        if ending is None:
            return
        try:
            await shared(self._open)
        except asyncio.CancelledError:
            if not self._open.done():
                raise
        self._ending = self._ending or ending  # from here on nothing may cancel it
        self._end.finish(self._ending)

    async def _outcome(self, method: _Answering) -> Ending | None:
        """How the method ended; None when that was an answer of its own."""
        try:
            code = await method()
        except asyncio.CancelledError:
            if self._ending is None:
                if self._task.cancelling():
                    raise
                return self._failed(RuntimeError("it was cancelled from within"))
            return self._ending
        except Exception as error:
            if self._ending is not None or self._task.cancelling():
                log.error("%s failed after its connection had ended", self._name, exc_info=error)
                return self._ending
            if not self.begun.done():
                self.begun.set_exception(error)
                return None
            return self._failed(error)
        _resolve(self.begun)
        return Ending(exit_code=code or 0)

    def _failed(self, error: Exception) -> Ending:
        _resolve(self.begun)
        known = errors.as_status_error(error, self._state)
        if known is None:
            log.error("%s failed halfway", self._name, exc_info=error)
            known = InternalError("the server's log has more")
        return Ending(error=known)
