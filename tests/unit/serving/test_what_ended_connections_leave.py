"""Connections that ended leave no memory behind, although nobody collects cycles."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from hpack import Encoder

from oarlock.endpoints.http import Request, Response, Stream
from oarlock.http2 import frames as h2
from oarlock.server.serving import listener_state
from oarlock.server.serving.listener_state import CONNECTIONS, FreedMemory

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


HTTP2 = h2.PREFACE + h2.frame(h2.SETTINGS, 0, 0, b"")
HEAD = Encoder().encode([(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")])


@pytest.mark.parametrize(
    "asked",
    [GET, HTTP2 + h2.headers_frames(1, HEAD, True), HTTP2 + b"".join(h2.headers_frames(n, HEAD, True) for n in (1, 3))],
    ids=["HTTP/1.1", "HTTP/2", "two streams"],
)
def test_a_client_that_leaves_its_watch_leaves_no_cycle(wire: Any, asked: bytes) -> None:
    ended: list[bool] = []
    keeps: list[Stream] = []

    async def watching(request: Request) -> Response:
        def begin(stream: Stream) -> None:
            stream.write(b"event")
            keeps.append(stream)

        response = Response(200, [], stream=begin)
        response.on_sent(ended.append)
        return response

    one = wire(watching)
    one.feed(asked)
    assert b"event" in one.settle()
    connection = weakref.ref(one.connection)
    gc.collect()
    gc.disable()
    try:
        one.leave()
        keeps.clear()
        one.transport.protocol = None
        one.turn(3)
        assert connection() is None
        assert gc.collect() == 0
    finally:
        gc.enable()
    assert set(ended) == {False}


def test_a_request_with_a_body_leaves_no_cycle(wire: Any) -> None:
    async def echo(request: Request) -> Response:
        return Response(200, [], await request.read())

    post = Encoder().encode([(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")])
    one = wire(echo)
    one.feed(HTTP2)
    gc.collect()
    gc.disable()
    try:
        for n in (1, 3, 5):
            one.feed(h2.headers_frames(n, post, False))  # the handler waits for the body
            one.feed(h2.data_frame(n, b"body %d" % n, True))
        assert b"body 5" in one.settle()
        assert gc.collect() == 0
    finally:
        gc.enable()
    one.leave()


def test_memory_is_given_back_once_after_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[int] = []
    monkeypatch.setattr(listener_state, "_trim", trimmed.append)

    async def come_and_go() -> None:
        freed, loop = FreedMemory(), asyncio.get_running_loop()
        for n in range(2 * CONNECTIONS - 1):
            freed.connection_ended()
            freed.give_back(loop)
            if n == CONNECTIONS - 2:
                assert trimmed == []
        await loop.shutdown_default_executor()
        assert trimmed == [0]

    asyncio.run(come_and_go())


def test_where_memory_cannot_be_given_back_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_state, "_trim", None)

    async def come_and_go() -> None:
        freed = FreedMemory()
        for _ in range(CONNECTIONS):
            freed.connection_ended()
        freed.give_back(asyncio.get_running_loop())

    asyncio.run(come_and_go())
