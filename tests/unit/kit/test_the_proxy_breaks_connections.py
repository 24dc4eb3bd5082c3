"""`TcpProxy` passes bytes as they are, and breaks connections in the way and at the byte it was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from oarlock.testing.contracts.support import eventually
from oarlock.testing.proxy import Direction, Segment, TcpProxy

pytestmark = pytest.mark.anyio


class Shouter:
    """A server that answers each line in capitals, and says BYE at the end."""

    def __init__(self) -> None:
        self.heard = b""
        self.ended: list[str] = []
        self.serving = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving += 1
        try:
            while line := await reader.readline():
                self.heard += line
                writer.write(line.upper())
                await writer.drain()
            self.ended.append("EOF")
            writer.write(b"BYE")
        except ConnectionResetError:
            self.ended.append("RST")
        finally:
            writer.close()
            self.serving -= 1


@asynccontextmanager
async def shouting() -> AsyncIterator[tuple[Shouter, TcpProxy]]:
    shouter = Shouter()
    server = await asyncio.start_server(shouter.serve, "127.0.0.1", 0, limit=1 << 25)
    async with TcpProxy(*server.sockets[0].getsockname()[:2]) as proxy:
        yield shouter, proxy
    server.close()
    await eventually(lambda: shouter.serving == 0, "it does not come about")


@asynccontextmanager
async def connected(proxy: TcpProxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def test_bytes_pass_as_they_are_and_are_counted():
    async with shouting() as (shouter, proxy), connected(proxy) as (reader, writer):
        for size in (1, 100, 3_000_000):
            writer.write(b"a" * size + b"\n")
            assert await reader.readexactly(size + 1) == b"A" * size + b"\n"
        writer.write_eof()
        assert await reader.read() == b"BYE"
        assert shouter.ended == ["EOF"]
        assert proxy.passed(Direction.UP) == 3_000_104
        assert proxy.passed(Direction.DOWN) == 3_000_107
        assert proxy.segments[:2] == [Segment(Direction.UP, 2), Segment(Direction.DOWN, 2)]
        proxy.count_from_here()
        assert proxy.passed(Direction.UP) == 0
        assert proxy.segments == []


async def test_a_cut_resets_both_ends_and_new_connections_are_made():
    async with shouting() as (shouter, proxy), connected(proxy) as (reader, writer):
        writer.write(b"a\n")
        assert await reader.readline() == b"A\n"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            await reader.readline()
        await eventually(lambda: shouter.ended == ["RST"], "it does not come about")
        async with connected(proxy) as (again, also):
            also.write(b"b\n")
            assert await again.readline() == b"B\n"
        assert proxy.accepted == 2


@pytest.mark.parametrize("after", [0, 1, 3, 4, 5])
async def test_a_cut_at_a_byte_to_the_server(after):
    async with shouting() as (shouter, proxy), connected(proxy) as (reader, writer):
        proxy.break_after(after, Direction.UP, proxy.cut)
        writer.write(b"one\ntwo\n")
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(9)
        await eventually(lambda: shouter.ended == ["RST"], "it does not come about")
        assert proxy.passed(Direction.UP) == after
        assert len(shouter.heard) == after // 4 * 4
        assert proxy.broken


async def test_a_cut_at_a_byte_to_the_client():
    async with shouting() as (shouter, proxy), connected(proxy) as (reader, writer):
        writer.write(b"one\n")
        assert await reader.readline() == b"ONE\n"
        proxy.break_after(2, Direction.DOWN, proxy.cut)
        writer.write(b"two\n")
        with pytest.raises(ConnectionResetError):
            await reader.readline()
        assert shouter.heard == b"one\ntwo\n", "the request arrived whole, and its answer didn't"


async def test_what_a_client_has_said_last_is_told_to_the_server_only():
    async with shouting() as (shouter, proxy), connected(proxy) as (reader, writer):
        writer.write(b"one\n")
        assert await reader.readline() == b"ONE\n"
        proxy.half_close(Direction.UP)
        assert await reader.read() == b"BYE", "the other half is open"
        assert shouter.ended == ["EOF"]


async def test_the_server_has_said_its_last_and_still_hears():
    async with shouting() as (shouter, proxy), connected(proxy) as (reader, writer):
        writer.write(b"one\n")
        assert await reader.readline() == b"ONE\n"
        proxy.half_close(Direction.DOWN)
        assert await reader.read() == b""
        writer.write(b"two\n")
        await eventually(lambda: shouter.heard == b"one\ntwo\n", "it does not come about")


async def test_a_stalled_connection_is_open_and_silent():
    async with shouting() as (shouter, proxy), connected(proxy) as (reader, writer):
        proxy.stall(Direction.DOWN)
        writer.write(b"one\n")
        await eventually(lambda: shouter.heard == b"one\n", "it does not come about")
        proxy.stall()
        writer.write(b"two\n" + b"x" * 10_000_000)
        async with connected(proxy) as (_, newcomer):
            newcomer.write(b"three\n")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.readline(), 0.05)
            assert shouter.heard == b"one\n"
            proxy.flow()
            assert await reader.readexactly(8) == b"ONE\nTWO\n"
            await eventually(lambda: b"three\n" in shouter.heard, "it does not come about")


async def test_bytes_arrive_later_and_in_order():
    async with shouting() as (_, proxy), connected(proxy) as (reader, writer):
        proxy.delay_s = 0.05
        loop = asyncio.get_running_loop()
        begun = loop.time()
        writer.write(b"one\n")
        await asyncio.sleep(0.001)
        proxy.delay_s = 0.0
        writer.write(b"two\n")
        assert await reader.readline() == b"ONE\n"
        assert await reader.readline() == b"TWO\n"
        assert loop.time() - begun >= 0.05


async def test_connections_are_refused_for_a_while():
    async with shouting() as (_, proxy), connected(proxy) as (reader, writer):
        await proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one\n")
        assert await reader.readline() == b"ONE\n", "those that are open go on"
        await proxy.accept()
        async with connected(proxy) as (again, also):
            also.write(b"two\n")
            assert await again.readline() == b"TWO\n"


async def test_a_server_that_is_away_resets_its_clients():
    async with TcpProxy("127.0.0.1", 1) as proxy, connected(proxy) as (reader, writer):
        writer.write(b"one\n")
        with pytest.raises(ConnectionResetError):
            await reader.readline()
