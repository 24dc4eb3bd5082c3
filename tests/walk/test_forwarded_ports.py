"""Connections that clients forward to ports: over SPDY, SPDY in a WebSocket, and numbered channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from spdy_client import SpdyClient, header_block
from walk_kit import GROUP, failure, made, path, walk
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection

from oarlock import APIServer, DeclarationError, Pipe, Resource, StoredCollection, subresource
from oarlock.server.config import ServerConfig
from oarlock.testing.connections import RawClient
from oarlock.testing.server import InMemory

TUNNELED = "SPDY/3.1+portforward.k8s.io"


class Socket(Resource, group=GROUP, version="v1"):
    """What can be connected to."""


class Sockets(StoredCollection[Socket]):
    """Sockets, and their ports."""

    def __init__(self) -> None:
        self.ended: list[int] = []
        self.changed = asyncio.Event()

    @subresource("portforward", ports=True)
    async def forward(self, name: str, port: int, pipe: Pipe) -> None:
        try:
            if port == 81:
                raise ConnectionRefusedError("connection refused")
            await pipe.write(f"{name}:{port} ".encode())
            while data := await pipe.read():
                await pipe.write(data.upper())
        finally:
            self.ended.append(port)
            self.changed.set()


SOCKETS = path("sockets", version="v1")
FORWARD = f"{SOCKETS}/s/portforward"


@asynccontextmanager
async def _sockets() -> AsyncIterator[tuple[InMemory, Sockets]]:
    sockets = Sockets()
    settings = ServerConfig(storage="memory://")
    async with InMemory(APIServer(serve=[sockets]), config=settings, raise_server_exceptions=False) as api:
        await made(api, SOCKETS, {"metadata": {"name": "s"}})
        yield api, sockets


@asynccontextmanager
async def _spdy(api: InMemory, protocol: str) -> AsyncIterator[tuple[SpdyClient, RawClient]]:
    """A client of SPDY; the bytes are in the messages of a WebSocket when the protocol says so."""
    if protocol != TUNNELED:
        offered = {"x-stream-protocol-version": "portforward.k8s.io"}
        async with api.upgrade(FORWARD, protocol, **offered) as raw:
            yield SpdyClient(raw.write, raw.read), raw
        return
    async with api.connect(FORWARD, protocol) as client:
        socket = Connection(ConnectionType.CLIENT)

        def write(data: bytes) -> None:
            client.write(socket.send(BytesMessage(data=data)))

        async def read() -> bytes:
            data = b""
            while not data:
                received = await RawClient.read(client)
                if not received:
                    return b""
                socket.receive_data(received)
                for event in socket.events():
                    if isinstance(event, BytesMessage):
                        data += event.data
                    elif isinstance(event, CloseConnection):
                        return data
            return data

        yield SpdyClient(write, read), client


@walk
@pytest.mark.parametrize("protocol", ["SPDY/3.1", TUNNELED])
async def test_a_method_is_called_for_each_connection(protocol: str) -> None:
    async with _sockets() as (api, sockets), _spdy(api, protocol) as (client, _):
        first = client.connect("80", 0, 1)
        second = client.connect("8080", 1, 5)
        client.data(first[1], b"one", last=True)
        large = b"x" * 300_000
        client.data(second[1], large, last=True)
        received = await client.until_end(*first, *second)
        assert received[first[0]] == received[second[0]] == b""
        assert received[first[1]] == b"s:80 ONE"
        assert received[second[1]] == b"s:8080 " + large.upper()
        errors, data = client.connect("81", 2, 9)
        refused = await client.until_end(errors, data)
        assert refused[errors] == b"error forwarding port 81: connection refused"
        client.control(6, (7).to_bytes(4))
        assert await client.frame() == (6, 7, b"", False)
        assert sorted(sockets.ended) == [80, 81, 8080]


@walk
async def test_a_connection_ends_with_its_stream_and_all_end_with_the_client() -> None:
    async with _sockets() as (api, sockets):
        async with _spdy(api, "SPDY/3.1") as (client, raw):
            client.connect("80", 0, 1)
            while (await client.frame())[2] != b"s:80 ":
                pass
            client.control(3, (3).to_bytes(4) + (5).to_bytes(4))
            client.connect("82", 1, 5)
            while (await client.frame())[2] != b"s:82 ":
                pass
            assert sockets.ended == [80]
            sockets.changed.clear()
            raw.leave()
        await sockets.changed.wait()
        assert sockets.ended == [80, 82]


@walk
async def test_streams_that_make_no_connection_are_reset_and_their_number_is_limited() -> None:
    async with _sockets() as (api, sockets), _spdy(api, "SPDY/3.1") as (client, _):
        for stream, (kind, port) in enumerate([("data", "0"), ("data", "65536"), ("chat", "80"), ("data", "8x")]):
            client.open(2 * stream + 1, header_block({"streamtype": kind, "port": port, "requestid": "1"}))
            assert await client.frame() == (3, 2 * stream + 1, b"\0\0\0\1", False)
        accepted, stream = 0, 101
        while True:
            client.open(stream, header_block({"streamtype": "error", "port": "80", "requestid": str(stream)}))
            kind, number, _, _ = await client.frame()
            if kind == 3:
                break
            assert (kind, number) == (2, stream)
            accepted, stream = accepted + 1, stream + 2
        assert accepted == 512
        assert sockets.ended == []


@walk
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (1, b"\0\0\0\1"),
        (1, b"\0\0\0\1\0\0\0\0\0\0no zlib"),
        (3, b""),
        (6, b"\0"),
        (7, b"x" * 20_000),
    ],
)
async def test_a_client_that_breaks_the_protocol_is_cut_off(
    kind: int, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with _sockets() as (api, sockets), _spdy(api, "SPDY/3.1") as (client, _):
        client.connect("80", 0, 1)
        while (await client.frame())[2] != b"s:80 ":
            pass
        client.control(kind, body)
        with pytest.raises(EOFError):
            await client.until_end(3)
        assert sockets.ended == [80]
    assert [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []


@walk
async def test_headers_that_unpack_to_too_much_end_the_connection() -> None:
    async with _sockets() as (api, _), _spdy(api, "SPDY/3.1") as (client, _):
        client.open(1, header_block({"streamtype": "x" * 10_000_000}))
        with pytest.raises(EOFError):
            await client.frame()


@walk
@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io", "v4.base64.channel.k8s.io"])
async def test_ports_have_two_channels_each_without_spdy(protocol: str) -> None:
    async with _sockets() as (api, sockets), api.connect(f"{FORWARD}?ports=80&ports=81", protocol) as client:
        received: dict[int, bytes] = {}
        client.send(0, b"one")
        while not (received.get(0, b"").endswith(b"ONE") and b"refused" in received.get(3, b"")):
            channel, data = await client.receive()
            if channel < 4:  # or one is closed
                received[channel] = received.get(channel, b"") + data
        assert received == {
            0: b"P\0s:80 ONE",
            1: b"P\0",
            2: b"Q\0",
            3: b"Q\0error forwarding port 81: connection refused",
        }
        assert sockets.ended == [81]


@walk
async def test_what_is_no_request_for_ports_is_refused() -> None:
    async with _sockets() as (api, _):
        for query in ("", "?ports=", "?ports=0", "?ports=80&ports=x", "?" + "&".join(["ports=80"] * 128)):
            with pytest.raises(AssertionError, match=r"400.*ports must have 1 to 127 port numbers"):
                async with api.connect(FORWARD + query, "v4.channel.k8s.io"):
                    pass
        with pytest.raises(AssertionError, match="403"):
            async with api.upgrade(FORWARD, "SPDY/3.1", **{"x-stream-protocol-version": "v4.channel.k8s.io"}):
                pass
        assert failure(await api.get(FORWARD))[0] == 400


def test_a_method_for_ports_takes_the_port_and_the_pipe() -> None:
    with pytest.raises(DeclarationError, match="'port'"):

        class Wrong(StoredCollection[Socket]):
            @subresource("portforward", ports=True)
            async def forward(self, pipe: Pipe) -> None: ...

    with pytest.raises(DeclarationError, match="ports="):
        subresource("portforward", ports=True, connect=True)
