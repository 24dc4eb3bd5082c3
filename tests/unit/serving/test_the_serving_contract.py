"""The contract of `oarlock.endpoints.http` (`Response.on_sent`, `Stream.on_close`, `Stream.drained`) over HTTP/1.1,
HTTP/2 and in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hpack import Encoder

from oarlock.apps.api_server import APIServer
from oarlock.endpoints.http import BodySource, Request, Response, Stream
from oarlock.http2 import frames as http2_frames
from oarlock.testing.server import InMemory, Lines

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2_frames.frame(4, 0, 0, b"")
CLOSED_WINDOW = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2_frames.frame(4, 0, 0, b"\0\4\0\0\0\0")


def http1(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


def http2(path: str, stream_id: int = 1, preface: bytes = PREFACE) -> bytes:
    head = [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", path)]
    return preface + http2_frames.headers_frames(stream_id, Encoder().encode(head), True)


class Http1Client:
    def __init__(self, wire: Any, handler: Any) -> None:
        self.wire = wire(handler)

    def ask(self, path: str) -> None:
        self.wire.feed(http1(path))

    def settle(self) -> None:
        self.wire.settle()

    def leave(self) -> None:
        self.wire.leave()

    def stop_reading(self) -> None:
        self.wire.connection.pause_writing()

    def read_on(self) -> None:
        self.wire.connection.resume_writing()
        self.settle()


class Http2Client(Http1Client):
    def ask(self, path: str) -> None:
        self.wire.feed(http2(path))

    def stop_reading(self) -> None:
        self.wire.feed(http2_frames.frame(4, 0, 0, b"\0\4\0\0\0\0"))

    def read_on(self) -> None:
        self.wire.feed(http2_frames.window_update_frame(0, 2**20) + http2_frames.window_update_frame(1, 2**20))
        self.settle()


class MemoryClient(Http1Client):
    def __init__(self, wire: Any, handler: Any) -> None:
        self.handler = handler
        super().__init__(wire, handler)
        self.api = InMemory(APIServer(serve=[]))
        self.api._handle = handler

    def ask(self, path: str) -> None:
        self.request = self.wire.loop.create_task(self._ask(path))
        self.settle()

    async def _ask(self, path: str) -> None:
        with contextlib.suppress(ValueError):  # that of a failing body
            await self.api.request("GET", path)

    def leave(self) -> None:
        self.request.cancel()
        self.settle()

    def settle(self) -> None:
        self.wire.turn(10)

    def stop_reading(self) -> None:
        self.lines.buffered = 2**20

    def read_on(self) -> None:
        self.lines.buffered = 0
        self.settle()

    @property
    def lines(self) -> Lines:
        (stream,) = self.handler.streams
        return stream


every_transport = pytest.mark.parametrize("client_of", [Http1Client, Http2Client, MemoryClient])


class Counting(BodySource):
    """Ten thousand bytes, made while they are sent."""

    def __init__(self) -> None:
        super().__init__(10_000)
        self._left = 10_000

    def read(self, most: int) -> bytes:
        size = min(most, 1000, self._left)
        self._left -= size
        self.done = not self._left
        return b"x" * size


async def pieces() -> AsyncIterator[bytes]:
    yield b"one"
    yield b"two"


async def failing() -> AsyncIterator[bytes]:
    yield b"one"
    raise ValueError("halfway")


class Answers:
    """Answers every path in its own way, and notes in order what the callbacks were called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.streams: list[Any] = []
        self.responses: list[Response] = []

    async def __call__(self, request: Request) -> Response:
        path = request.path
        response = Response(200, [], b"whole")
        if path == "/waits":
            await asyncio.sleep(0)
        elif path == "/pieces":
            response = Response(200, [], pieces())
        elif path == "/fails":
            response = Response(200, [], failing())
        elif path == "/source":
            response = Response(200, [], Counting())
        elif path == "/stream":
            response = Response(200, [], stream=self._begin)
        elif path == "/unsendable":
            response = Response(200, [("a", "b\r\nc")], b"whole")
        self.responses.append(response)
        response.on_sent(self._raise)
        response.on_sent(lambda whole: self.calls.append(whole))
        response.on_sent(lambda whole: self.calls.append("second"))
        return response

    def _begin(self, stream: Stream) -> None:
        self.streams.append(stream)
        stream.on_close(self._raise)
        stream.on_close(lambda: self.calls.append("closed"))

    def _raise(self, whole: bool = True) -> None:
        raise RuntimeError("in a callback")


