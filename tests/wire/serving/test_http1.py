"""HTTP/1.1 on the wire: messages, pipelines, bodies, answers that go on."""

from __future__ import annotations

import asyncio
import gzip
import http.client
from collections.abc import AsyncIterator
from typing import Any

import pytest

from oarlock.endpoints.http import BodyTooLarge, Request, Response, Stream
from oarlock.testing.contracts.support import eventually

pytestmark = pytest.mark.anyio


async def test_a_request_and_its_answer(server: Any) -> None:
    async def handler(request: Request) -> Response:
        assert request.peer.address == "127.0.0.1"
        assert request.headers["x-a"] == "1"
        assert request.all_headers[1:] == [("x-a", "1"), ("x-a", "2"), ("empty", "")]
        assert not request.http2
        return Response(201, [("x-b", "é"), ("content-length", "77"), ("connection", "keep-alive")], b"hi")

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"GET /a%2Fb?x=1&y HTTP/1.1\r\nHost: h\r\nX-A:  1 \r\nX-A: 2\r\nEmpty:\r\n\r\n")
        text = await client.until(b"\r\n\r\nhi")
        assert text.startswith(b"HTTP/1.1 201 Created\r\ndate: Fri, 15 Jan 2027 08:16:40 GMT\r\n")
        assert "x-b: é\r\n".encode() in text
        assert text.count(b"content-length: 2\r\n") == 1
        assert b"connection" not in text


async def test_the_target_in_all_its_forms(server: Any) -> None:
    async with server() as s:
        client = await s.connect()
        for target, seen in [
            (b"/a?b?c", b"/a b?c"),
            (b"http://h/a/b?c", b"/a/b c"),
            (b"http://h", b"/ "),
            (b"HTTPS://h?q=1", b"/ q=1"),
            (b"*", b"* "),
            (b"//double/slash", b"//double/slash "),
        ]:
            await client.send(b"OPTIONS %b HTTP/1.1\r\nHost: h\r\n\r\n" % target)
            status, _, body = await client.response()
            assert (status, body) == (200, b"OPTIONS %b 0" % seen)


async def test_a_pipeline_is_answered_in_order_although_the_first_is_slowest(server: Any) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0.003 if request.path == "/0" else 0)
        return Response(200, [], request.path.encode())

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % n for n in range(20)))
        assert [(await client.response())[2] for _ in range(20)] == [b"/%d" % n for n in range(20)]


async def test_a_pipeline_longer_than_what_is_parsed_at_once(server: Any) -> None:
    running = 0

    async def handler(request: Request) -> Response:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        running -= 1
        return Response(200, [], request.path.encode())

    async with server(handler) as s:
        client = await s.connect()
        count = 3000
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % n for n in range(count)))
        for n in range(count):
            assert (await client.response())[2] == b"/%d" % n


async def test_a_body_in_the_same_packet_is_there_when_the_handler_starts(server: Any) -> None:
    tasks = []

    async def handler(request: Request) -> Response:
        body = await request.read()
        tasks.append(asyncio.current_task())
        return Response(200, [], body + await request.read())

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
        assert (await client.response())[2] == b"abcabc"
        await client.send(
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n"
        )
        assert (await client.response())[2] == b"abcdeabcde"
        assert tasks == [None, None]


async def test_a_body_that_comes_slowly(server: Any) -> None:
    async with server() as s:
        client = await s.connect()
        for piece in (b"POST / HT", b"TP/1.1\r\nHost: h\r\nContent-Le", b"ngth: 6\r\n\r", b"\nabc", b"def"):
            await client.send(piece)
            await asyncio.sleep(0.001)
        assert (await client.response())[2] == b"POST /  6"


async def test_a_large_body_and_a_large_answer(server: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, [], await request.read() * 8)

    async with server(handler) as s:
        client = await s.connect()
        body = bytes(range(256)) * 4096 * 3
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body))
        await client.send(body)
        assert (await client.response())[2] == body * 8


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_beyond_the_limit(server: Any, chunked: bool) -> None:
    async def handler(request: Request) -> Response:
        try:
            await request.read()
        except BodyTooLarge as error:
            return Response(413, [], f"limit is {error.limit}".encode())
        return Response(200, [])

    async with server(handler, max_request_bytes=10) as s:
        client = await s.connect()
        framing = b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Content-Length: 11\r\n\r\n"
        body = b"b\r\n" + b"x" * 11 + b"\r\n0\r\n\r\n" if chunked else b"x" * 11
        ok = b"a\r\n" + b"x" * 10 + b"\r\n0\r\n\r\n" if chunked else b"x" * 10
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\n" + framing.replace(b"11", b"10") + ok)
        assert (await client.response())[0] == 200
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\n" + framing)
        await client.send(body)
        status, _, text = await client.response()
        assert (status, text) == (413, b"limit is 10")


