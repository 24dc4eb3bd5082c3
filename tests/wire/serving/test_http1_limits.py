"""HTTP/1.1: what is refused, and how; what is cut off, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.endpoints.http import BrokenBody, Request, Response, Stream

pytestmark = pytest.mark.anyio

HOST = b"Host: h\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status", "text"),
    [
        (b"BLAH / HTTP/1.1\r\n\r\n", 400, b"400 Bad Request: Invalid method encountered"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", 400, b""),
        (b"GET / HTTP/1.1\r\n\r\n", 400, b"400 Bad Request: missing required Host header"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, b"400 Bad Request: too many Host headers"),
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505, b""),
        (b"GET / HTTP/0.9\r\n\r\n", 505, b""),
        (b"GET /\r\n\r\n", 400, b"400 Bad Request: malformed request line"),
        (b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", 400, b"400 Bad Request: malformed request line"),
        (b"GET / RTSP/1.0\r\n" + HOST + b"\r\n", 400, b"400 Bad Request: malformed request line"),
        (b"OPTIONS / RTSP/1.0\r\n" + HOST + b"\r\n", 400, b"400 Bad Request: malformed request line"),
        (b"DESCRIBE / RTSP/1.0\r\n" + HOST + b"\r\n", 400, b"400 Bad Request: malformed request line"),
        (b"SOURCE / ICE/1.0\r\n" + HOST + b"\r\n", 400, b"400 Bad Request: malformed request line"),
        (b"GET / HTTP/1.1\r\n" + HOST + b"a : b\r\n\r\n", 400, b""),
        (b"GET / HTTP/1.1\r\n" + HOST + b"a: b\r\n c\r\n\r\n", 400, b""),
        (b"GET / HTTP/1.1\r\n" + HOST + b"a: b\0\r\n\r\n", 400, b""),
        (b"GET a/b HTTP/1.1\r\n" + HOST + b"\r\n", 400, b""),
        (b"GET ftp://a/b HTTP/1.1\r\n" + HOST + b"\r\n", 400, b""),
        (b"CONNECT a:1 HTTP/1.1\r\n" + HOST + b"\r\n", 405, b""),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400, b""),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400, b""),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400, b""),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -3\r\n\r\n", 400, b""),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999\r\n\r\n", 400, b""),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n", 501, b""),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501, b""),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, b""),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", 400, b""),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, b""),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nExpect: magic\r\n\r\n", 417, b""),
        (
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nabc",
            400,
            b"",
        ),
    ],
)
async def test_what_is_malformed_is_answered_and_ends_the_connection(
    server: Any, request_bytes: bytes, status: int, text: bytes
) -> None:
    async with server() as s:
        client = await s.connect()
        await client.send(b"GET /good HTTP/1.1\r\n" + HOST + b"\r\n" + request_bytes)
        assert (await client.response())[2] == b"GET /good  0"
        code, headers, body = await client.response()
        assert code == status
        assert headers["content-type"] == "text/plain; charset=utf-8"
        assert headers["connection"] == "close"
        assert body.startswith(text or b"%d " % status)
        assert await client.rest() == b""


async def test_nothing_is_answered_after_a_broken_message(server: Any) -> None:
    async with server() as s:
        client = await s.connect()
        await client.send(
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n"
        )
        assert (await client.response())[0] == 400
        assert await client.rest() == b""


async def test_a_body_that_breaks_while_its_handler_waits(server: Any) -> None:
    async with server() as s:
        client = await s.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await asyncio.sleep(0.003)
        await client.send(b"what\r\n")
        assert (await client.response())[0] == 400
        assert await client.rest() == b""


@pytest.mark.parametrize("pieces", [1, 40])
@pytest.mark.parametrize("where", ["path", "one header", "many headers"])
async def test_too_many_header_bytes(server: Any, pieces: int, where: str) -> None:
    filler = b"x" * 30_000
    request = {
        "path": b"GET /" + filler + b" HTTP/1.1\r\n" + HOST,
        "one header": b"GET / HTTP/1.1\r\n" + HOST + b"a: " + filler + b"\r\n",
        "many headers": b"GET / HTTP/1.1\r\n" + HOST + b"a: b\r\n" * 5000,
    }[where] + b"\r\n"
    async with server(max_header_bytes=20_000, max_headers=6000) as s:
        client = await s.connect()
        size = len(request) // pieces + 1
        for start in range(0, len(request), size):
            await client.send(request[start : start + size])
            await asyncio.sleep(0)
        status, _, body = await client.response()
        assert (status, body) == (431, b"431 Request Header Fields Too Large")
    async with server(max_header_bytes=40_000, max_headers=6000) as s:
        client = await s.connect()
        await client.send(request)
        assert (await client.response())[0] == 200


async def test_too_many_headers(server: Any) -> None:
    async with server() as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\n" + HOST + b"a: b\r\n" * 999 + b"\r\n")
        assert (await client.response())[0] == 200
        await client.send(b"GET / HTTP/1.1\r\n" + HOST + b"a: b\r\n" * 1000 + b"\r\n")
        assert (await client.response())[0] == 431


async def test_a_small_limit_is_exact(server: Any) -> None:
    async with server(max_header_bytes=100) as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"x" * 50 + b"\r\n\r\n")
        assert (await client.response())[0] == 200
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"x" * 100 + b"\r\n\r\n")
        assert (await client.response())[0] == 431


async def test_framing_without_end_around_a_tiny_body(server: Any) -> None:
    async with server(max_header_bytes=20_000) as s:
        client = await s.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;")
        await client.send(b"x" * 100_000)
        assert (await client.response())[0] == 400


async def test_a_trailer_without_end(server: Any) -> None:
    async with server(max_header_bytes=20_000) as s:
        client = await s.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: ")
        await client.send(b"x" * 100_000)
        assert (await client.response())[0] == 400


async def test_a_body_of_tiny_chunks_is_fine(server: Any) -> None:
    async with server(max_header_bytes=1000) as s:
        client = await s.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.send(b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")
        assert (await client.response())[2] == b"POST /  20000"


async def test_slow_headers_are_answered_408(server: Any) -> None:
    async with server() as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost:")
        await s.later(31)
        await client.send(b" h")
        await s.later(2)
        assert (await client.response())[0] == 408
        assert await client.rest() == b""


async def test_a_connection_that_says_nothing_is_closed(server: Any) -> None:
    async with server() as s:
        client = await s.connect()
        await s.later(31)
        assert s.listening.connections == 1
        await s.later(2)
        assert await client.rest() == b""


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not(server: Any) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append) if request.path == "/watch" else Response(200, [])

    async with server(handler) as s:
        idle, busy = await s.connect(), await s.connect()
        await idle.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await busy.send(b"GET /watch HTTP/1.1\r\nHost: h\r\n\r\n")
        await idle.response()
        await busy.until(b"\r\n\r\n")
        await s.later(89)
        assert s.listening.connections == 2
        await s.later(2)
        assert await idle.rest() == b""
        await s.later(5000)
        streams[0].write(b"still here")
        await busy.until(b"still here")


async def _fill(stream: Stream, size: int) -> None:
    for _ in range(size // 65536):
        stream.write(b"x" * 65536)
        await asyncio.sleep(0)


@pytest.mark.parametrize(("reads", "is_cut"), [(0, True), (2_000_000, False)])
async def test_only_a_reader_that_takes_next_to_nothing_is_cut(server: Any, reads: int, is_cut: bool) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler, stream_budget_bytes=100_000) as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.until(b"\r\n\r\n")
        client.writer.transport.pause_reading()
        await _fill(streams[0], 30_000_000)
        assert streams[0].buffered > 100_000
        for _ in range(4):
            await s.later(20)
            if reads and not streams[0].closed:
                client.writer.transport.resume_reading()
                await client.exactly(reads)
                client.writer.transport.pause_reading()
        assert streams[0].closed is is_cut
        assert s.listening._state.unsent.cut == ({"slow": 1} if is_cut else {})
        client.close()


async def test_a_slow_reader_within_its_budget_may_take_its_time(server: Any) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler, stream_budget_bytes=20_000_000) as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.until(b"\r\n\r\n")
        client.writer.transport.pause_reading()
        await _fill(streams[0], 10_000_000)
        assert streams[0].buffered > 100_000
        for _ in range(5):
            await s.later(1000)
        assert not streams[0].closed
        client.close()


async def test_beyond_the_hard_limit_a_stream_is_cut_at_once(server: Any) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler, stream_hard_bytes=1_000_000) as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.until(b"\r\n\r\n")
        for _ in range(16):
            streams[0].write(b"x" * 65536)
        assert streams[0].closed
        assert streams[0].buffered == 0


async def test_a_chunked_body_nobody_read_is_read_past_up_to_a_point(server: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(429, [], request.path.encode())

    async with server(handler) as s:
        begin = b"POST /1 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunk = b"2710\r\n" + b"x" * 10_000 + b"\r\n"
        for count, goes_on in ((20, True), (40, False)):
            client = await s.connect()
            await client.send(begin)
            assert (await client.response())[0] == 429
            await client.send(chunk * count)
            await client.send(b"0\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
            if goes_on:
                assert (await client.response())[2] == b"/2"
            else:
                assert await client.rest() == b""


async def test_a_body_that_breaks_after_it_was_answered_ends_the_connection(server: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(429, [])

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"POST /1 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await client.response())[0] == 429
        await client.send(b"what")
        assert await client.rest() == b""


async def test_reading_stops_while_a_body_waits_to_be_asked_for(server: Any) -> None:
    asked = asyncio.Event()

    async def handler(request: Request) -> Response:
        await asked.wait()
        return Response(200, [], b"%d" % len(await request.read()))

    async with server(handler, max_request_bytes=100_000_000) as s:
        client = await s.connect()
        size = 50_000_000
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size)
        client.writer.write(b"x" * size)
        await asyncio.sleep(0.05)
        assert client.writer.transport.get_write_buffer_size() > size // 2
        asked.set()
        assert (await client.response())[2] == b"%d" % size


@pytest.mark.parametrize("bad", [b"zz\r\n", b"3\r\nabcd\r\n", b"-1\r\n", b"3\nabc"])
async def test_a_chunk_that_is_malformed_and_comes_late_is_a_bad_request(
    server: Any, bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    reading = asyncio.Event()

    async def handler(request: Request) -> Response:
        reading.set()
        with pytest.raises(BrokenBody):
            await request.read()
        return Response(400, [], b"it broke")

    async with server(handler) as s:
        client = await s.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await asyncio.wait_for(reading.wait(), 60)
        await client.send(bad)
        status, headers, body = await client.response()
        assert (status, headers["connection"], body) == (400, "close", b"it broke")
        assert await client.rest() == b""
    assert caplog.records == []


async def test_a_pipeline_lets_others_have_their_turn(server: Any) -> None:
    """Of hundreds of requests in one packet no more are answered in one turn of the loop than others can wait for."""
    starts: list[int] = []
    turn = 0

    async def handler(request: Request) -> Response:
        starts.append(turn)
        return Response(204, [])

    def tick() -> None:
        nonlocal turn
        turn += 1
        if len(starts) < 900:
            asyncio.get_running_loop().call_soon(tick)

    async with server(handler) as s:
        client = await s.connect()
        tick()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 900)
        for _ in range(900):
            assert (await client.response())[0] == 204
    assert max(starts.count(n) for n in set(starts)) <= 64


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("http://h?x=/livez", "/", "x=/livez"),
        ("http://h", "/", ""),
        ("http://h?", "/", ""),
        ("http://h/livez?x=/y", "/livez", "x=/y"),
        ("HTTPS://h//a/?b?c", "//a/", "b?c"),
        ("http://h??a/b", "/", "?a/b"),
    ],
)
async def test_the_path_of_an_absolute_target_begins_behind_its_authority(
    server: Any, target: str, path: str, query: str
) -> None:
    """A proxy that judges another path than the one that is served would let in what it means to keep out."""
    seen = []

    async def handler(request: Request) -> Response:
        seen.append((request.path, request.query))
        return Response(204, [])

    async with server(handler) as s:
        client = await s.connect()
        await client.send(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        assert (await client.response())[0] == 204
    assert seen == [(path, query)]
