"""Requests through proxies: a tunnel to a server with TLS, of either protocol, and what a proxy may answer instead."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme
from scripted_http2 import ScriptedServer, listening

from oarlock.http2 import frames as h2
from oarlock.net.connecting import Address, AnyProxy, HttpProxy, SocksProxy
from oarlock.net.messages import HttpError, HttpRequest
from oarlock.net.pool import HTTP1, HTTP2, HttpPool
from oarlock.net.trust import trusting
from oarlock.net.url import parse_url

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()


def server_context(*protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(list(protocols))
    return context


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()


@asynccontextmanager
async def proxy(heads: list[str], refusal: bytes = b"", *, tls: bool = False) -> AsyncIterator[HttpProxy]:
    """One that leads where it is asked to, or answers with a refusal."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        if refusal:
            writer.write(refusal)
            writer.close()
            return
        host, port = heads[-1].split(" ")[1].split(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        for one in (copy(reader, back), copy(there, writer)):
            task = asyncio.ensure_future(one)
            tasks.add(task)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=server_context(HTTP2, HTTP1) if tls else None)
    port = listener.sockets[0].getsockname()[1]
    url = parse_url(f"{'https' if tls else 'http'}://me:s3cret@127.0.0.1:{port}")
    try:
        yield HttpProxy(url, trusting(AUTHORITY.cert_pem.bytes()) if tls else None)
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def socks_proxy(asked: list[bytes], answer: int = 0) -> AsyncIterator[SocksProxy]:
    """One of SOCKS5 that knows `me` by a password, and what it answers to a request to connect."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        assert 2 in await reader.readexactly(methods)
        writer.write(b"\x05\x02")
        asked.append(await reader.readexactly(len(b"\x01\x02me\x06s3cret")))
        writer.write(b"\x01\x00")
        asked.append(await reader.readexactly(10))
        writer.write(b"\x05" + bytes([answer]) + b"\x00\x01" + bytes(6))
        if answer:
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", int.from_bytes(asked[-1][-2:]))
        for each in (copy(reader, back), copy(there, writer)):
            tasks.add(asyncio.ensure_future(each))

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield SocksProxy(parse_url(f"socks5://me:s3cret@127.0.0.1:{listener.sockets[0].getsockname()[1]}"))
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def body_through(way: AnyProxy, port: int) -> bytes:
    context = trusting(AUTHORITY.cert_pem.bytes())

    async def tls() -> ssl.SSLContext:
        return context

    pool = HttpPool(tls, proxy=way)
    try:
        async with asyncio.timeout(60):
            answer = await pool.ask(Address("127.0.0.1", port), HttpRequest("GET", "a", "/"))
            return await answer.read(1000)
    finally:
        pool.close()


async def over_http2(server: ScriptedServer) -> None:
    _, _, stream_id, _ = await server.frame(h2.HEADERS)
    await server.send(server.headers(stream_id, (":status", "200")) + h2.data_frame(stream_id, b"through", end=True))
    await server.rest()


async def over_http1(server: ScriptedServer) -> None:
    await server.send(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nthrough")
    await server.rest()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "over TLS"])
@pytest.mark.parametrize("protocol", [HTTP2, HTTP1])
async def test_a_proxy_leads_to_a_server(protocol: str, tls: bool) -> None:
    heads: list[str] = []
    script, begins = (over_http2, True) if protocol == HTTP2 else (over_http1, False)
    async with listening(script, begins=begins, context=server_context(protocol)) as port, proxy(heads, tls=tls) as way:
        assert await body_through(way, port) == b"through"
    first, *lines = heads[0].split("\r\n")
    assert first == f"CONNECT 127.0.0.1:{port} HTTP/1.1"
    assert "proxy-authorization: Basic bWU6czNjcmV0" in lines


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (b"HTTP/1.1 407 Who are you\r\n\r\n", "the proxy answered 407 Who are you"),
        (b"hello\r\n\r\n", "the proxy malformed"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000, "goes on and on"),
        (b"HTTP/1.1 103 Wait\r\n\r\n", "closed the connection"),
    ],
)
async def test_a_proxy_that_refuses_is_told_and_nothing_was_sent(refusal: bytes, why: str) -> None:
    async with proxy([], refusal) as way:
        with pytest.raises(HttpError, match=why) as refused:
            await body_through(way, 1)
        assert refused.value.unsent
        assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("protocol", [HTTP2, HTTP1])
async def test_a_socks_proxy_leads_to_a_server(protocol: str) -> None:
    asked: list[bytes] = []
    script, begins = (over_http2, True) if protocol == HTTP2 else (over_http1, False)
    async with (
        listening(script, begins=begins, context=server_context(protocol)) as port,
        socks_proxy(asked) as way,
    ):
        assert await body_through(way, port) == b"through"
    assert asked == [b"\x01\x02me\x06s3cret", b"\x05\x01\x00\x01\x7f\x00\x00\x01" + port.to_bytes(2)]


async def test_a_socks_proxy_that_refuses_is_told() -> None:
    async with socks_proxy([], answer=2) as way:
        with pytest.raises(HttpError, match="the proxy refused") as refused:
            await body_through(way, 6443)
    assert refused.value.unsent
