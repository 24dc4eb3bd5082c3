"""`Response.on_sent` says once how an answer ended, and `Stream.drained` waits for room, over either protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hpack import Encoder

from oarlock.endpoints.http import Request, Response, Stream
from oarlock.server.serving import http2_frames

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2_frames.frame(4, 0, 0, b"")
CLOSED_WINDOW = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2_frames.frame(4, 0, 0, b"\0\4\0\0\0\0")


def http1(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


def http2(path: str, stream_id: int = 1, preface: bytes = PREFACE) -> bytes:
    head = [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", path)]
    return preface + http2_frames.headers_frames(stream_id, Encoder().encode(head), True)


class Answers:
    """Answers every path in its own way and notes how each answer ended."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, bool]] = []
        self.streams: list[Stream] = []

    async def __call__(self, request: Request) -> Response:
        path = request.path
        response = Response(200, [], b"whole")
        if path == "/waits":
            await asyncio.sleep(0)
        elif path == "/forever":
            await asyncio.Event().wait()
        elif path == "/pieces":
            response = Response(200, [], pieces())
        elif path == "/stream":
            response = Response(200, [], stream=self.streams.append)
        elif path == "/unsendable":
            response = Response(200, [("a", "b\r\nc")], b"whole")
        response.on_sent(lambda whole: self.ends.append((path, whole)))
        return response


async def pieces() -> AsyncIterator[bytes]:
    yield b"one"
    yield b"two"


@pytest.mark.parametrize("request_of", [http1, http2])
@pytest.mark.parametrize("path", ["/whole", "/waits", "/pieces"])
def test_an_answer_that_was_sent_says_so_once(wire: Any, request_of: Any, path: str) -> None:
    answers = Answers()
    connection = wire(answers)
    connection.feed(request_of(path))
    connection.settle()
    assert answers.ends == [(path, True)]
    connection.leave()
    assert answers.ends == [(path, True)]


@pytest.mark.parametrize("request_of", [http1, http2])
def test_an_answer_that_goes_on_is_over_when_it_is_closed(wire: Any, request_of: Any) -> None:
    answers = Answers()
    connection = wire(answers)
    connection.feed(request_of("/stream"))
    answers.streams[0].write(b"x")
    connection.settle()
    assert answers.ends == []
    answers.streams[0].close()
    connection.settle()
    assert answers.ends == [("/stream", True)]


@pytest.mark.parametrize("request_of", [http1, http2])
@pytest.mark.parametrize("by", ["client", "writer"])
def test_an_answer_that_was_cut_says_so_once(wire: Any, request_of: Any, by: str) -> None:
    answers = Answers()
    connection = wire(answers)
    connection.feed(request_of("/stream"))
    if by == "client":
        connection.leave()
    else:
        answers.streams[0].abort()
        connection.settle()
    assert answers.ends == [("/stream", False)]


@pytest.mark.parametrize("request_of", [http1, http2])
def test_an_answer_that_cannot_be_sent_is_given_up(wire: Any, request_of: Any) -> None:
    answers = Answers()
    connection = wire(answers)
    connection.feed(request_of("/unsendable"))
    connection.settle()
    assert answers.ends == [("/unsendable", False)]


def test_a_whole_answer_waits_for_the_window_of_its_stream(wire: Any) -> None:
    answers = Answers()
    connection = wire(answers)
    connection.feed(http2("/whole", preface=CLOSED_WINDOW))
    connection.settle()
    assert answers.ends == []
    connection.feed(http2_frames.window_update_frame(1, 5))
    connection.settle()
    assert answers.ends == [("/whole", True)]


def test_whoever_asks_too_late_is_told_at_once() -> None:
    response = Response(200, [])
    response.sent(False)
    response.sent(True)
    ends: list[bool] = []
    response.on_sent(ends.append)
    assert ends == [False]


def test_any_number_may_wait_for_room(wire: Any) -> None:
    answers = Answers()
    connection = wire(answers)
    connection.feed(http2("/stream", preface=CLOSED_WINDOW))
    stream = answers.streams[0]
    stream.write(b"x" * 100_000)
    waiting = [connection.loop.create_task(stream.drained()) for _ in range(3)]
    connection.settle()
    assert not any(task.done() for task in waiting)
    connection.feed(http2_frames.window_update_frame(0, 100_000) + http2_frames.window_update_frame(1, 60_000))
    connection.settle()
    assert all(task.done() for task in waiting)


def test_nobody_waits_for_a_stream_that_has_ended(wire: Any) -> None:
    answers = Answers()
    connection = wire(answers)
    connection.feed(http2("/stream", preface=CLOSED_WINDOW))
    stream = answers.streams[0]
    stream.write(b"x" * 100_000)
    waiting = connection.loop.create_task(stream.drained())
    connection.turn()
    stream.abort()
    connection.settle()
    assert waiting.done()


@pytest.mark.parametrize("request_of", [http1, http2])
@pytest.mark.parametrize("bursts", [(3, 1), (2, 2, 2), (65, 65, 1)])
def test_what_comes_while_slow_requests_are_being_started_is_answered(
    wire: Any, request_of: Any, bursts: tuple[int, ...]
) -> None:
    """More packets may come before this connection has its next turn of the loop: none is left lying."""
    count = 0

    async def takes(request: Request) -> Response:
        nonlocal count
        count += 1
        one.clock.seconds += 1  # so that no other is started in this turn
        return Response(204, [])

    one = wire(takes, max_concurrent_streams=1000)
    if request_of is http2:
        one.feed(PREFACE)
    ids = iter(range(1, 1000, 2))
    packets = [b"".join(_next(request_of, next(ids)) for _ in range(size)) for size in bursts]
    one.loop.call_soon(lambda: [one.connection.data_received(packet) for packet in packets])
    one.settle()
    assert count == sum(bursts)
    one.leave()


def _next(request_of: Any, stream_id: int) -> bytes:
    made: bytes = request_of("/") if request_of is http1 else http2("/", stream_id, b"")
    return made
