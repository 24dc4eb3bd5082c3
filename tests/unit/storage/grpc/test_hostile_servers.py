"""Whatever a server sends, a call ends with a `GrpcError` that says whether the server may have done it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.http2 import frames as h2
from oarlock.storage.grpc.calls import GrpcCode, GrpcError

pytestmark = pytest.mark.anyio

PATH = "/test.Service/Call"
OK_HEADERS = (":status", "200"), ("content-type", "application/grpc")


async def failure(channel: Any, message: bytes = b"question", timeout_s: float = 10) -> GrpcError:
    with pytest.raises(GrpcError) as caught:
        await channel.unary(PATH, message, timeout_s=timeout_s)
    return caught.value


async def test_an_answer_comes_however_it_is_cut(scripted: Any) -> None:
    async def byte_by_byte(server: Any) -> None:
        for byte in server.answer(await server.request(), b"answer"):
            await server.send(bytes([byte]))
        await server.rest()

    async with scripted(byte_by_byte) as channel:
        assert await channel.unary(PATH, b"question", timeout_s=10) == b"answer"


async def test_a_connection_that_ends_at_any_byte_of_the_answer_fails_the_call(scripted: Any) -> None:
    sizes = iter(range(200))
    whole = []

    async def cut(server: Any) -> None:
        stream_id = await server.request()
        data = server.answer(stream_id, b"answer")
        size = next(sizes)
        await server.send(data[:size])
        if size >= len(data):
            whole.append(size)
            await server.rest()

    async with scripted(cut) as channel:
        failures = 0
        while not whole:
            try:
                assert await channel.unary(PATH, b"question", timeout_s=10) == b"answer"
            except GrpcError as error:
                failures += (error.code, error.unsent) == (GrpcCode.UNAVAILABLE, False)
    assert failures == whole[0] > 50


NOT_HTTP2 = [
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x15\x03\x01\x00\x02\x02\x46",
    b"\0" * 9,
    h2.frame(h2.DATA, 0, 1, b"x"),
    b"",
]


@pytest.mark.parametrize("greeting", NOT_HTTP2, ids=["http1", "tls", "a data frame", "no settings", "nothing"])
async def test_what_speaks_no_http2_is_no_server(scripted: Any, greeting: bytes) -> None:
    async def greet(server: Any) -> None:
        await server.send(greeting)

    async with scripted(greet, begins=False) as channel:
        error = await failure(channel)
        assert (error.code, error.unsent) == (GrpcCode.UNAVAILABLE, True)
        assert error.details.startswith("failed to connect: ")


async def test_a_server_that_says_nothing_is_given_up(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oarlock.storage.grpc.channel.CONNECT_S", 0.05)

    async def silent(server: Any) -> None:
        await server.rest()

    async with scripted(silent, begins=False) as channel:
        assert (await failure(channel)).details == "failed to connect: deadline exceeded"


def huge_block() -> bytes:
    pieces = [h2.frame(h2.HEADERS, 0, 1, b"\0" * 16_000)]
    return b"".join(pieces + [h2.frame(h2.CONTINUATION, 0, 1, b"\0" * 16_000)] * 5)


BREAKS = {
    "a frame that is too long": b"\xff\xff\xff" + bytes(6),
    "a header block without end": huge_block(),
    "a header block that is no HPACK": h2.frame(h2.HEADERS, h2.END_HEADERS, 1, b"\xff" * 20),
    "a block that isn't continued": h2.frame(h2.HEADERS, 0, 1, b"") + h2.ping_frame(bytes(8)),
    "a continuation of nothing": h2.frame(h2.CONTINUATION, h2.END_HEADERS, 1, b""),
    "a push": h2.frame(h2.PUSH_PROMISE, h2.END_HEADERS, 1, bytes(4)),
    "a window that is too large": h2.window_update_frame(0, 2**31 - 1) * 2,
    "an initial window that is too large": h2.settings_frame({h2.INITIAL_WINDOW_SIZE: 2**31}),
    "padding that is longer than the frame": h2.frame(h2.DATA, h2.PADDED, 1, b"\x09abc"),
    "more data than was allowed": h2.data_frame(1, bytes(5) + bytes(16_000), end=False) * 300,
}


@pytest.mark.parametrize("data", BREAKS.values(), ids=list(BREAKS))
async def test_what_breaks_the_rules_ends_the_connection(scripted: Any, data: bytes) -> None:
    async def breaking(server: Any) -> None:
        await server.request()
        await server.send(data)
        await server.rest()

    async with scripted(breaking) as channel:
        error = await failure(channel)
        assert (error.code, error.unsent) in {(GrpcCode.UNAVAILABLE, False), (GrpcCode.INTERNAL, False)}


BAD_MESSAGES = {
    "compressed": (b"\1" + (3).to_bytes(4, "big") + b"abc", GrpcCode.INTERNAL),
    "too large": (b"\0" + (2**31).to_bytes(4, "big"), GrpcCode.RESOURCE_EXHAUSTED),
    "two": ((b"\0" + (1).to_bytes(4, "big") + b"a") * 2, GrpcCode.INTERNAL),
    "cut off": (b"\0" + (9).to_bytes(4, "big") + b"abc", GrpcCode.INTERNAL),
    "none": (b"", GrpcCode.INTERNAL),
}


@pytest.mark.parametrize(("data", "code"), BAD_MESSAGES.values(), ids=list(BAD_MESSAGES))
async def test_a_bad_message_fails_its_call_alone(scripted: Any, data: bytes, code: GrpcCode) -> None:
    async def bad_then_good(server: Any) -> None:
        first = await server.request()
        headers = server.headers(first, *OK_HEADERS)
        end = server.headers(first, ("grpc-status", "0"), end=True)
        await server.send(headers + h2.data_frame(first, data, end=False) + end)
        await server.send(server.answer(await server.request(), b"answer"))
        await server.rest()

    async with scripted(bad_then_good) as channel:
        assert (await failure(channel)).code is code
        assert await channel.unary(PATH, b"question", timeout_s=10) == b"answer"


STATUSES = {
    "an error of gRPC": ((("grpc-status", "5"), ("grpc-message", "not %C3%A9 there%")), GrpcCode.NOT_FOUND),
    "an unknown status": ((("grpc-status", "99"),), GrpcCode.UNKNOWN),
    "a status that is no number": ((("grpc-status", "x"),), GrpcCode.UNKNOWN),
    "no status": ((("content-type", "application/grpc"),), GrpcCode.UNKNOWN),
    "HTTP 503": (((":status", "503"),), GrpcCode.UNAVAILABLE),
    "HTTP 404": (((":status", "404"),), GrpcCode.UNIMPLEMENTED),
}


@pytest.mark.parametrize(("fields", "code"), STATUSES.values(), ids=list(STATUSES))
async def test_how_an_answer_ends_is_how_the_call_fails(
    scripted: Any, fields: tuple[tuple[str, str], ...], code: GrpcCode
) -> None:
    async def end(server: Any) -> None:
        await server.send(server.headers(await server.request(), *fields, end=True))
        await server.rest()

    async with scripted(end) as channel:
        error = await failure(channel)
        assert (error.code, error.unsent) == (code, False)
        if code is GrpcCode.NOT_FOUND:
            assert error.details == "not é there%"


async def test_what_answers_in_html_is_no_grpc_server(scripted: Any) -> None:
    async def page(server: Any) -> None:
        stream_id = await server.request()
        headers = server.headers(stream_id, (":status", "200"), ("content-type", "text/html"))
        await server.send(headers + h2.data_frame(stream_id, b"<html>", end=True))
        await server.rest()

    async with scripted(page) as channel:
        assert (await failure(channel)).code is GrpcCode.UNIMPLEMENTED


async def test_a_refused_stream_and_one_after_goaway_were_not_begun(scripted: Any) -> None:
    async def refuse(server: Any) -> None:
        await server.send(h2.rst_stream_frame(await server.request(), h2.ErrorCode.REFUSED_STREAM))
        await server.request()
        await server.send(h2.goaway_frame(1, 0, "maintenance"))
        await server.rest()

    async with scripted(refuse) as channel:
        assert (await failure(channel)).unsent
        error = await failure(channel)
        assert error.unsent
        assert "maintenance" in error.details


async def test_a_server_that_asks_for_signs_of_life_without_reading_them_is_left(scripted: Any) -> None:
    left = asyncio.Event()

    async def flood(server: Any) -> None:
        await server.request()
        try:
            while True:
                await server.send(h2.ping_frame(bytes(8)) * 10_000)
        except ConnectionError:
            left.set()

    async with scripted(flood) as channel:
        assert (await failure(channel)).code is GrpcCode.UNAVAILABLE
        await asyncio.wait_for(left.wait(), 60)


async def test_a_call_without_answer_ends_at_its_deadline_and_tells_the_server(scripted: Any) -> None:
    reset = asyncio.Event()

    async def silent(server: Any) -> None:
        await server.request()
        await server.frame(h2.RST_STREAM)
        reset.set()

    async with scripted(silent) as channel:
        error = await failure(channel, timeout_s=0.05)
        assert (error.code, error.unsent) == (GrpcCode.DEADLINE_EXCEEDED, False)
        await asyncio.wait_for(reset.wait(), 60)


async def test_calls_wait_while_the_server_takes_no_more_at_a_time(scripted: Any) -> None:
    most = 0

    async def one_at_a_time(server: Any) -> None:
        nonlocal most
        await server.send(h2.settings_frame({h2.MAX_CONCURRENT_STREAMS: 2}))
        await server.send(server.answer(await server.request(), b""))  # the settings have arrived with it
        while True:
            stream_id = await server.request()
            most = max(most, stream_id)
            await server.send(server.answer(stream_id, str(stream_id).encode()))

    async with scripted(one_at_a_time) as channel:
        await channel.unary(PATH, b"", timeout_s=10)
        answers = await asyncio.gather(*(channel.unary(PATH, b"x", timeout_s=10) for _ in range(20)))
        assert sorted(map(int, answers)) == list(range(3, 43, 2))


async def test_a_large_message_waits_for_the_windows(scripted: Any) -> None:
    received = 0

    async def slow(server: Any) -> None:
        nonlocal received
        while True:
            _, flags, stream_id, payload = await server.frame(h2.DATA)
            received += len(payload)
            if flags & h2.END_STREAM:
                break
            await server.send(h2.window_update_frame(0, len(payload)) + h2.window_update_frame(stream_id, len(payload)))
        await server.send(server.answer(stream_id, b"done"))
        await server.rest()

    async with scripted(slow) as channel:
        assert await channel.unary(PATH, bytes(500_000), timeout_s=10) == b"done"
    assert received == 500_005
