"""HTTP/2: what is refused, what ends a stream, what ends the connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hpack import Decoder, Encoder

from oarlock.endpoints.http import Request, Response, Stream
from oarlock.http2 import frames as http2_frames

pytestmark = pytest.mark.anyio

HEAD = [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/")]
WAIT_S = 20.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = http2_frames.frame(4, 0, 0, b"")


def frames_of(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """(type, flags, stream, payload) of each frame."""
    found = []
    while len(data) >= 9:
        size = int.from_bytes(data[:3], "big")
        found.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + size]))
        data = data[9 + size :]
    return found


def goaway_of(data: bytes) -> tuple[int, bytes]:
    """Code and text of the last GOAWAY."""
    payload = next(payload for kind, _, _, payload in reversed(frames_of(data)) if kind == 7)
    return int.from_bytes(payload[4:8], "big"), payload[8:]


async def begin(s: Any) -> Any:
    client = await s.connect()
    await client.send(PREFACE + SETTINGS)
    return client


def request(stream_id: int, head: Any = None, end: bool = True) -> bytes:
    return http2_frames.headers_frames(stream_id, Encoder().encode(head or HEAD), end)


async def answers(client: Any, count: int) -> list[tuple[int, int, int, bytes]]:
    """The first `count` frames that are about streams."""
    found: list[tuple[int, int, int, bytes]] = []
    while len(found) < count:
        head = await client.exactly(9)
        payload = await client.exactly(int.from_bytes(head[:3], "big"))
        if head[3] in (0, 1, 3):
            found.append((head[3], head[4], int.from_bytes(head[5:], "big"), payload))
    return found


@pytest.mark.parametrize(
    "head",
    [
        [*HEAD, ("Upper", "x")],
        [*HEAD, ("a b", "x")],
        [*HEAD, ("", "x")],
        [*HEAD, ("é", "x")],
        [*HEAD, ("a", "x\ny")],
        [*HEAD, ("a", " x")],
        [*HEAD, ("connection", "close")],
        [*HEAD, ("transfer-encoding", "chunked")],
        [*HEAD, ("te", "gzip")],
        [*HEAD, ("host", "other")],
        [*HEAD, (":path", "/twice")],
        [*HEAD, ("a", "b"), (":late", "x")],
        [*HEAD, (":status", "200")],
        [*HEAD, (":protocol", "websocket")],
        [*HEAD, ("content-length", "3")],
        [*HEAD, ("content-length", "x")],
        [*HEAD, ("content-length", "+0")],
        HEAD[1:],
        [HEAD[0], *HEAD[2:]],
        HEAD[:3],
        [*HEAD[:2], HEAD[3]],
        [*HEAD[:3], (":path", "")],
        [*HEAD[:3], (":path", "relative")],
        [*HEAD[:3], (":path", "/a b")],
        [(":method", "G T"), *HEAD[1:]],
        [(":method", "CONNECT"), (":authority", "h:1")],
    ],
)
async def test_a_malformed_request_costs_its_stream_only(server: Any, head: Any) -> None:
    seen: list[str] = []

    async def handler(request: Request) -> Response:
        seen.append(request.path)
        return Response(204, [])

    async with server(handler) as s:
        client = await begin(s)
        encoder = Encoder()
        await client.send(http2_frames.headers_frames(1, encoder.encode(head), True))
        await client.send(http2_frames.headers_frames(3, encoder.encode(HEAD), True))
        first, second = await answers(client, 2)
        assert first == (3, 0, 1, b"\0\0\0\1")
        assert second[0] == 1
        assert second[2] == 3
        assert seen == ["/"]


async def test_a_body_that_is_not_as_long_as_announced_costs_its_stream_only(server: Any) -> None:
    async with server() as s:
        client = await begin(s)
        for stream_id, body in ((1, b"ab"), (3, b"abcd"), (5, b"abc")):
            await client.send(request(stream_id, [*HEAD, ("content-length", "3")], end=False))
            await client.send(http2_frames.data_frame(stream_id, body, True))
        first, second, third, _ = await answers(client, 4)
        assert first == (3, 0, 1, b"\0\0\0\1")
        assert second == (3, 0, 3, b"\0\0\0\1")
        assert third[:3] == (1, 4, 5)


async def test_too_many_streams_at_once_are_refused(server: Any) -> None:
    release = asyncio.Event()

    async def handler(request: Request) -> Response:
        await release.wait()
        return Response(204, [])

    async with server(handler, max_concurrent_streams=3) as s:
        client = await begin(s)
        await client.send(b"".join(request(stream_id) for stream_id in (1, 3, 5, 7)))
        assert await answers(client, 1) == [(3, 0, 7, b"\0\0\0\7")]
        release.set()
        assert [frame[2] for frame in await answers(client, 3)] == [1, 3, 5]
        await client.send(request(9))
        assert (await answers(client, 1))[0][2] == 9


async def test_headers_too_large_are_answered_431_and_far_too_large_end_the_connection(server: Any) -> None:
    async with server(max_header_bytes=20_000) as s:
        client = await begin(s)
        await client.send(request(1, [*HEAD, ("a", "x" * 25_000)]))
        head, body = await answers(client, 2)
        assert (head[2], body) == (1, (0, 1, 1, b"431 Request Header Fields Too Large"))
        await client.send(request(3, [*HEAD, *[("a", "x")] * 1001]))
        assert (await answers(client, 2))[1][3] == b"431 Request Header Fields Too Large"
        await client.send(request(5, [*HEAD, ("a", "x" * 50_000)]))
        assert goaway_of(await client.rest())[0] == 11


async def test_a_header_bomb(server: Any) -> None:
    async with server() as s:
        client = await begin(s)
        encoder = Encoder()
        block = encoder.encode([*HEAD, ("a", "x" * 3900)]) + encoder.encode([("a", "x" * 3900)]) * 16_000
        await client.send(http2_frames.headers_frames(1, block, True))
        assert goaway_of(await client.rest())[0] == 11


@pytest.mark.parametrize("name", ["cookie", "a"])
async def test_references_to_the_same_header_again_and_again_end_the_connection(server: Any, name: str) -> None:
    """A kilobyte of references would be a megabyte of headers."""
    async with server() as s:
        client = await begin(s)
        encoder = Encoder()
        await client.send(http2_frames.headers_frames(1, encoder.encode([*HEAD, (name, "x" * 990)]), True))
        assert len(await answers(client, 2)) == 2
        block = encoder.encode([*HEAD, *[(name, "x" * 990)] * 990])
        assert len(block) < 1100
        await client.send(http2_frames.headers_frames(3, block, True))
        assert goaway_of(await client.rest())[0] == 11


async def test_all_that_the_table_holds_may_be_referred_to(server: Any) -> None:
    async with server() as s:
        client = await begin(s)
        encoder = Encoder()
        head = [*HEAD, *[(f"x-{n}", f"{n}" * 15) for n in range(10, 48)]]
        for n in range(3):
            block = encoder.encode(head)
            await client.send(http2_frames.headers_frames(2 * n + 1, block, True))
            assert (await answers(client, 2))[0][0] == 1
        assert len(block) < 60


async def test_a_megabyte_of_headers_sent_as_they_are_is_read(server: Any) -> None:
    async with server() as s:
        client = await begin(s)
        await client.send(request(1, [*HEAD, *[(f"x-{n}", "y" * 1000) for n in range(900)]]))
        assert (await answers(client, 2))[1][3].startswith(b"GET /")


async def test_cookies_become_one(server: Any) -> None:
    heads = []

    async def handler(request: Request) -> Response:
        heads.append((request.headers["cookie"], [line for line in request.all_headers if line[0] == "cookie"]))
        return Response(204, [])

    async with server(handler) as s:
        client = await begin(s)
        await client.send(request(1, [*HEAD, ("cookie", "a=1"), ("b", "c"), ("cookie", "d=2")]))
        await answers(client, 1)
    assert heads == [("a=1; d=2", [("cookie", "a=1; d=2")])]


async def test_answers_fill_no_larger_table_than_the_usual_one(server: Any) -> None:
    """A client may offer gigabytes for the table of header compression; what is put in there stays with the server."""

    async def handler(request: Request) -> Response:
        return Response(204, [("x", request.headers["x"])])

    async with server(handler) as s:
        client = await begin(s)
        await client.send(http2_frames.frame(4, 0, 0, (1).to_bytes(2, "big") + (2**31).to_bytes(4, "big")))
        decoder = Decoder()
        decoder.max_allowed_table_size = 4096  # it raises when the server uses more
        for n in range(20):
            await client.send(request(2 * n + 1, [*HEAD, ("x", f"{n:03}" * 300)]))
            (_, _, _, block), *_ = await answers(client, 1)
            assert dict(decoder.decode(block))["x"] == f"{n:03}" * 300
        assert sum(len(name) + len(value) + 32 for name, value in decoder.header_table.dynamic_entries) <= 4096


async def test_a_burst_of_requests_lets_others_have_their_turn(server: Any) -> None:
    """Of hundreds of requests in one packet no more are started in one turn of the loop than others can wait for."""
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

    async with server(handler, max_concurrent_streams=1000) as s:
        client = await begin(s)
        await asyncio.sleep(0.01)
        tick()
        await client.send(b"".join(request(2 * n + 1) for n in range(900)))
        assert len(await answers(client, 900)) == 900
    assert max(starts.count(n) for n in set(starts)) <= 64


async def test_headers_of_all_requests_together_are_bounded(server: Any) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(30)
        return Response(204, [])

    async with server(handler, max_header_bytes=10_000) as s:
        client = await begin(s)
        encoder = Encoder()
        for n in range(6):
            await client.send(http2_frames.headers_frames(2 * n + 1, encoder.encode([*HEAD, ("a", "x" * 9000)]), True))
        assert [frame[:3] for frame in await answers(client, 2)] == [(3, 0, 9), (3, 0, 11)]


async def test_continuations_without_end(server: Any) -> None:
    async with server() as s:
        client = await begin(s)
        await client.send(http2_frames.frame(1, 0, 1, b"\x82") + http2_frames.frame(9, 0, 1, b"") * 100)
        assert goaway_of(await client.rest())[0] == 1


async def test_rapid_resets(server: Any) -> None:
    started = 0

    async def handler(request: Request) -> Response:
        nonlocal started
        started += 1
        await asyncio.sleep(30)
        return Response(204, [])

    async with server(handler, resets_per_s=10, resets_burst=50) as s:
        client = await begin(s)
        for n in range(60):
            await client.send(request(2 * n + 1) + http2_frames.rst_stream_frame(2 * n + 1, 8))
            await asyncio.sleep(0)
        assert goaway_of(await client.rest()) == (11, b"too many resets")
        assert started < 60


async def test_resets_at_a_rate_that_is_allowed(server: Any) -> None:
    async with server(resets_per_s=10, resets_burst=20) as s:
        client = await begin(s)
        for n in range(100):
            await client.send(request(2 * n + 1, end=False) + http2_frames.rst_stream_frame(2 * n + 1, 8))
            if n % 10 == 9:
                await asyncio.sleep(0.003)
                s.clock.seconds += 1
        await client.send(request(999))
        assert (await answers(client, 1))[0][2] == 999


@pytest.mark.parametrize(
    "flood",
    [
        SETTINGS,
        http2_frames.ping_frame(b"12345678"),
        http2_frames.frame(2, 0, 1, b"\0\0\0\0\x10"),
        http2_frames.frame(0xEE, 0, 0, b""),
        http2_frames.data_frame(1, b"", False),
        http2_frames.data_frame(1, b"x", False),
        http2_frames.window_update_frame(0, 1),
        http2_frames.window_update_frame(1, 1),
        http2_frames.window_update_frame(3, 1),
    ],
    ids=["settings", "ping", "priority", "unknown", "empty", "tiny", "window", "stream window", "closed stream"],
)
async def test_floods_of_frames_that_carry_nothing(server: Any, flood: bytes) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0 if request.path == "/closed" else 30)
        return Response(204, [])

    async with server(handler, control_burst=1000) as s:
        client = await begin(s)
        await client.send(request(1, end=False) + request(3, [*HEAD[:3], (":path", "/closed")]))
        await answers(client, 1)
        await client.send(flood * 900)
        await client.send(request(5, [*HEAD[:3], (":path", "/closed")]))
        assert (await answers(client, 1))[0][2] == 5
        await client.send(flood * 900)
        assert goaway_of(await client.rest()) == (11, b"too many control frames")


async def test_unknown_settings_are_not_kept(server: Any) -> None:
    async with server() as s:
        client = await begin(s)
        for n in range(20):
            await client.send(
                http2_frames.frame(
                    4, 0, 0, b"".join((256 + 1000 * n + k).to_bytes(2, "big") + b"\0\0\0\1" for k in range(1000))
                )
            )
        await client.send(request(1))
        await answers(client, 1)


async def test_a_client_that_acknowledges_every_frame_is_no_flood(server: Any, h2_client: Any) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler, control_burst=10, control_frames_per_s=0.0) as s:
        client = await h2_client(s)
        answer = client.start("/")
        await client.until(lambda: streams)
        for n in range(300):
            streams[0].write(b"x" * 40_000)
            await client.until(lambda n=n: len(answer.body) == 40_000 * (n + 1))


@pytest.mark.parametrize(
    "begins",
    [
        b"",
        PREFACE[:10],
        PREFACE + SETTINGS[:5],
        PREFACE + SETTINGS + http2_frames.frame(1, 0, 1, b"\x82"),
        b"PRI * HTTP/2.0\r\n\r\n",
    ],
)
async def test_what_begins_and_does_not_go_on_is_ended(server: Any, begins: bytes) -> None:
    async with server() as s:
        client = await s.connect()
        await client.send(begins)
        await s.later(1)
        await s.later(31)
        assert s.listening.connections == 1
        await s.later(3)
        await client.rest()
        await s.later(3)
        assert s.listening.connections == 0


async def test_a_connection_without_streams_is_closed_after_a_while(server: Any, h2_client: Any) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append) if request.path == "/watch" else Response(200, [])

    async with server(handler) as s:
        idle, busy = await h2_client(s), await h2_client(s)
        await idle.get("/")
        watch = busy.start("/watch")
        await s.later(89)
        assert s.listening.connections == 2
        await s.later(2)
        await idle.until(lambda: idle.gone)
        assert idle.goaways == [(0, 1)]
        await s.later(5000)
        streams[0].write(b"still here")
        await busy.until(lambda: watch.body == b"still here")


@pytest.mark.parametrize(("reads", "is_cut"), [(0, True), (1, True), (300_000, False)])
async def test_only_a_stream_of_which_next_to_nothing_is_taken_is_cut(
    server: Any, h2_client: Any, reads: int, is_cut: bool
) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler, stream_budget_bytes=100_000) as s:
        client = await h2_client(s, acknowledge=False)
        slow, other = client.start("/"), client.start("/")
        await client.until(lambda: len(streams) == 2)
        streams[0].write(b"x" * 3_000_000)
        await client.until(lambda: len(slow.body) >= 65_535)
        client.h2.increment_flow_control_window(3_000_000)
        client.flush()
        for _ in range(4):
            await s.later(20)
            streams[1].write(b"tick")
            if reads and not streams[0].closed:
                before = len(slow.body)
                client.h2.increment_flow_control_window(reads, slow.id)
                client.flush()
                await client.until(lambda before=before: len(slow.body) == before + reads)
        await client.until(lambda: len(other.body) == 16)
        assert streams[0].closed is is_cut
        assert (slow.reset == 2) is is_cut
        assert not streams[1].closed


async def test_a_stream_within_its_budget_may_take_its_time(server: Any, h2_client: Any) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler) as s:
        client = await h2_client(s, acknowledge=False)
        client.start("/")
        await client.until(lambda: streams)
        streams[0].write(b"x" * 3_000_000)
        for _ in range(5):
            await s.later(1000)
        assert not streams[0].closed


async def test_beyond_the_hard_limits(server: Any, h2_client: Any) -> None:
    streams: list[Stream] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler, stream_hard_bytes=1_000_000, connection_hard_bytes=2_500_000) as s:
        client = await h2_client(s, acknowledge=False)
        for _ in range(4):
            client.start("/")
        await client.until(lambda: len(streams) == 4)
        streams[0].write(b"x" * 1_000_001)
        assert streams[0].closed
        assert s.listening.connections == 1
        for stream in streams[1:]:
            stream.write(b"x" * 900_000)
        await client.until(lambda: True)
        await asyncio.sleep(0.01)
        assert s.listening.connections == 0
        assert all(stream.closed for stream in streams)


async def test_a_large_whole_answer_counts_once_and_not_against_the_hard_limit(server: Any, h2_client: Any) -> None:
    body = b"x" * 3_000_000

    async def handler(request: Request) -> Response:
        return Response(200, [], body)

    async with server(handler, stream_hard_bytes=1_000_000, connection_hard_bytes=2_000_000) as s:
        client = await h2_client(s)
        found = await asyncio.gather(*(client.get("/") for _ in range(3)))
        assert all(answer.body == body for answer in found)


async def test_a_connection_that_is_not_read_at_all_is_cut(server: Any, h2_client: Any) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, [], b"x" * 30_000_000)

    async with server(handler) as s:
        client = await h2_client(s, initial_window=2**30)
        client.h2.increment_flow_control_window(2**30)
        client.flush()
        client.raw.writer.transport.pause_reading()
        client.start("/")
        for _ in range(4):
            await s.later(20)
        assert s.listening.connections == 0


async def test_a_client_that_asks_and_never_reads_is_soon_answered_no_more_and_then_cut(server: Any) -> None:
    answered = 0

    async def handler(request: Request) -> Response:
        nonlocal answered
        answered += 1
        return Response(204, [("x", "y" * 5000)])

    async with server(handler) as s:
        client = await begin(s)
        client.writer.transport.pause_reading()
        for n in range(19_000):
            client.writer.write(request(2 * n + 1))
            if n % 100 == 0:
                await asyncio.sleep(0)
        async with asyncio.timeout(WAIT_S):
            while answered <= 100:  # noqa: ASYNC110 the server is given its turns
                await asyncio.sleep(0)
        for _ in range(3):
            await s.later(20)
        assert 100 < answered < 5_000
        assert s.listening.connections == 0


@pytest.mark.parametrize(
    ("rubbish", "code"),
    [
        (http2_frames.frame(0, 0, 0, b"x"), 1),
        (http2_frames.frame(1, 4, 0, b"\x82"), 1),
        (http2_frames.frame(1, 4, 2, b"\x82"), 1),
        (http2_frames.frame(1, 5, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff"), 9),
        (http2_frames.frame(1, 5, 1, b"\x3f\xff\xff\xff\x7f"), 9),
        (http2_frames.frame(1, 0x25, 1, b"\0\0\0\1\0\x82"), 1),
        (http2_frames.frame(4, 0, 0, b"\0\4\xff\xff\xff\xff"), 3),
        (http2_frames.frame(4, 0, 0, b"x"), 6),
        (http2_frames.frame(5, 4, 1, b"\0\0\0\2"), 1),
        (http2_frames.frame(6, 0, 0, b"short"), 6),
        (http2_frames.frame(8, 0, 0, b"\0\0\0\0"), 1),
        (http2_frames.frame(8, 0, 0, b"\x7f\xff\xff\xff"), 3),
        (http2_frames.frame(9, 4, 1, b""), 1),
        (b"\xff\xff\xff\0\0\0\0\0\1", 6),
        (http2_frames.frame(0, 0, 1, b"x" * 16_385), 6),
    ],
)
async def test_what_breaks_the_protocol_ends_the_connection(server: Any, rubbish: bytes, code: int) -> None:
    async with server() as s:
        client = await begin(s)
        await client.send(rubbish)
        if rubbish.startswith(b"\xff\xff\xff"):
            client.writer.write_eof()
            await client.rest()
        else:
            assert goaway_of(await client.rest())[0] == code
            await s.later(2)
        await asyncio.sleep(0.01)
        assert s.listening.connections == 0


async def test_a_preface_that_turns_out_wrong(server: Any) -> None:
    async with server() as s:
        client = await s.connect()
        await client.send(b"PRI * HTTP/1.1\r\nHost: h\r\n\r\n")
        assert goaway_of(await client.rest())[0] == 1
