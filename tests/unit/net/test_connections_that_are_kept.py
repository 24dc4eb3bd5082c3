"""Connections that are kept for the next request: for how long, how many, and to where."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from oarlock.net.connecting import Address
from oarlock.net.messages import HttpError, HttpRequest
from oarlock.net.pool import HttpPool, PoolLimits

pytestmark = pytest.mark.anyio

ASKED = HttpRequest("GET", "a", "/")


async def no_tls() -> ssl.SSLContext | None:
    return None


class Keeping:
    """A server that says how long it keeps a connection, and counts those that are open."""

    def __init__(self, line: bytes = b"") -> None:
        self.line = line
        self.open = 0
        self.changed = asyncio.Condition()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._count(1)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\n" + self.line + b"content-length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        await self._count(-1)

    async def _count(self, more: int) -> None:
        async with self.changed:
            self.open += more
            self.changed.notify_all()

    async def until_open(self, count: int) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: self.open == count)


async def test_what_is_idle_for_long_ends_and_its_address_is_forgotten() -> None:
    server = Keeping(b"keep-alive: timeout=1\r\n")
    async with await asyncio.start_server(server, "127.0.0.1", 0) as listener:
        pool = HttpPool(no_tls)
        await pool.ask(Address("127.0.0.1", listener.sockets[0].getsockname()[1]), ASKED)
        await server.until_open(1)
        assert len(pool._kept) == 1
        pool._sweep()
        await server.until_open(0)
        assert not pool._kept
        pool.close()


async def test_no_more_are_kept_than_may_be_idle() -> None:
    server = Keeping()
    async with await asyncio.start_server(server, "127.0.0.1", 0) as listener:
        address = Address("127.0.0.1", listener.sockets[0].getsockname()[1])
        pool = HttpPool(no_tls, PoolLimits(idle=2))
        await asyncio.gather(*(pool.ask(address, ASKED) for _ in range(6)))
        await server.until_open(2)
        pool.close()
        await server.until_open(0)


async def test_where_nobody_listens_nothing_was_sent() -> None:
    async with await asyncio.start_server(Keeping(), "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
    pool = HttpPool(no_tls)
    with pytest.raises(HttpError, match=f"dial tcp 127.0.0.1:{port}: connect: connection refused") as refused:
        await pool.ask(Address("127.0.0.1", port), ASKED)
    assert refused.value.unsent
    pool.close()


@pytest.mark.parametrize("headers", [(("a", "b\r\nc: d"),), (("a\n", "b"),), (("a", "b\0"),)])
async def test_a_header_that_would_begin_another_line_isnt_sent(headers: tuple[tuple[str, str], ...]) -> None:
    server = Keeping()
    async with await asyncio.start_server(server, "127.0.0.1", 0) as listener:
        pool = HttpPool(no_tls)
        address = Address("127.0.0.1", listener.sockets[0].getsockname()[1])
        with pytest.raises(HttpError, match="line break"):
            await pool.ask(address, HttpRequest("GET", "a", "/", headers))
        await server.until_open(0)
        pool.close()
