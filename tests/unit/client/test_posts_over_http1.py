"""POSTs over HTTP/1.1: connections that are kept, that end when they shouldn't, and answers that are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from oarlock.client.webhooks import WebhookCalls, WebhookError, WebhookTarget

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\n"


class Peer:
    """One connection, as the server has it."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.heads: list[str] = []
        self._reader = reader
        self._writer = writer

    async def request(self) -> bytes:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        lines = [line.partition(": ") for line in head.split("\r\n")]
        return await self._reader.readexactly(next(int(value) for name, _, value in lines if name == "content-length"))

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, body: bytes, *lines: str) -> None:
        head = "".join(f"{line}\r\n" for line in (*lines, f"content-length: {len(body)}", ""))
        await self.send(OK + head.encode() + body)


class Posts:
    def __init__(self, port: int) -> None:
        async def no_services(_: object) -> str:
            raise WebhookError("none")

        self.calls = WebhookCalls(no_services)
        self.peers: list[Peer] = []
        self._target = WebhookTarget(f"http://127.0.0.1:{port}/check")

    async def __call__(self, body: bytes = b"question", timeout_s: float = 10, most_bytes: int = 100_000) -> bytes:
        return await self.calls.post(self._target, body, timeout_s=timeout_s, most_bytes=most_bytes)

    async def failure(self) -> str:
        with pytest.raises(WebhookError) as caught:
            await self()
        return str(caught.value).partition('": ')[2] or str(caught.value)


@asynccontextmanager
async def scripted(script: Callable[[Peer], Awaitable[None]]) -> AsyncIterator[Posts]:
    ended = asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(len(posts.peers), reader, writer)
        posts.peers.append(peer)
        try:
            await script(peer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()
            ended.set()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    posts = Posts(listener.sockets[0].getsockname()[1])
    try:
        yield posts
    finally:
        await posts.calls.close()
        listener.close()


async def echo(peer: Peer) -> None:
    while True:
        await peer.answer(await peer.request())


async def test_a_connection_is_kept_and_several_are_made_for_several_requests() -> None:
    async with scripted(echo) as posts:
        assert [await posts(bytes([one])) for one in range(65, 70)] == [b"A", b"B", b"C", b"D", b"E"]
        assert len(posts.peers) == 1
        await asyncio.gather(*(posts() for _ in range(5)))
        assert 1 < len(posts.peers) <= 5
        assert posts.peers[0].heads[0].startswith("POST /check?timeout=10s HTTP/1.1\r\n")


async def test_one_that_the_server_has_closed_is_not_used_again() -> None:
    async def once(peer: Peer) -> None:
        await peer.answer(await peer.request())

    async with scripted(once) as posts:
        for _ in range(5):
            assert await posts() == b"question"
        assert len(posts.peers) == 5


async def test_one_that_says_close_or_a_time_that_is_over_is_not_used_again() -> None:
    lines = iter(("connection: close", "keep-alive: timeout=1", "keep-alive: timeout=30", "keep-alive: timeout=x"))

    async def script(peer: Peer) -> None:
        while True:
            await peer.answer(await peer.request(), next(lines))

    async with scripted(script) as posts:
        for _ in range(4):
            await posts()
        assert [len(peer.heads) for peer in posts.peers] == [1, 1, 2]


async def test_a_request_that_may_have_been_seen_is_not_sent_again() -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(await peer.request())
        await peer.request()

    async with scripted(script) as posts:
        await posts()
        assert await posts.failure() == "EOF"
        assert len(posts.peers) == 1


async def test_bodies_in_chunks_until_the_end_and_none() -> None:
    answers = iter(
        (
            OK + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 1\r\n\r\nx",
            b"HTTP/1.1 204 No Content\r\n\r\n",
            OK + b"\r\nto the end",
        )
    )

    async def script(peer: Peer) -> None:
        for one in answers:
            await peer.request()
            await peer.send(one)

    async with scripted(script) as posts:
        assert [await posts() for _ in range(4)] == [b"abcde", b"x", b"", b"to the end"]
        assert len(posts.peers) == 1


NO_ANSWERS = {
    "nothing": (b"", "EOF"),
    "half a head": (OK + b"content-le", "EOF"),
    "half a body": (OK + b"content-length: 10\r\n\r\nabc", "unexpected EOF"),
    "something else": (b"hello\r\n\r\n", "malformed HTTP response"),
    "HTTP/2": (b"\0\0\0\4\0\0\0\0\0", "malformed HTTP response"),
    "a switch of protocols": (b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", "switch of protocols"),
    "a long head": (OK + b"a: " + b"b" * 70_000 + b"\r\n\r\n", "server response headers exceeded 65536 bytes"),
    "many headers": (OK + b"a: b\r\n" * 70_000 + b"\r\n", "server response headers exceeded 65536 bytes"),
    "a header without end": (OK + b"a: " + b"b" * 2_000_000, "the answer goes on and on"),
    "chunks of nothing": (
        OK + b"transfer-encoding: chunked\r\n\r\n" + b"1;" + b"x" * 2_000_000,
        "the answer goes on and on",
    ),
    "interim answers without end": (b"HTTP/1.1 100 Continue\r\n\r\n" * 90_000, "the answer goes on and on"),
    "a long body": (OK + b"content-length: 200000\r\n\r\n" + bytes(200_000), "the answer has more than 100000 bytes"),
}


@pytest.mark.parametrize(("data", "why"), NO_ANSWERS.values(), ids=list(NO_ANSWERS))
async def test_what_is_no_answer_fails_and_its_connection_is_not_used_again(data: bytes, why: str) -> None:
    async def script(peer: Peer) -> None:
        body = await peer.request()
        if peer.number:
            await peer.answer(body)
        else:
            await peer.send(data)

    async with scripted(script) as posts:
        assert why in await posts.failure()
        assert await posts() == b"question"
        assert len(posts.peers) == 2


async def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(await peer.request())
        if not peer.number:
            await peer.answer(b"unasked")
        await peer.request()

    async with scripted(script) as posts:
        assert await posts() == b"question"
        assert await posts() == b"question"
        assert len(posts.peers) == 2