async def test_a_huge_body_is_refused_before_it_is_sent_and_the_client_can_read_why(server: Any) -> None:
    async def handler(request: Request) -> Response:
        try:
            await request.read()
        except BodyTooLarge:
            return Response(413, [], b"too large")
        return Response(200, [])

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 900000000\r\n\r\n" + b"x" * 300_000)
        status, headers, _ = await client.response()
        assert (status, headers["connection"]) == (413, "close")
        await client.send(b"x" * 100_000)
        assert await client.rest() == b""


async def test_100_continue_is_sent_when_the_body_is_asked_for(server: Any) -> None:
    async with server() as s:
        client = await s.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"abc")
        assert (await client.response())[2] == b"POST /  3"


async def test_no_100_continue_when_the_answer_needs_no_body(server: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(401, [], b"no")

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        status, headers, _ = await client.response()
        assert (status, headers["connection"]) == (401, "close")
        assert await client.rest() == b""


async def test_a_short_body_nobody_read_does_not_cost_the_connection(server: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(429, [], request.path.encode())

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n")
        status, headers, _ = await client.response()
        assert status == 429
        assert "connection" not in headers
        await client.send(b"x" * 100 + b"GET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.response())[2] == b"/2"


async def test_head_has_no_body_and_204_no_length(server: Any) -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/empty":
            return Response(204, [])
        if request.path == "/stream":
            return Response(200, [], stream=lambda stream: stream.write(b"never"))
        return Response(200, [], b"12345")

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.response(head_only=True))[1]["content-length"] == "5"
        await client.send(b"HEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.response(head_only=True))[1]["transfer-encoding"] == "chunked"
        await client.send(b"GET /empty HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
        status, headers, _ = await client.response()
        assert status == 204
        assert "content-length" not in headers
        assert (await client.response())[2] == b"12345"


async def test_http_1_0(server: Any) -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/stream":
            return Response(200, [], _letters())
        return Response(200, [], b"x")

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (await client.response())[1]["connection"] == "keep-alive"
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        assert (await client.response())[1]["connection"] == "close"
        assert await client.rest() == b""
        client = await s.connect()
        await client.send(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        status, headers, body = await client.response()
        assert (status, headers["connection"], body) == (200, "close", b"abc")


async def _letters() -> AsyncIterator[bytes]:
    for letter in (b"a", b"", b"b"):
        yield letter
        await asyncio.sleep(0)
    yield b"c"


async def test_an_iterator_is_sent_in_chunks_and_the_connection_goes_on(server: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, [], _letters())

    async with server(handler) as s:
        client = await s.connect()
        for _ in range(2):
            await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert (await client.response())[2] == b"abc"


async def test_an_iterator_is_not_run_far_ahead_of_a_slow_reader(server: Any) -> None:
    made = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"x" * 65536

    async def handler(request: Request) -> Response:
        return Response(200, [], endless())

    async with server(handler) as s:
        client = await s.connect()
        client.writer.transport.pause_reading()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        before = -1
        while made != before or not made:
            before = made
            await asyncio.sleep(0.02)
        assert made < 400
        client.writer.transport.resume_reading()
        await client.exactly(65536 * (made + 5))
        assert made > before
        client.close()


async def test_an_iterator_that_fails_cuts_the_answer(server: Any) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"abc"
        await asyncio.sleep(0.001)
        raise ValueError("halfway")

    async def handler(request: Request) -> Response:
        return Response(200, [], failing())

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        text = await client.rest()
        assert b"3\r\nabc\r\n" in text
        assert not text.endswith(b"0\r\n\r\n")


async def test_a_stream_sends_its_head_at_once_and_joins_what_is_written_in_one_turn(server: Any) -> None:
    streams: list[Stream] = []
    closed: list[str] = []

    async def handler(request: Request) -> Response:
        return Response(200, [("content-type", "application/json")], stream=streams.append)

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.until(b"transfer-encoding: chunked\r\n\r\n")
        (stream,) = streams
        stream.on_close(lambda: closed.append("first"))
        stream.on_close(lambda: closed.append("second"))
        stream.write(b"ab")
        stream.write(b"")
        stream.write(b"cd")
        assert stream.buffered == 4
        assert await client.until(b"\r\n") + await client.until(b"\r\n") == b"4\r\nabcd\r\n"
        assert stream.buffered == 0
        stream.write(b"ef")
        stream.close()
        stream.write(b"too late")
        assert not closed
        assert await client.until(b"0\r\n\r\n") == b"2\r\nef\r\n0\r\n\r\n"
        assert stream.closed
        assert closed == ["first", "second"]
        stream.on_close(lambda: closed.append("third"))
        assert closed[-1] == "third"
        await client.until(b"transfer-encoding: chunked\r\n\r\n")
        streams[1].close()
        assert await client.until(b"0\r\n\r\n") == b"0\r\n\r\n"


async def test_an_aborted_stream_has_no_end(server: Any) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.until(b"\r\n\r\n")
        streams[0].write(b"ab")
        await asyncio.sleep(0)
        streams[0].abort()
        assert streams[0].closed
        assert await client.rest() in (b"", b"2\r\nab\r\n")


async def test_a_client_that_leaves_cancels_its_handler_and_ends_its_stream(server: Any) -> None:
    seen: list[str] = []
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        if request.path == "/stream":
            return Response(200, [], stream=streams.append)
        seen.append("asked")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return Response(200, [])

    async with server(handler) as s:
        for path in (b"/", b"/stream"):
            client = await s.connect()
            await client.send(b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % path)
            await eventually(lambda: seen == ["asked"] or bool(streams), "the request doesn't arrive")
            if streams:
                streams[0].on_close(lambda: seen.append("closed"))
            client.close()
            await eventually(lambda: s.listening.connections == 0, "the server doesn't notice")
        await eventually(lambda: len(seen) == 3, "the handler or its stream goes on")
        assert seen == ["asked", "cancelled", "closed"]
        assert streams[0].closed


async def test_a_client_that_leaves_in_the_middle_of_its_body(server: Any) -> None:
    asked = asyncio.Event()
    seen: list[Exception] = []

    async def handler(request: Request) -> Response:
        asked.set()
        try:
            await request.read()
        except (ConnectionError, asyncio.CancelledError) as error:
            seen.append(type(error))
            raise
        return Response(200, [])

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
        await asked.wait()
        client.close()
        await eventually(lambda: len(seen) == 1, "the handler still waits for the body")


async def test_a_failing_handler_is_answered_500_and_the_connection_goes_on(server: Any, caplog: Any) -> None:
    async def handler(request: Request) -> Any:
        if request.path == "/wait":
            await asyncio.sleep(0)
        if request.path == "/none":
            return None
        if request.path == "/header":
            return Response(200, [("a", "b\r\nset-cookie: evil")])
        if request.path == "/text":
            return Response(200, [], "text")  # type: ignore[arg-type]
        if request.path == "/cancel":
            raise asyncio.CancelledError
        raise KeyError("secret")

    async with server(handler) as s:
        client = await s.connect()
        for path in (b"/now", b"/wait", b"/none", b"/header", b"/text", b"/cancel"):
            await client.send(b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % path)
            status, headers, body = await client.response()
            assert (status, headers["content-type"]) == (500, "text/plain; charset=utf-8")
            assert body == b"This request caused apiserver to panic. Look in the logs for details.\n"
        assert "secret" in caplog.text


async def test_an_upgrade_is_ignored(server: Any) -> None:
    async with server() as s:
        client = await s.connect()
        upgrade = b"GET /%d HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        await client.send(upgrade % 1 + upgrade % 2 + b"GET /3 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert [(await client.response())[2] for _ in range(3)] == [b"GET /1  0", b"GET /2  0", b"GET /3  0"]


async def test_connection_close_from_either_side(server: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, [("connection", "close")] if request.path == "/close" else [], b"x")

    async with server(handler) as s:
        for request in (
            b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            b"GET /close HTTP/1.1\r\nHost: h\r\n\r\n",
        ):
            client = await s.connect()
            await client.send(request)
            status, headers, _ = await client.response()
            assert (status, headers["connection"]) == (200, "close")
            assert await client.rest() == b""


async def test_the_standard_library_client(server: Any) -> None:
    async def handler(request: Request) -> Response:
        body = await request.read()
        return Response(200, [("content-encoding", "gzip")], gzip.compress(body))

    def talk(port: int) -> list[bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        bodies = []
        for body in (b"", b"abc", b"x" * 200_000, iter([b"chunk", b"ed"])):
            connection.request("PUT", "/a", body=body)
            bodies.append(gzip.decompress(connection.getresponse().read()))
        connection.close()
        return bodies

    async with server(handler) as s:
        bodies = await asyncio.to_thread(talk, s.listening.port)
        assert bodies == [b"", b"abc", b"x" * 200_000, b"chunked"]
