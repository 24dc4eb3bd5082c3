"""Subresources that connect, behind the whole stack on a socket: odd handshakes, hostile frames, leaving."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection

from oarlock import APIServer, Channels, Context, Pipe, Resource, VirtualCollection, subresource
from oarlock.policy.authn.authenticator import Identity
from oarlock.server.assembly.parts import ServerParts
from oarlock.server.assembly.run import Running, assemble
from oarlock.server.config import ServerConfig
from oarlock.server.serving.config import ServingConfig
from oarlock.server.serving.listener import serve
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import ADMIN

pytestmark = pytest.mark.anyio

WAIT_S = 30.0
EXEC = "/apis/bells.example.com/v1/namespaces/default/bells/b/exec"
PULL = "/apis/bells.example.com/v1/namespaces/default/bells/b/pull"


class Bell(Resource, group="bells.example.com", version="v1"):
    """A bell."""


class Bells(VirtualCollection[Bell]):
    """Every bell is there, and answers what it hears until it is stopped."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()
        self._holds: asyncio.Event | None = None

    async def get(self, name: str, ctx: Context) -> Bell | None:
        return Bell()

    @subresource("exec", connect=True)
    async def _exec(self, channels: Channels) -> None:
        try:
            async for heard in channels.stdin:
                await channels.stdout.write(heard.upper())
        finally:
            if self._holds is not None:
                await self._holds.wait()
            self._ended.set()

    @subresource("hold", connect=True)
    async def _hold(self, channels: Channels) -> None:
        try:
            await channels.stdout.write(b"held")
            await asyncio.sleep(3600)
        finally:
            self._ended.set()

    @subresource("pull", upgrade="rope")
    async def _pull(self, pipe: Pipe) -> None:
        while heard := await pipe.read():
            await pipe.write(heard.upper())


class Known:
    """Everybody is the administrator."""

    waits = False

    async def authenticate(self, credentials: Any) -> Any:
        return Identity(ADMIN)


@pytest.fixture(autouse=True)
def _nothing_goes_wrong(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.ERROR)
    yield
    assert caplog.records == []


@asynccontextmanager
async def tower(tls: Any = None, **config: Any) -> AsyncIterator[tuple[Running, Bells]]:
    bells, clock = Bells(), VirtualClock()
    settings = ServerConfig(storage="memory://", **config)
    parts = ServerParts(APIServer(serve=[bells]), settings, MemoryBackend(clock=clock), clock)

    async def listen(handler: Any) -> Any:
        return await serve(handler, ServingConfig(tls=tls[0] if tls else None), clock)

    running = await assemble(parts, Known(), listen)
    await running.load()
    try:
        yield running, bells
    finally:
        await running.close()


