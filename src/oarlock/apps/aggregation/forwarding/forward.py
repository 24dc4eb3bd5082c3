"""Carries out a request at a backend, and streams its answer.

See also: `headers`, what the backend is told; `pool`, connections to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from oarlock.apps.aggregation.forwarding.connection import AnswerHead, BackendError, ServerConnection
from oarlock.apps.aggregation.forwarding.headers import passed_on, query_of, request_head, upgrade_of
from oarlock.apps.aggregation.forwarding.pool import Address, BackendPool, NoPlace
from oarlock.endpoints.http import BrokenAnswer, BrokenBody, Request, Response, Stream, Tunnel
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.dataclass import dataclass
from oarlock.server.filters.plain import plain

__all__ = ["forward"]

MOST_WHOLE = 64 * 1024
"""A body of at most so many bytes is read before the backend is asked, and sent in one piece with the head."""

SWITCHED = "the backend switched protocols without being asked to\n"
REDIRECT = "the backend attempted to redirect this request, which is not permitted"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FRAMING = frozenset({"content-length", "date"})


@dataclass(slots=True)
class _Exchange:
    """A request on its connection, which is given back once."""

    pool: BackendPool
    address: Address
    connection: ServerConnection
    upload: asyncio.Task[None] | None = None
    ended: bool = False

    def end(self) -> None:
        """The connection may carry another request. Only the first call counts: others may have it by then."""
        if not self.ended:
            self.ended = True
            if self.upload is not None and not self.upload.done():
                self.upload.cancel()  # answered before its body was sent
                self.connection.abort()
            self.pool.give_back(self.address, self.connection)


async def forward(pool: BackendPool, address: Address, state: RequestState) -> Response:
    """The backend's answer. One that can't be reached, or breaks off before its answer, is a 503."""
    request = state.request
    declared = _declared_length(request)
    streamed = request.has_body and (declared is None or declared > MOST_WHOLE)
    body = b"" if streamed else await request.read()
    pairs = state.route.pairs if state.route is not None else ()
    query = query_of(pairs)
    target = f"{request.path}?{query}" if query else request.path
    host = f"{address.server_name or address.host}:{address.port}"
    try:
        head = request_head(request, state.user, target, host, declared if streamed else len(body))
        if streamed:
            exchange, answer = await _ask_streamed(pool, address, head, state, chunked=declared is None)
        else:
            exchange, answer = await _ask(pool, address, head + body, state)
    except NoPlace as error:
        return _busy(error)
    except BackendError as error:
        return plain(503, f"error trying to reach service: {error}\n")
    except ValueError as error:
        return plain(400, f"{error}\n")
    if answer.status == 101 and not upgrade_of(request.all_headers):
        exchange.connection.abort()
        exchange.end()
        return plain(502, SWITCHED)
    if answer.status == 101:
        try:
            pool.lasts(exchange.connection)
        except NoPlace as error:
            exchange.connection.abort()
            exchange.end()
            return _busy(error)
        return _upgraded(exchange, answer)
    if 300 <= answer.status < 400 and any(name == "location" and value for name, value in answer.headers):
        exchange.connection.abort()
        exchange.end()
        return plain(502, REDIRECT)
    headers = [line for line in passed_on(answer.headers) if line[0] not in _FRAMING]
    whole = exchange.connection.taken()
    if whole is not None:
        exchange.end()
        return Response(answer.status, headers, whole)
    response = Response(answer.status, headers, _streamed(exchange))
    response.on_sent(lambda _: exchange.end())
    return response


def _busy(error: NoPlace) -> Response:
    response = plain(429, f"{error}, please try again later\n")
    response.headers.append(("retry-after", "1"))
    return response


async def _ask(pool: BackendPool, address: Address, data: bytes, state: RequestState) -> tuple[_Exchange, AnswerHead]:
    """Send a request on a connection, and on a fresh one if that has meanwhile been closed by the backend.

    One that the backend may have acted on isn't sent twice, unless it changes nothing. Raises `BackendError`.
    """
    method = state.request.method
    for fresh in (False, True):
        connection = await pool.take(address, fresh=fresh, owner=state.user.name, lasting=state.is_long_running)
        exchange = _Exchange(pool, address, connection)
        used = connection.used
        try:
            return exchange, await connection.ask(data, without_body=method == "HEAD")
        except BackendError as error:
            exchange.end()
            if fresh or not used or not (error.unsent and method in _SAFE):
                raise
        except BaseException:
            exchange.end()
            raise
    raise AssertionError("the second attempt returns or raises")


def _declared_length(request: Request) -> int | None:
    """What the client says of its body; None for a body that ends when it ends."""
    if "transfer-encoding" in request.headers:
        return None
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdigit() else None


async def _ask_streamed(
    pool: BackendPool, address: Address, head: bytes, state: RequestState, *, chunked: bool
) -> tuple[_Exchange, AnswerHead]:
    """Send a request while its body arrives, on a connection that can't have been closed meanwhile.

    The body goes on behind the answer's head, until the answer ends. Raises `BackendError`, `BrokenBody`.
    """
    request = state.request
    connection = await pool.take(address, fresh=True, owner=state.user.name, lasting=state.is_long_running)
    exchange = _Exchange(pool, address, connection)
    asking = asyncio.ensure_future(connection.ask(head, without_body=request.method == "HEAD"))
    exchange.upload = asyncio.ensure_future(_upload(request, connection, chunked))
    exchange.upload.add_done_callback(_ended)
    try:
        return exchange, await asking
    except BackendError:
        broken = exchange.upload.exception() if exchange.upload.done() and not exchange.upload.cancelled() else None
        exchange.end()
        if isinstance(broken, BrokenBody):
            raise broken from None
        raise
    except BaseException:
        asking.cancel()
        exchange.end()
        raise


async def _upload(request: Request, connection: ServerConnection, chunked: bool) -> None:
    """Send the body as fast as the backend takes it. One that breaks off cuts the connection."""
    try:
        async for piece in request.pieces():
            await connection.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            await connection.write(b"0\r\n\r\n")
    except BackendError:
        pass  # the answer tells, or there is none
    except BrokenBody:
        connection.abort()
        raise


async def _streamed(exchange: _Exchange) -> AsyncIterator[bytes]:
    try:
        async for piece in exchange.connection.pieces():
            yield piece
    except BackendError as error:
        raise BrokenAnswer(f"{exchange.address.server_name}: {error}") from None
    finally:
        exchange.end()


def _upgraded(exchange: _Exchange, answer: AnswerHead) -> Response:
    """Raw bytes both ways, until one side ends."""
    connection = exchange.connection

    async def up(tunnel: Tunnel) -> None:
        while data := await tunnel.read():
            await connection.write(data)

    async def down(tunnel: Tunnel) -> None:
        async for piece in connection.pieces():
            tunnel.write(piece)
            await tunnel.drained()
        tunnel.close()

    async def carry(tunnel: Tunnel) -> None:
        tasks = [asyncio.ensure_future(one(tunnel)) for one in (up, down)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            connection.abort()
            exchange.end()
            tunnel.close()

    headers = passed_on(answer.headers)
    headers.append(("upgrade", upgrade_of(answer.headers)))
    response = Response(101, headers, stream=_in_task(carry))
    response.on_sent(lambda _: exchange.end())
    return response


_running: set[asyncio.Task[None]] = set()
"""Tasks of open tunnels: a loop holds its tasks weakly."""


def _in_task(work: Callable[[Any], Coroutine[Any, Any, None]]) -> Callable[[Stream], None]:
    def begin(stream: Stream) -> None:
        task = asyncio.ensure_future(work(stream))
        _running.add(task)

        def cut() -> None:
            task.cancel()

        stream.on_close(cut)
        task.add_done_callback(_ended)

    return begin


def _ended(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()
