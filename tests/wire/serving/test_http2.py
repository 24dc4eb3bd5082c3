"""HTTP/2 on the wire, with python-hyper's h2 as the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from oarlock.endpoints.http import BodyTooLarge, Request, Response, Stream
from oarlock.testing.contracts.support import eventually

pytestmark = pytest.mark.anyio


async def test_a_request_and_its_answer(server: Any, h2_client: Any) -> None:
    async def handler(request: Request) -> Response:
        assert request.http2
        assert request.peer.address == "127.0.0.1"
        assert request.headers["host"] == "example"
        assert request.headers["x-a"] == "1"
        assert request.headers["cookie"] == "a=1; b=2"
        assert ("x-a", "2") in request.all_headers
        headers = [("X-B", "é"), ("connection", "keep-alive"), ("content-length", "77"), ("transfer-encoding", "x")]
        return Response(201, headers, f"{request.method} {request.path} {request.query}".encode())

    async with server(handler) as s:
        client = await h2_client(s)
        answer = await client.get(
            "/a%2Fb?x=1&y", extra=[("x-a", "1"), ("x-a", "2"), ("cookie", "a=1"), ("cookie", "b=2")]
        )
        assert answer.body == b"GET /a%2Fb x=1&y"
        assert answer.headers == {
            ":status": "201",
            "date": "Fri, 15 Jan 2027 08:16:40 GMT",
            "x-b": "é",
            "content-length": "16",
        }


async def test_many_requests_on_one_connection_in_any_order(server: Any, h2_client: Any) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0.001 * (5 - int(request.path[1:]) % 5))
        return Response(200, [], request.path.encode() * 1000)

    async with server(handler) as s:
        client = await h2_client(s)
        paths = [f"/{n}" for n in range(100)]
        answers = await asyncio.gather(*(client.get(path) for path in paths))
        assert [answer.body for answer in answers] == [path.encode() * 1000 for path in paths]


async def test_thousands_of_requests_one_after_the_other(server: Any, h2_client: Any) -> None:
    async with server() as s:
        client = await h2_client(s)
        for _ in range(3000):
            assert (await client.get("/")).status == 200
        (connection,) = s.listening._state.connections
        assert not connection._streams
        assert len(connection._input._reset_streams) <= 1024


async def test_a_body_in_the_same_packet_is_there_when_the_handler_starts(server: Any, h2_client: Any) -> None:
    tasks = []

    async def handler(request: Request) -> Response:
        body = await request.read()
        tasks.append(asyncio.current_task())
        return Response(200, [], body)

    async with server(handler) as s:
        client = await h2_client(s)
        assert (await client.post("/", b"abc")).body == b"abc"
        assert (await client.post("/", b"")).body == b""
        assert tasks == [None, None]


@pytest.mark.parametrize("window", [65_535, 1, 100, 1_000_000])
async def test_large_answers_within_the_windows_of_the_client(server: Any, h2_client: Any, window: int) -> None:
    body = bytes(range(256)) * (20_000 if window > 1000 else 10)

    async def handler(request: Request) -> Response:
        return Response(200, [], body + request.path.encode())

    async with server(handler) as s:
        client = await h2_client(s, initial_window=window)
        answers = await asyncio.gather(*(client.get(f"/{n}") for n in range(3)))
        assert [answer.body for answer in answers] == [body + b"/%d" % n for n in range(3)]


async def test_a_client_that_says_nothing_of_windows_has_the_default_one(server: Any, h2_client: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, [], b"x" * 1_000_000)

    async with server(handler) as s:
        client = await h2_client(s, acknowledge=False)
        answer = asyncio.ensure_future(client.get("/"))
        await client.until(lambda: client.received == 65_535)
        await asyncio.sleep(0.02)  # in which more could come
        assert client.received == 65_535
        client.acknowledge_all()
        assert len((await answer).body) == 1_000_000


async def test_100_continue_is_sent_when_the_body_is_asked_for(server: Any, h2_client: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, [], b"unread" if request.path == "/unread" else await request.read())

    async with server(handler) as s:
        client = await h2_client(s)
        unread = client.start("/unread", "POST", [("expect", "100-continue")], end=False)
        await client.until(lambda: unread.ended)
        assert (unread.body, unread.informed, unread.reset) == (b"unread", 0, 0)
        answer = client.start("/", "POST", [("expect", "100-continue")], end=False)
        await client.until(lambda: answer.informed == 1)
        client.h2.send_data(answer.id, b"abc", end_stream=True)
        client.flush()
        await client.until(lambda: answer.ended)
        assert (answer.status, answer.body, answer.informed) == (200, b"abc", 1)


async def test_large_bodies_both_ways_at_once(server: Any, h2_client: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, [], await request.read())

    async with server(handler, upload_budget_bytes=1_000_000) as s:
        client = await h2_client(s)
        bodies = [bytes([n]) * 3_000_000 for n in range(6)]
        answers = await asyncio.gather(*(client.post("/", body) for body in bodies))
        assert [answer.body for answer in answers] == bodies
        (connection,) = s.listening._state.connections
        assert connection._granted == 0
        assert not connection._uploads


async def test_a_body_nobody_asks_for_stays_within_its_window(server: Any, h2_client: Any) -> None:
    asked = asyncio.Event()

    async def handler(request: Request) -> Response:
        await asked.wait()
        return Response(200, [], b"%d" % len(await request.read()))

    async with server(handler) as s:
        client = await h2_client(s)
        answer = asyncio.ensure_future(client.post("/", b"x" * 2_000_000))
        await eventually(lambda: client.sent_data == 256 * 1024, "the window is never used up")
        await asyncio.sleep(0.02)  # in which more could be let in
        assert client.sent_data == 256 * 1024
        asked.set()
        assert (await answer).body == b"2000000"


@pytest.mark.parametrize("announced", [False, True])
async def test_a_body_beyond_the_limit(server: Any, h2_client: Any, announced: bool) -> None:
    async def handler(request: Request) -> Response:
        try:
            await request.read()
        except BodyTooLarge:
            return Response(413, [], b"too large")
        return Response(200, [])

    async with server(handler, max_request_bytes=100_000) as s:
        client = await h2_client(s)
        extra = [("content-length", "1000000")] if announced else []
        answer = await client.post("/", b"x" * 1_000_000, extra=extra)
        assert (answer.status, answer.body, answer.reset) == (413, b"too large", 0)
        assert (await client.post("/", b"x" * 100_000)).status == 200


async def test_head_204_and_304(server: Any, h2_client: Any) -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/stream":
            return Response(200, [], stream=lambda stream: stream.write(b"never"))
        return Response(int(request.path[1:]), [], b"12345")

    async with server(handler) as s:
        client = await h2_client(s)
        answer = await client.get("/200", method="HEAD")
        assert (answer.body, answer.headers["content-length"]) == (b"", "5")
        assert (await client.get("/stream", method="HEAD")).body == b""
        for status in ("204", "304"):
            answer = await client.get("/" + status)
            assert (answer.headers[":status"], answer.body) == (status, b"")
            assert "content-length" not in answer.headers


async def test_an_iterator(server: Any, h2_client: Any) -> None:
    async def letters() -> AsyncIterator[bytes]:
        for letter in (b"a", b"", b"b" * 300_000):
            yield letter
            await asyncio.sleep(0)

    async def failing() -> AsyncIterator[bytes]:
        yield b"abc"
        await asyncio.sleep(0.001)
        raise ValueError("halfway")

    async def handler(request: Request) -> Response:
        return Response(200, [], failing() if request.path == "/fail" else letters())

    async with server(handler) as s:
        client = await h2_client(s)
        assert (await client.get("/")).body == b"a" + b"b" * 300_000
        answer = await client.get("/fail")
        assert (answer.body, answer.reset) == (b"abc", 2)
        assert (await client.get("/")).status == 200


async def test_an_iterator_is_not_run_far_ahead_of_a_slow_reader(server: Any, h2_client: Any) -> None:
    made = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"x" * 65536

    async def handler(request: Request) -> Response:
        return Response(200, [], endless())

    async with server(handler) as s:
        client = await h2_client(s, acknowledge=False)
        client.start("/")
        await client.until(lambda: made > 0)
        await asyncio.sleep(0.02)  # in which all of it could be made
        assert made < 20
        before = made
        client.acknowledge_all()
        await client.until(lambda: made > before)


async def test_a_stream(server: Any, h2_client: Any) -> None:
    streams: list[Stream] = []
    closed: list[str] = []

    async def handler(request: Request) -> Response:
        return Response(200, [("content-type", "application/json")], stream=streams.append)

    async with server(handler) as s:
        client = await h2_client(s)
        answer = client.start("/")
        await client.until(lambda: answer.headers)
        (stream,) = streams
        stream.on_close(lambda: closed.append("x"))
        stream.write(b"ab")
        stream.write(b"")
        stream.write(b"cd")
        assert stream.buffered == 4
        await client.until(lambda: answer.body)
        assert answer.body == b"abcd"
        assert answer.frames == 1
        assert stream.buffered == 0
        stream.write(b"ef")
        stream.close()
        stream.write(b"too late")
        await client.until(lambda: answer.ended)
        assert (answer.body, answer.frames) == (b"abcdef", 2)
        assert stream.closed
        assert closed == ["x"]
        assert stream.buffered == 0
        stream.on_close(lambda: closed.append("y"))
        assert closed == ["x", "y"]


async def test_an_aborted_stream_is_reset_and_the_others_go_on(server: Any, h2_client: Any) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler) as s:
        client = await h2_client(s)
        first, second = client.start("/1"), client.start("/2")
        await client.until(lambda: len(streams) == 2 and second.headers)
        streams[0].write(b"lost")
        streams[0].abort()
        streams[1].write(b"kept")
        await client.until(lambda: second.body and first.reset is not None)
        assert first.reset == 2
        assert second.body == b"kept"


async def test_streams_share_the_connection_fairly(server: Any, h2_client: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, [], b"x" * (3_000_000 if request.path == "/large" else 30_000))

    async with server(handler) as s:
        client = await h2_client(s)
        large = client.start("/large")
        small = [client.start("/small") for _ in range(10)]
        await client.until(lambda: all(answer.ended for answer in small))
        assert len(large.body) < 1_000_000
        await client.until(lambda: large.ended)


async def test_a_withdrawn_request_cancels_its_handler(server: Any, h2_client: Any) -> None:
    seen: list[str] = []

    async def handler(request: Request) -> Response:
        seen.append("asked")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return Response(200, [])

    async with server(handler) as s:
        client = await h2_client(s)
        answer = client.start("/")
        await eventually(lambda: seen == ["asked"], "the request doesn't arrive")
        client.reset(answer)
        await eventually(lambda: seen == ["asked", "cancelled"], "the handler goes on")
        (connection,) = s.listening._state.connections
        assert not connection._cancelled_tasks


async def test_a_request_withdrawn_in_the_same_packet_never_starts(server: Any, h2_client: Any) -> None:
    seen: list[str] = []

    async def handler(request: Request) -> Response:
        seen.append(request.path)
        return Response(200, [])

    async with server(handler) as s:
        client = await h2_client(s)
        with client.together():
            client.reset(client.start("/withdrawn"))
            kept = client.start("/kept")
        await client.until(lambda: kept.ended)
        assert seen == ["/kept"]


async def test_a_client_that_leaves(server: Any, h2_client: Any) -> None:
    asked: list[str] = []
    seen: list[str] = []
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        asked.append(request.path)
        if request.path == "/stream":
            return Response(200, [], stream=streams.append)
        try:
            await (request.read() if request.method == "POST" else asyncio.sleep(30))
        except (ConnectionError, asyncio.CancelledError):
            seen.append(request.path)
            raise
        return Response(200, [])

    async with server(handler) as s:
        client = await h2_client(s)
        client.start("/wait")
        client.start("/stream")
        client.start("/body", method="POST", end=False)
        await eventually(lambda: len(asked) == 3 and bool(streams), "the requests don't arrive")
        streams[0].on_close(lambda: seen.append("/stream"))
        client.close()
        await eventually(lambda: len(seen) == 3 and s.listening.connections == 0, "the server doesn't notice")
        assert sorted(seen) == ["/body", "/stream", "/wait"]


async def test_a_failing_handler(server: Any, h2_client: Any, caplog: Any) -> None:
    def fail(stream: Stream) -> None:
        raise ValueError("in the callback")

    async def handler(request: Request) -> Any:
        if request.path == "/wait":
            await asyncio.sleep(0)
        if request.path == "/none":
            return None
        if request.path == "/value":
            return Response(200, [("a", "b\r\nset-cookie: evil")])
        if request.path == "/name":
            return Response(200, [("a b", "c")])
        if request.path == "/body":
            return Response(200, [], "text")  # type: ignore[arg-type]
        if request.path == "/stream":
            return Response(200, [], stream=fail)
        raise KeyError("secret")

    async with server(handler) as s:
        client = await h2_client(s)
        for path in ("/now", "/wait", "/none", "/value", "/name", "/body"):
            answer = await client.get(path)
            assert answer.status == 500
            assert answer.body == b"This request caused apiserver to panic. Look in the logs for details.\n"
        assert (await client.get("/stream")).reset == 2
        assert "secret" in caplog.text


async def test_connection_close_lets_the_client_go_gracefully(server: Any, h2_client: Any) -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/slow":
            await asyncio.sleep(0.01)
        return Response(401 if request.path == "/" else 200, [("connection", "close")] if request.path == "/" else [])

    async with server(handler) as s:
        client = await h2_client(s)
        slow, answer = client.start("/slow"), client.start("/")
        await client.until(lambda: answer.ended and client.goaways)
        assert "connection" not in answer.headers
        await client.until(lambda: slow.ended)
        assert client.goaways == [(0, 3)]  # one, which names the last stream that is answered
        await s.later(1.0)
        await client.until(lambda: client.gone)
        assert client.goaways == [(0, 3)]


async def test_draining(server: Any, h2_client: Any) -> None:
    asked, finish = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> Response:
        asked.set()
        await finish.wait()
        return Response(200, [], b"done")

    async with server(handler) as s:
        client, idle = await h2_client(s), await h2_client(s)
        first = client.start("/1")
        await asked.wait()
        assert await s.listening.drain(0.02) == 1
        await client.until(lambda: len(client.goaways) == 2)
        assert client.goaways == [(0, 2**31 - 1), (0, 1)]
        late = client.start("/late")
        await client.until(lambda: late.reset is not None)
        assert late.reset == 7
        finish.set()
        await client.until(lambda: first.ended)
        assert first.body == b"done"
        assert await s.listening.drain(5) == 0
        await idle.until(lambda: idle.gone)


async def test_a_client_that_says_goodbye_is_answered_first(server: Any, h2_client: Any) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0.005)
        return Response(200, [], b"x" * 200_000)

    async with server(handler) as s:
        client = await h2_client(s)
        answer = client.start("/")
        client.say_goodbye()
        await client.until(lambda: answer.ended)
        assert len(answer.body) == 200_000
        await client.until(lambda: client.gone)


async def test_a_client_whose_windows_shrink_and_grow(server: Any, h2_client: Any) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler) as s:
        client = await h2_client(s, acknowledge=False)
        answer = client.start("/")
        await client.until(lambda: streams)
        streams[0].write(b"x" * 1000)
        await client.until(lambda: len(answer.body) == 1000)
        client.set_initial_window(0)
        await asyncio.sleep(0.005)
        streams[0].write(b"y" * 100_000)
        await asyncio.sleep(0.005)
        assert len(answer.body) == 1000
        client.set_initial_window(2000)
        await client.until(lambda: len(answer.body) == 2000)
        client.set_initial_window(200_000)
        await client.until(lambda: len(answer.body) == 65_535)
        streams[0].close()
        client.acknowledge_all()
        await client.until(lambda: answer.ended)
        assert answer.body == b"x" * 1000 + b"y" * 100_000


async def test_headers_of_an_answer_longer_than_a_frame(server: Any, h2_client: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, [("x-long", "é" * 30_000)], b"body")

    async with server(handler) as s:
        client = await h2_client(s)
        answer = await client.get("/")
        assert answer.headers["x-long"] == "é" * 30_000
        assert answer.body == b"body"


async def test_over_tls_with_alpn(server: Any, h2_client: Any, certificates: Any, tls_contexts: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, [], await request.read() * 3)

    async with server(handler, tls=tls_contexts("h2")) as s:
        client = await h2_client(s, server_hostname="localhost")
        assert (await client.post("/", b"abc" * 300_000)).body == b"abc" * 900_000
        client.close()