@every_transport
@pytest.mark.parametrize("path", ["/whole", "/waits", "/pieces", "/source"])
def test_an_answer_that_was_sent_says_so_once(wire: Any, client_of: Any, path: str) -> None:
    answers = Answers()
    client = client_of(wire, answers)
    client.ask(path)
    client.settle()
    assert answers.calls == [True, "second"]
    client.leave()
    assert answers.calls == [True, "second"]


@every_transport
def test_an_answer_that_goes_on_is_over_when_it_is_closed(wire: Any, client_of: Any) -> None:
    answers = Answers()
    client = client_of(wire, answers)
    client.ask("/stream")
    (stream,) = answers.streams
    stream.write(b"x")
    client.settle()
    assert answers.calls == []
    stream.close()
    stream.write(b"too late")
    stream.close()
    client.settle()
    assert answers.calls == ["closed", True, "second"]
    assert stream.closed
    client.leave()
    assert answers.calls == ["closed", True, "second"]


@every_transport
@pytest.mark.parametrize("by", ["client", "writer"])
def test_an_answer_that_was_cut_says_so_once(wire: Any, client_of: Any, by: str) -> None:
    answers = Answers()
    client = client_of(wire, answers)
    client.ask("/stream")
    (stream,) = answers.streams
    if by == "client":
        client.leave()
    else:
        stream.abort()
        stream.abort()
        client.settle()
    assert answers.calls == ["closed", False, "second"]
    assert stream.closed
    stream.close()
    client.settle()
    assert answers.calls == ["closed", False, "second"]


@every_transport
def test_an_answer_whose_body_fails_was_not_sent(wire: Any, client_of: Any) -> None:
    answers = Answers()
    client = client_of(wire, answers)
    client.ask("/fails")
    client.settle()
    assert answers.calls == [False, "second"]


@pytest.mark.parametrize("client_of", [Http1Client, Http2Client])
def test_an_answer_that_cannot_be_sent_is_given_up(wire: Any, client_of: Any) -> None:
    answers = Answers()
    client = client_of(wire, answers)
    client.ask("/unsendable")
    client.settle()
    assert answers.calls == [False, "second"]


@every_transport
def test_whoever_asks_too_late_is_told_at_once(wire: Any, client_of: Any) -> None:
    answers = Answers()
    client = client_of(wire, answers)
    client.ask("/stream")
    answers.streams[0].close()
    client.settle()
    late: list[Any] = []
    answers.responses[0].on_sent(late.append)
    answers.streams[0].on_close(lambda: late.append("closed"))
    assert late == [True, "closed"]


def test_a_whole_answer_waits_for_the_window_of_its_stream(wire: Any) -> None:
    answers = Answers()
    connection = wire(answers)
    connection.feed(http2("/whole", preface=CLOSED_WINDOW))
    connection.settle()
    assert answers.calls == []
    connection.feed(http2_frames.window_update_frame(1, 5))
    connection.settle()
    assert answers.calls == [True, "second"]


@every_transport
def test_drained_returns_at_once_when_little_is_buffered(wire: Any, client_of: Any) -> None:
    answers = Answers()
    client = client_of(wire, answers)
    client.ask("/stream")
    (stream,) = answers.streams
    with pytest.raises(StopIteration):
        stream.drained().send(None)
    stream.close()
    client.settle()
    with pytest.raises(StopIteration):
        stream.drained().send(None)


@every_transport
def test_any_number_may_wait_until_it_has_drained_and_any_may_give_up(wire: Any, client_of: Any) -> None:
    answers = Answers()
    client = client_of(wire, answers)
    client.ask("/stream")
    (stream,) = answers.streams
    client.stop_reading()
    stream.write(b"x" * 100_000)
    waiting = [client.wire.loop.create_task(stream.drained()) for _ in range(4)]
    client.settle()
    waiting.pop().cancel()
    client.settle()
    assert not any(task.done() for task in waiting)
    client.read_on()
    client.settle()
    assert all(task.done() and not task.cancelled() for task in waiting)
    stream.close()
    client.settle()
    assert answers.calls == ["closed", True, "second"]


@every_transport
@pytest.mark.parametrize("by", ["client", "writer"])
def test_nobody_waits_for_a_stream_that_has_ended(wire: Any, client_of: Any, by: str) -> None:
    answers = Answers()
    client = client_of(wire, answers)
    client.ask("/stream")
    (stream,) = answers.streams
    client.stop_reading()
    stream.write(b"x" * 100_000)
    waiting = [client.wire.loop.create_task(stream.drained()) for _ in range(2)]
    client.wire.turn()
    end: Callable[[], None] = client.leave if by == "client" else stream.abort
    end()
    client.settle()
    assert all(task.done() for task in waiting)


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
