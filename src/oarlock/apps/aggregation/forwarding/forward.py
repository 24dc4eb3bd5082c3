"""Carries out a request at a backend, and streams its answer.

See also: `headers`, what the backend is told; `pool`, connections to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from oarlock.apps.aggregation.forwarding.connection import AnswerHead, BackendError, ServerConnection
from oarlock.apps.aggregation.forwarding.headers import passed_on, query_of, request_head, upgrade_of
from oarlock.apps.aggregation.forwarding.pool import Address, BackendPool
from oarlock.endpoints.http import Response, Stream, Tunnel
from oarlock.endpoints.request_state import RequestState
from oarlock.server.filters.plain import plain

__all__ = ["forward"]

REDIRECT = "the backend attempted to redirect this request, which is not permitted"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FRAMING = frozenset({"content-length", "date"})


@dataclass(slots=True)
class _Exchange:
    """A request on its connection, which is given back once."""

    pool: BackendPool
    address: Address
    connection: ServerConnection
    ended: bool = False

    def end(self) -> None:
        """The connection may carry another request. Only the first call counts: others may have it by then."""
        if not self.ended:
            self.ended = True
            self.pool.give_back(self.address, self.connection)


async def forward(pool: BackendPool, address: Address, state: RequestState) -> Response:
    """The backend's answer. One that can't be reached, or breaks off before its answer, is a 503."""
    request = state.request
    body = await request.read()
    pairs = state.route.pairs if state.route is not None else ()
    query = query_of(pairs)
    target = f"{request.path}?{query}" if query else request.path
    host = f"{address.server_name or address.host}:{address.port}"
    try:
        head = request_head(request, state.user, target, host, len(body))
        exchange, answer = await _ask(pool, address, head + body, request.method)
    except BackendError as error:
        return plain(503, f"error trying to reach service: {error}\n")
    except ValueError as error:
        return plain(400, f"{error}\n")
    if answer.status == 101:
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


async def _ask(pool: BackendPool, address: Address, data: bytes, method: str) -> tuple[_Exchange, AnswerHead]:
    """Send a request on a connection, and on a fresh one if that has meanwhile been closed by the backend.

    One that the backend may have acted on isn't sent twice, unless it changes nothing. Raises `BackendError`.
    """
    for fresh in (False, True):
        connection = await pool.take(address, fresh=fresh)
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


async def _streamed(exchange: _Exchange) -> AsyncIterator[bytes]:
    try:
        async for piece in exchange.connection.pieces():
            yield piece
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
