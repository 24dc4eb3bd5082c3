"""Requests that share a connection: readers that don't read, deadlines, bodies on their way, room for calls."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme
from scripted_http2 import Script, ScriptedServer, listening

from oarlock.http2 import frames as h2
from oarlock.net.connecting import Address, connect
from oarlock.net.http2_connection import Http2ClientConnection
from oarlock.net.messages import HttpError, HttpRequest, HttpResponse
from oarlock.net.pool import HttpPool
from oarlock.net.trust import trusting

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()
GET = HttpRequest("GET", "127.0.0.1", "/")


class Asking:
    """Requests to a scripted server. `connections` is how many were made."""

    def __init__(self, port: int) -> None:
        context = trusting(AUTHORITY.cert_pem.bytes())

        async def tls() -> ssl.SSLContext:
            return context

        self.pool = HttpPool(tls)
        self.connections = 0
        self._address = Address("127.0.0.1", port)

    async def __call__(self, request: HttpRequest = GET, *, lasting: bool = False) -> HttpResponse:
        return await self.pool.ask(self._address, request, lasting=lasting)


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[Asking]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(["h2"])

    async def counted(server: ScriptedServer) -> None:
        ask.connections += 1
        await script(server)

    async with listening(counted, context=context) as port:
        ask = Asking(port)
        try:
            async with asyncio.timeout(60):
                yield ask
        finally:
            ask.pool.close()


async def next_get(server: ScriptedServer) -> int:
    return (await server.frame(h2.HEADERS))[2]


def whole(server: ScriptedServer, stream_id: int, body: bytes) -> bytes:
    return server.headers(stream_id, (":status", "200"), ("a", "1"), ("a", "2")) + h2.data_frame(stream_id, body, True)


async def test_a_reader_that_doesnt_read_holds_its_window_and_nobody_else() -> None:
    window, piece = Http2ClientConnection.stream_window, bytes(16_384)

    async def script(server: ScriptedServer) -> None:
        unread = await next_get(server)
        await server.send(server.headers(unread, (":status", "200")))
        for _ in range(window // len(piece)):
            await server.send(h2.data_frame(unread, piece, end=False))
        await server.send(whole(server, await next_get(server), b"beside it"))
        assert all(frame[2] != unread for frame in server.frames if frame[0] == h2.WINDOW_UPDATE)
        while (await server.frame(h2.WINDOW_UPDATE))[2] != unread:
            pass
        await server.send(h2.data_frame(unread, piece, end=True))
        await server.rest()

    async with scripted(script) as ask:
        unread = await ask(lasting=True)
        beside = await ask()
        assert await beside.read(100) == b"beside it"
        assert beside.headers == [("a", "1"), ("a", "2")]
        assert unread.buffered == window
        assert len(await unread.read(2 * window)) == window + len(piece)
        assert ask.connections == 1


async def test_who_gives_up_resets_its_stream_and_leaves_a_connection_from_which_nothing_comes() -> None:
    reset = asyncio.Event()

    async def script(server: ScriptedServer) -> None:
        stream_id = await next_get(server)
        if ask.connections == 2:
            await server.send(whole(server, stream_id, b"next"))
        else:
            await server.frame(h2.RST_STREAM)
            reset.set()
        await server.rest()

    async with scripted(script) as ask:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ask()
        await reset.wait()
        assert await (await ask()).read(100) == b"next"
        assert ask.connections == 2


async def test_a_body_waits_for_the_window_and_an_early_answer_ends_it() -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            yield bytes(16_384)
            sent += 1

    async def script(server: ScriptedServer) -> None:
        stream_id = await next_get(server)
        for _ in range(4):
            await server.frame(h2.DATA)
        await server.send(whole(server, stream_id, b"too much"))
        await server.frame(h2.RST_STREAM)
        await server.rest()

    async with scripted(script) as ask:
        answer = await ask(HttpRequest("POST", "127.0.0.1", "/", body=body()))
        assert await answer.read(100) == b"too much"
        assert sent < 8


async def test_a_body_that_breaks_off_fails_its_request_alone() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"half"
        raise EOFError("the sender has gone")

    async def script(server: ScriptedServer) -> None:
        await server.frame(h2.RST_STREAM)
        await server.send(whole(server, await next_get(server), b"next"))
        await server.rest()

    async with scripted(script) as ask:
        with pytest.raises(EOFError, match="the sender has gone"):
            await ask(HttpRequest("POST", "127.0.0.1", "/", body=body()))
        assert await (await ask()).read(100) == b"next"


async def test_watches_leave_room_for_calls() -> None:
    """A server of eight streams: seven watches on a connection, and the eighth stream is for calls."""

    async def script(server: ScriptedServer) -> None:
        await server.send(h2.settings_frame({h2.MAX_CONCURRENT_STREAMS: 8}))
        while True:
            stream_id = await next_get(server)
            await server.send(server.headers(stream_id, (":status", "200")))

    async with scripted(script) as ask:
        first = await ask(lasting=True)
        watches = [first, *[await ask(lasting=True) for _ in range(9)]]
        assert ask.connections == 2
        assert (await ask()).status == 200
        assert ask.connections == 2
        for watch in watches:
            watch.close()


async def test_a_connection_that_is_lost_fails_what_may_have_been_done() -> None:
    async def script(server: ScriptedServer) -> None:
        await next_get(server)

    async with scripted(script) as ask:
        with pytest.raises(HttpError, match="the server ended the connection") as lost:
            await ask(HttpRequest("POST", "127.0.0.1", "/"))
        assert not lost.value.unsent


def test_a_connection_that_is_closed_ends_with_the_loop_whatever_the_server_does() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(["h2"])
    left = threading.Event()

    def serve(listener: socket.socket) -> None:
        """Begin a connection, and never read from it again."""
        accepted, _ = listener.accept()
        with context.wrap_socket(accepted, server_side=True) as held:
            held.sendall(h2.settings_frame({}))
            left.wait(60)

    async def ask(port: int) -> None:
        trusted = trusting(AUTHORITY.cert_pem.bytes())
        trusted.set_alpn_protocols(["h2"])
        connection = await connect(Address("127.0.0.1", port), trusted)
        assert isinstance(connection, Http2ClientConnection)
        connection.close("it isn't needed")
        await asyncio.sleep(0)

    with socket.create_server(("127.0.0.1", 0)) as listener, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        try:
            asyncio.run(ask(listener.getsockname()[1]))
            gc.collect()
        finally:
            left.set()
            serving.join()
    assert [str(one.message) for one in warned] == []
