"""The listener: addresses, draining, closing."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

import pytest

from oarlock.endpoints.http import Request, Response, Stream
from oarlock.server.serving.config import ServingConfig
from oarlock.server.serving.listener import AddressInUse, CannotListen, serve
from oarlock.testing.contracts.support import eventually

pytestmark = pytest.mark.anyio


async def test_an_address_in_use_is_named(server: Any) -> None:
    async with server() as s:
        with pytest.raises(AddressInUse, match=f"127.0.0.1:{s.listening.port}"):
            await serve(lambda _: None, ServingConfig(port=s.listening.port), s.clock)  # type: ignore[arg-type, return-value]


async def test_an_address_that_is_not_ours(server: Any) -> None:
    async with server() as s:
        with pytest.raises(CannotListen, match=r"192\.0\.2\.1:0"):
            await serve(lambda _: None, ServingConfig(host="192.0.2.1"), s.clock)  # type: ignore[arg-type, return-value]


async def test_an_inherited_socket(server: Any) -> None:
    async with server() as s:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.bind(("127.0.0.1", 0))
        sock.listen()

        async def handler(request: Request) -> Response:
            return Response(200, [], b"inherited")

        listening = await serve(handler, ServingConfig(sockets=(sock,)), s.clock)
        assert listening.port == sock.getsockname()[1]
        assert listening.sockets == (sock,)
        reader, writer = await asyncio.open_connection("127.0.0.1", listening.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"inherited")
        writer.close()
        await listening.close()


async def test_nagle_is_off(server: Any) -> None:
    async with server() as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.response()
        (connection,) = s.listening._state.connections
        sock = connection._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_draining_closes_idle_connections_and_lets_requests_finish(server: Any) -> None:
    asked, finish = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> Response:
        if request.path == "/slow":
            asked.set()
            await finish.wait()
        return Response(200, [], b"done")

    async with server(handler) as s:
        fresh, idle, busy, begun = [await s.connect() for _ in range(4)]
        await idle.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await idle.response()
        await begun.send(b"GET / HTTP/1.1\r\nHost:")
        await asyncio.sleep(0.005)
        await busy.send(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        await asked.wait()  # and what was sent before that has arrived
        s.listening.stop_accepting()
        assert s.listening.sockets == ()
        with pytest.raises(ConnectionRefusedError):
            await s.connect()
        assert await s.listening.drain(0.01) == 2
        assert await fresh.rest() == b""
        assert await idle.rest() == b""
        drained = asyncio.ensure_future(s.listening.drain(5))
        finish.set()
        await begun.send(b" h\r\n\r\n")
        for client in (busy, begun):
            status, headers, body = await client.response()
            assert (status, headers["connection"], body) == (200, "close", b"done")
            assert await client.rest() == b""
            client.close()
        assert await drained == 0


async def test_closing_cuts_what_is_left(server: Any) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.until(b"\r\n\r\n")
        assert await s.listening.drain(0.001) == 1
        await s.listening.close()
        assert streams[0].closed
        assert s.listening.connections == 0
        assert await client.rest() == b""


async def test_more_connections_than_allowed_wait(server: Any) -> None:
    async with server(max_connections=2) as s:
        first, second, third = [await s.connect() for _ in range(3)]
        for client in (first, second):
            await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert (await client.response())[0] == 200
        await third.send(b"GET /third HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.sleep(0.005)
        assert s.listening.connections == 2
        first.close()
        await eventually(lambda: s.listening.connections == 1, "the server doesn't notice")
        s.listening._resume_accepting()
        assert (await third.response())[2] == b"GET /third  0"


async def test_a_client_that_sleeps_delays_nobody(server: Any, tls_contexts: Any) -> None:
    """It has an idle connection over TLS and reads nothing, so it doesn't answer the goodbye either."""
    contexts = tls_contexts("http/1.1")
    client_side = contexts[1]
    async with server(tls=contexts) as s:
        address = ("127.0.0.1", s.listening.port)
        loop = asyncio.get_running_loop()

        def used() -> ssl.SSLSocket:
            asked = socket.create_connection(address, timeout=60)
            wrapped = client_side.wrap_socket(asked, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
            wrapped.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert wrapped.recv(65536).startswith(b"HTTP/1.1 200")
            return wrapped

        sleeping = await loop.run_in_executor(None, used)
        assert s.listening.connections == 1
        assert await s.listening.drain(60) == 0  # the clock stands still: no time limit cuts it
        assert await loop.run_in_executor(None, sleeping.recv, 65536) == b""  # a goodbye, not a reset
        sleeping.close()


async def test_a_sleeping_client_of_http2_has_a_second_to_hear_of_it(server: Any, tls_contexts: Any) -> None:
    contexts = tls_contexts("h2")
    async with server(tls=contexts) as s:
        loop = asyncio.get_running_loop()

        def greeted() -> ssl.SSLSocket:
            asked = socket.create_connection(("127.0.0.1", s.listening.port), timeout=60)
            wrapped = contexts[1].wrap_socket(asked, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
            wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
            assert wrapped.recv(65536)
            return wrapped

        def rest(wrapped: ssl.SSLSocket) -> bytes:
            found = b""
            while piece := wrapped.recv(65536):
                found += piece
            return found

        sleeping = await loop.run_in_executor(None, greeted)
        assert await s.listening.drain(0.01) == 1
        await s.later(1.0)  # and not longer: what it doesn't answer isn't waited for
        assert s.listening.connections == 0
        assert (await loop.run_in_executor(None, rest, sleeping)).count(bytes((7, 0, 0, 0, 0, 0))) == 2  # GOAWAY
        sleeping.close()