class Caller:
    """A client that speaks WebSocket as wsproto does, over a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.socket = Connection(ConnectionType.CLIENT)

    async def head(self) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), WAIT_S)

    def say(self, data: bytes) -> None:
        self.writer.write(self.socket.send(BytesMessage(data=b"\0" + data)))

    async def events(self) -> AsyncIterator[Any]:
        while data := await asyncio.wait_for(self.reader.read(65536), WAIT_S):
            self.socket.receive_data(data)
            for event in self.socket.events():
                yield event

    async def heard(self, count: int) -> bytes:
        found = b""
        async for event in self.events():
            found += bytes(event.data)[1:]
            if len(found) >= count:
                break
        return found


async def call(running: Running, tls: Any = None) -> Caller:
    port = running._listening.port
    return Caller(*await asyncio.open_connection("127.0.0.1", port, ssl=tls[1] if tls else None))


def handshake(path: str = EXEC, connection: str = "Upgrade", upgrade: str = "websocket", version: str = "1.1") -> bytes:
    return (
        f"GET {path} HTTP/{version}\r\nHost: h\r\n{connection and f'Connection: {connection}'}\r\n"
        f"Upgrade: {upgrade}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ).encode()


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tls_contexts: Any) -> Any:
    return None if request.param == "plain" else tls_contexts("http/1.1")


@pytest.mark.parametrize(
    ("connection", "upgrade", "status"),
    [
        ("upgrade", "WebSocket", 101),
        ("keep-alive, Upgrade", "websocket", 101),
        ("Upgrade,", "websocket, h2c", 101),
        ("close, upgrade", "websocket", 101),
        ("upgrade\r\nConnection: keep-alive", "websocket", 101),
        ("keep-alive\r\nConnection: upgrade", "websocket", 101),
        ("Upgrade", "h2c\r\nUpgrade: websocket", 101),
        ("upgraded", "websocket", 400),
        ("upgrade x", "websocket", 400),
        ("x;upgrade", "websocket", 400),
        ('"upgrade"', "websocket", 400),
        ("keep-alive", "websocket", 400),
        ("Upgrade", "websockets", 400),
        ("Upgrade", "websocket/14", 400),
        ("Upgrade", "", 400),
    ],
)
async def test_odd_handshakes_are_taken_or_refused_but_no_mistake(connection: str, upgrade: str, status: int) -> None:
    async with tower() as (running, _):
        client = await call(running)
        client.writer.write(handshake(EXEC, connection, upgrade))
        assert (await client.head()).startswith(f"HTTP/1.1 {status} ".encode())
        client.writer.close()


async def test_a_refused_upgrade_leaves_the_connection_for_more(tls: Any) -> None:
    async with tower(tls) as (running, _):
        client = await call(running, tls)
        client.writer.write(handshake(PULL) + handshake(PULL, upgrade="rope") + b"heave")
        refused = await client.head()
        assert refused.startswith(b"HTTP/1.1 400 ")
        length = int(refused.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        assert b"rope is spoken" in await client.reader.readexactly(length)
        assert (await client.head()).startswith(b"HTTP/1.1 101 ")
        assert await asyncio.wait_for(client.reader.readexactly(5), WAIT_S) == b"HEAVE"
        client.writer.close()


async def test_what_comes_right_behind_the_handshake_in_any_pieces(tls: Any) -> None:
    async with tower(tls) as (running, _):
        sent = handshake() + Connection(ConnectionType.CLIENT).send(BytesMessage(data=b"\0ding"))
        for cut in range(1, len(sent), 7):
            client = await call(running, tls)
            client.writer.write(sent[:cut])
            await client.writer.drain()
            await asyncio.sleep(0)
            client.writer.write(sent[cut:])
            assert (await client.head()).startswith(b"HTTP/1.1 101 ")
            assert await client.heard(4) == b"DING"
            client.writer.close()


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 7, 20])
async def test_a_client_that_goes_in_the_middle_of_a_frame(tls: Any, cut: int) -> None:
    async with tower(tls) as (running, bells):
        client = await call(running, tls)
        client.writer.write(handshake())
        await client.head()
        client.say(b"ding")
        assert await client.heard(4) == b"DING"
        client.writer.write(Connection(ConnectionType.CLIENT).send(BytesMessage(data=b"\0" + b"x" * 100))[:cut])
        client.writer.close()
        await asyncio.wait_for(bells._ended.wait(), WAIT_S)


async def test_a_client_that_vanishes(tls: Any) -> None:
    async with tower(tls) as (running, bells):
        client = await call(running, tls)
        client.writer.write(handshake())
        await client.head()
        client.say(b"ding")
        assert await client.heard(4) == b"DING"
        client.writer.transport.abort()
        await asyncio.wait_for(bells._ended.wait(), WAIT_S)


async def test_leaving_tells_those_who_talk(tls: Any) -> None:
    async with tower(tls) as (running, bells):
        client = await call(running, tls)
        client.writer.write(handshake())
        await client.head()
        leaving = asyncio.ensure_future(running.shut_down())
        told = []
        async for event in client.events():
            told.append(event)
            if isinstance(event, CloseConnection):
                client.writer.write(client.socket.send(event.response()))
        assert isinstance(told[-1], CloseConnection)
        assert int(told[-1].code) == 1001
        assert bells._ended.is_set()
        client.writer.close()
        await asyncio.wait_for(leaving, WAIT_S)


async def test_who_does_not_let_go_is_cut_after_the_grace(tls: Any) -> None:
    async with tower(tls, request_timeout_s=0.01) as (running, bells):
        bells._holds = asyncio.Event()
        client = await call(running, tls)
        client.writer.write(handshake())
        await client.head()
        client.say(b"ding")
        assert await client.heard(4) == b"DING"
        await asyncio.wait_for(running.shut_down(), WAIT_S)
        assert [event async for event in client.events()] == []
        assert not bells._ended.is_set()
        bells._holds.set()
        await asyncio.wait_for(bells._ended.wait(), WAIT_S)
        client.writer.close()


@pytest.mark.parametrize("megabytes", [0, 1, 8])
async def test_a_client_that_leaves_a_method_that_does_not_read(tls: Any, megabytes: int) -> None:
    """Its end is behind what nobody reads, in its own kernel where that is much: still the method is told."""
    async with tower(tls) as (running, bells):
        client = await call(running, tls)
        client.writer.write(handshake(EXEC.replace("exec", "hold")))
        await client.head()
        assert await client.heard(4) == b"held"
        for _ in range(megabytes * 16):
            client.say(b"x" * 65_536)
        [connection] = running._listening._state.connections
        async with asyncio.timeout(WAIT_S):
            while megabytes and not connection._read_control.paused:  # noqa: ASYNC110 nobody says when
                await asyncio.sleep(0.001)
        client.writer.transport.abort()
        await asyncio.wait_for(bells._ended.wait(), WAIT_S)
        async with asyncio.timeout(WAIT_S):
            while running._listening.connections:  # noqa: ASYNC110 nobody says when
                await asyncio.sleep(0.01)
