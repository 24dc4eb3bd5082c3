"""A watch over WebSocket has the budgets of any other answer that goes on."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from oarlock.endpoints.http import Request, Response, Stream
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import JSON
from oarlock.endpoints.watching.over_websocket import EventSocket, over_websocket

pytestmark = pytest.mark.anyio

WAIT_S = 10.0
HANDSHAKE = (
    b"GET /w HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nOrigin: https://h\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Watch:
    """The server's side of a watch whose client doesn't read."""

    def __init__(self) -> None:
        self.socket: EventSocket | None = None
        self.ended = 0

    async def __call__(self, request: Request) -> Response:
        return over_websocket(RequestState(request, cast(Any, None)), self._begin, JSON)

    def _begin(self, stream: Stream) -> None:
        self.socket = cast(EventSocket, stream)
        stream.on_close(self._count)

    def _count(self) -> None:
        self.ended += 1


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tls_contexts: Any) -> Any:
    return None if request.param == "plain" else tls_contexts("http/1.1")


async def test_who_reads_nothing_is_cut(server: Any, tls: Any) -> None:
    watch = Watch()
    async with server(watch, tls=tls, stream_budget_bytes=100_000, stall_timeout_s=30.0) as s:
        client = await s.connect()
        await client.send(HANDSHAKE)
        await client.until(b"\r\n\r\n")
        client.writer.transport.pause_reading()
        assert watch.socket is not None
        settled = 0
        while settled < 20:  # the kernel may take some more a moment later, on a busy machine much later
            before = watch.socket.buffered
            if before < 400_000:
                watch.socket.write(b"x" * 100_000)
                settled = 0
            await asyncio.sleep(0.01 if settled or before >= 400_000 else 0)
            settled = settled + 1 if watch.socket.buffered == before else 0
        waiting = asyncio.ensure_future(watch.socket.drained())
        await s.later(1)
        await s.later(20)
        assert not watch.ended
        assert not waiting.done()
        await s.later(20)
        await asyncio.wait_for(waiting, WAIT_S)
        assert watch.ended == 1
        assert watch.socket.closed


async def test_far_too_much_is_cut_at_once(server: Any, tls: Any) -> None:
    watch = Watch()
    async with server(watch, tls=tls, stream_hard_bytes=1_000_000) as s:
        client = await s.connect()
        await client.send(HANDSHAKE)
        await client.until(b"\r\n\r\n")
        client.writer.transport.pause_reading()
        assert watch.socket is not None
        for _ in range(200):
            watch.socket.write(b"x" * 100_000)
            await asyncio.sleep(0)
            if watch.socket.closed:
                break
        assert watch.ended == 1
