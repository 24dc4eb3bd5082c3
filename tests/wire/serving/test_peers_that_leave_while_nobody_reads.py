"""A client that leaves is noticed with the next sweep, also while its connection isn't read."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from oarlock.endpoints.http import Request, Response, Stream

pytestmark = pytest.mark.anyio

WAIT_S = 10.0
UPGRADE = b"GET /up HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tls_contexts: Any) -> Any:
    return None if request.param == "plain" else tls_contexts("http/1.1")


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not done():  # noqa: ASYNC110 what is waited for is in another's hands
            await asyncio.sleep(0.001)


async def swept_until(s: Any, done: Callable[[], bool]) -> None:
    """Sweeps, in no time of the clock, until it is noticed: how long the kernel takes isn't ours to say."""

    def look() -> bool:
        s.listening.sweep(s.clock.seconds)
        return done()

    await until(look)


def paused(s: Any) -> bool:
    """Whether a connection isn't read."""
    connections = s.listening._state.connections
    return any(connection._read_control.paused for connection in connections if hasattr(connection, "_read_control"))


def reset(client: Any) -> None:
    sock = client.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()


@pytest.mark.parametrize("leaves", ["closes", "resets"])
async def test_a_tunnel_that_nobody_reads_ends_when_its_client_has_left(server: Any, tls: Any, leaves: str) -> None:
    ended = []

    async def handler(request: Request) -> Response:
        return Response(101, [("upgrade", "raw")], stream=lambda tunnel: tunnel.on_close(lambda: ended.append(1)))

    async with server(handler, tls=tls) as s:
        client = await s.connect()
        await client.send(UPGRADE)
        await client.until(b"\r\n\r\n")
        client.writer.write(b"x" * 300_000)  # more than is taken ahead, and no more than the kernel takes besides
        await until(lambda: paused(s))
        if leaves == "closes":
            client.writer.transport.abort()
        else:
            reset(client)
        await swept_until(s, lambda: bool(ended))
        await until(lambda: s.listening.connections == 0)


async def test_a_request_ends_when_its_client_reset_the_connection_behind_a_pipeline(server: Any, tls: Any) -> None:
    cancelled = []

    async def handler(request: Request) -> Response:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(1)
            raise
        return Response(204, [])

    async with server(handler, tls=tls) as s:
        client = await s.connect()
        await client.send(GET * 3)
        await until(lambda: paused(s))
        reset(client)
        await swept_until(s, lambda: bool(cancelled))
        await until(lambda: s.listening.connections == 0)


async def test_an_answer_that_goes_on_ends_with_its_client_although_more_was_asked_for(server: Any, tls: Any) -> None:
    ended = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=lambda stream: stream.on_close(lambda: ended.append(1)))

    async with server(handler, tls=tls) as s:
        client = await s.connect()
        await client.send(GET * 3)
        await client.until(b"\r\n\r\n")
        await until(lambda: paused(s))
        client.writer.transport.abort()
        await swept_until(s, lambda: bool(ended))
        await until(lambda: s.listening.connections == 0)


async def test_who_only_ends_its_half_behind_a_pipeline_still_gets_the_answers(server: Any) -> None:
    go_on = asyncio.Event()

    async def handler(request: Request) -> Response:
        await go_on.wait()
        return Response(200, [], b"here")

    async with server(handler) as s:
        client = await s.connect()
        await client.send(GET * 3)
        client.writer.write_eof()
        await until(lambda: paused(s))
        for _ in range(3):
            await s.later(1.0)
        go_on.set()
        for _ in range(2):
            assert (await client.response())[2] == b"here"


async def test_a_connection_that_is_read_is_not_asked(server: Any) -> None:
    """Twenty thousand idle connections cost no system call each in every sweep."""

    def start(stream: Stream) -> None:
        return None

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=start)

    async with server(handler) as s:
        client = await s.connect()
        await client.send(GET)
        await client.until(b"\r\n\r\n")
        [connection] = s.listening._state.connections
        asked: list[str] = []
        inner = connection._read_control._transport

        class Transport:
            def get_extra_info(self, name: str) -> Any:
                asked.append(name)
                return inner.get_extra_info(name)

        connection._read_control._transport = Transport()
        s.listening.sweep(s.clock.seconds)
        assert asked == []
        connection._read_control._transport = inner
