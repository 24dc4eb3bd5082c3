"""POSTs over HTTP/2 to servers that answer, refuse, go away, flood and lie, over TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme
from scripted_http2 import Script, ScriptedServer, listening

from oarlock.client.webhooks import WebhookCalls, WebhookError, WebhookTarget
from oarlock.http2 import frames as h2

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()
CA = AUTHORITY.cert_pem.bytes()


class Posts:
    """Calls of one scripted server. `connections` is how many were made."""

    def __init__(self, url: str) -> None:
        async def no_services(_: object) -> str:
            raise WebhookError("none")

        self.calls = WebhookCalls(no_services)
        self.connections = 0
        self._target = WebhookTarget(url, None, CA)

    async def __call__(self, body: bytes = b"question", timeout_s: float = 10, most_bytes: int = 100_000) -> bytes:
        return await self.calls.post(self._target, body, timeout_s=timeout_s, most_bytes=most_bytes)

    async def failure(self, **options: Any) -> str:
        with pytest.raises(WebhookError) as caught:
            await self(**options)
        return str(caught.value).partition('": ')[2] or str(caught.value)


@asynccontextmanager
async def scripted(script: Script, *, begins: bool = True) -> AsyncIterator[Posts]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(["h2"])

    async def counted(server: ScriptedServer) -> None:
        posts.connections += 1
        await script(server)

    async with listening(counted, begins=begins, context=context) as port:
        posts = Posts(f"https://127.0.0.1:{port}/check")
        try:
            yield posts
        finally:
            await posts.calls.close()


def answer(server: ScriptedServer, stream_id: int, body: bytes, status: str = "200") -> bytes:
    head = server.headers(stream_id, (":status", status), ("content-type", "text/plain"))
    return head + h2.data_frame(stream_id, body, end=True)


async def echo(server: ScriptedServer) -> None:
    while True:
        stream_id = await server.request()
        await server.send(answer(server, stream_id, str(stream_id).encode()))


async def test_one_connection_carries_many_requests_at_a_time() -> None:
    async with scripted(echo) as posts:
        answers = await asyncio.gather(*(posts() for _ in range(50)))
        answers += [await posts() for _ in range(3)]
        assert sorted(int(one) for one in answers) == list(range(1, 107, 2))
        assert posts.connections == 1


async def test_a_question_larger_than_the_windows_waits_for_them() -> None:
    received = 0

    async def slow(server: ScriptedServer) -> None:
        nonlocal received
        while True:
            _, flags, stream_id, payload = await server.frame(h2.DATA)
            received += len(payload)
            if flags & h2.END_STREAM:
                break
            size = len(payload)
            await server.send(h2.window_update_frame(0, size) + h2.window_update_frame(stream_id, size))
        await server.send(answer(server, stream_id, b"done"))
        await server.rest()

    async with scripted(slow) as posts:
        assert await posts(bytes(500_000)) == b"done"
    assert received == 500_000


async def test_an_answer_without_a_body_and_one_after_interim_ones() -> None:
    async def script(server: ScriptedServer) -> None:
        first = await server.request()
        await server.send(server.headers(first, (":status", "200"), end=True))
        second = await server.request()
        interim = server.headers(second, (":status", "103"))
        await server.send(interim * 3 + answer(server, second, b"after"))
        await server.rest()

    async with scripted(script) as posts:
        assert await posts() == b""
        assert await posts() == b"after"


@pytest.mark.parametrize("status", ["302", "401", "429", "500"])
async def test_what_is_no_success_is_told_and_no_redirect_followed(status: str) -> None:
    async def refuse(server: ScriptedServer) -> None:
        await server.send(answer(server, await server.request(), b"no", status))
        await server.rest()

    async with scripted(refuse) as posts:
        assert (
            await posts.failure()
            == {
                "302": "the server responded with the status code 302 but did not return more information",
                "401": "the server has asked for the client to provide credentials",
                "429": "the server has received too many requests and has asked us to try again later",
                "500": 'an error on the server ("no") has prevented the request from succeeding',
            }[status]
        )
        assert posts.connections == 1


async def test_what_was_refused_or_not_seen_before_a_goodbye_is_asked_again_once() -> None:
    seen = []

    async def script(server: ScriptedServer) -> None:
        stream_id = await server.request()
        seen.append(stream_id)
        await server.send(answer(server, stream_id, b"first"))
        await server.request()
        seen.append("unseen")
        await server.send(h2.goaway_frame(1, 0, "restart"))
        await server.rest()

    async with scripted(script) as posts:
        assert await posts() == b"first"
        assert await posts() == b"first"
        assert posts.connections == 2
    assert seen == [1, "unseen", 1]


async def test_what_may_have_been_done_is_not_asked_again() -> None:
    async def script(server: ScriptedServer) -> None:
        await server.send(answer(server, await server.request(), b"first"))
        await server.request()  # and the connection ends

    async with scripted(script) as posts:
        assert await posts() == b"first"
        assert "the server ended the connection" in await posts.failure()
        assert posts.connections == 1


async def test_a_request_under_way_outlives_a_goodbye() -> None:
    async def script(server: ScriptedServer) -> None:
        stream_id = await server.request()
        await server.send(h2.goaway_frame(stream_id, 0))
        await server.send(answer(server, stream_id, b"kept"))
        await server.rest()

    async with scripted(script) as posts:
        assert await posts() == b"kept"
        assert await posts() == b"kept"
        assert posts.connections == 2


async def test_a_reset_stream_fails_its_request_alone() -> None:
    async def script(server: ScriptedServer) -> None:
        await server.send(h2.rst_stream_frame(await server.request(), h2.ErrorCode.INTERNAL_ERROR))
        await server.send(answer(server, await server.request(), b"next"))
        await server.rest()

    async with scripted(script) as posts:
        assert await posts.failure() == "http2: the server reset the stream with code 2"
        assert await posts() == b"next"
        assert posts.connections == 1


async def test_one_that_never_answers_is_left_at_the_deadline_and_asked_on_another_connection() -> None:
    async def script(server: ScriptedServer) -> None:
        await server.request()
        await server.rest()

    async with scripted(script) as posts:
        assert await posts.failure(timeout_s=0.5) == "context deadline exceeded"
        assert await posts.failure(timeout_s=0.5) == "context deadline exceeded"
        assert posts.connections == 2


async def test_one_that_never_takes_a_stream_keeps_nothing() -> None:
    async def script(server: ScriptedServer) -> None:
        if posts.connections == 1:
            await server.send(answer(server, await server.request(), b"first"))
        await server.send(h2.settings_frame({h2.MAX_CONCURRENT_STREAMS: 0}))
        await server.rest()

    async with scripted(script) as posts:
        assert await posts() == b"first"
        failures = await asyncio.gather(*(posts.failure(timeout_s=0.05) for _ in range(20)))
        assert set(failures) == {"context deadline exceeded"}
        (known,) = posts.calls._servers.values()
        assert all(not one._waiting for one in known.connections._open)


async def test_an_answer_has_a_bound() -> None:
    async def script(server: ScriptedServer) -> None:
        stream_id = await server.request()
        await server.send(server.headers(stream_id, (":status", "200")))
        await server.send(h2.data_frame(stream_id, bytes(16_000), end=False) * 20)
        await server.frame(h2.RST_STREAM)
        await server.send(answer(server, await server.request(), b"next"))
        await server.rest()

    async with scripted(script) as posts:
        assert await posts.failure() == "the answer has more than 100000 bytes"
        assert await posts() == b"next"


def huge_block() -> bytes:
    pieces = [h2.frame(h2.HEADERS, 0, 1, b"\0" * 16_000)]
    return b"".join(pieces + [h2.frame(h2.CONTINUATION, 0, 1, b"\0" * 16_000)] * 5)


BREAKS = {
    "a frame that is too long": b"\xff\xff\xff" + bytes(6),
    "a header block without end": huge_block(),
    "empty continuations without end": h2.frame(h2.HEADERS, 0, 1, b"") + h2.frame(h2.CONTINUATION, 0, 1, b"") * 9000,
    "a header block that is no HPACK": h2.frame(h2.HEADERS, h2.END_HEADERS, 1, b"\xff" * 20),
    "a block that isn't continued": h2.frame(h2.HEADERS, 0, 1, b"") + h2.ping_frame(bytes(8)),
    "a continuation of nothing": h2.frame(h2.CONTINUATION, h2.END_HEADERS, 1, b""),
    "a push": h2.frame(h2.PUSH_PROMISE, h2.END_HEADERS, 1, bytes(4)),
    "a window that is too large": h2.window_update_frame(0, 2**31 - 1) * 2,
    "an initial window that is too large": h2.settings_frame({h2.INITIAL_WINDOW_SIZE: 2**31}),
    "padding that is longer than the frame": h2.frame(h2.DATA, h2.PADDED, 1, b"\x09abc"),
    "data before a head": h2.data_frame(1, b"x", end=False),
    "resets of nothing": h2.rst_stream_frame(99, 8) * 9000,
    "empty data without end": h2.data_frame(99, b"", end=False) * 9000,
    "settings without end": h2.settings_frame({}) * 9000,
    "signs of life without end": h2.ping_frame(bytes(8)) * 9000,
    "windows without end": h2.window_update_frame(99, 1) * 9000,
    "frames of no known type without end": h2.frame(0x42, 0, 0, b"") * 9000,
}


@pytest.mark.parametrize("data", BREAKS.values(), ids=list(BREAKS))
async def test_what_breaks_the_rules_fails_at_once_and_the_next_request_is_answered(data: bytes) -> None:
    answers = iter((data, None))

    async def script(server: ScriptedServer) -> None:
        while True:
            stream_id = await server.request()
            broken = next(answers)
            await server.send(answer(server, stream_id, b"next") if broken is None else broken)

    async with scripted(script) as posts:
        assert "deadline" not in await posts.failure()
        assert await posts() == b"next"


NOT_HTTP2 = [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 9, h2.frame(h2.DATA, 0, 1, b"x"), b""]


@pytest.mark.parametrize("greeting", NOT_HTTP2, ids=["http1", "a data frame", "no settings", "nothing"])
async def test_what_agrees_on_http2_and_speaks_something_else(greeting: bytes) -> None:
    async def greet(server: ScriptedServer) -> None:
        await server.send(greeting)

    async with scripted(greet, begins=False) as posts:
        assert "deadline" not in await posts.failure()
