"""`EventSocket`: a watch over WebSocket, with one message per event.

Used when a client sends ``Upgrade: websocket`` (fabric8 does, browsers have to). JSON events are text messages; CBOR
and protobuf events are binary messages, protobuf without its length prefix. The subprotocol makes no difference. Of
what the client sends, pings and Close are answered and the rest is ignored, without buffering it (`OneWay`).
Must not know: events, resources. Source: k8s.io/apiserver ``endpoints/handlers`` WatchServer.HandleWS; RFC 6455 §5.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from oarlock.endpoints import errors
from oarlock.endpoints.channels.over_pipe import NORMAL, POLICY
from oarlock.endpoints.channels.upgrades import VERSION, WrongVersion, watch_upgrade
from oarlock.endpoints.channels.websocket_frames import Over, Reply, WebSocketFrames
from oarlock.endpoints.http import Response, Stream, Tunnel
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import JSON, PROTOBUF
from oarlock.storage.pacing import Pacer

MOST_IGNORED_BYTES = 32 * 1024 * 1024
"""How many ignored bytes a client may send in all; Kubernetes accepts as much in one message."""

_TEXT, _BINARY, _FIN = 0x1, 0x2, 0x80


def _frame(opcode: int, payload: bytes) -> bytes:
    """A whole message in a frame of its own (RFC 6455 §5.2), for a fraction of what wsproto takes."""
    size = len(payload)
    if size < 126:
        return bytes((_FIN | opcode, size)) + payload
    if size < 1 << 16:
        return bytes((_FIN | opcode, 126)) + size.to_bytes(2, "big") + payload
    return bytes((_FIN | opcode, 127)) + size.to_bytes(8, "big") + payload


class OneWay:
    """The frames of one connection. `over` is True once the client has closed or broken the protocol."""

    __slots__ = ("_frames", "_ignored", "over")

    def __init__(self) -> None:
        self._frames = WebSocketFrames()
        self._ignored = 0
        self.over = False

    @property
    def closing(self) -> bool:
        """Whether a Close frame was sent."""
        return self._frames.closing

    def message(self, data: bytes, *, text: bool) -> bytes:
        """The frame of a message; ``b""`` once a Close frame was sent. Text must be UTF-8."""
        return b"" if self._frames.closing else _frame(_TEXT if text else _BINARY, data)

    def ping(self) -> bytes:
        return self._frames.ping()

    def close(self, code: int = NORMAL, why: str = "") -> bytes:
        """A Close frame; ``b""`` if one was sent already."""
        return self._frames.close(code, why)

    def feed(self, data: bytes) -> bytes:
        """Take received `data`; returns the bytes to answer with. Ignored once it is `over`."""
        if self.over:
            return b""
        self._ignored += len(data)
        if self._ignored > MOST_IGNORED_BYTES:
            self.over = True
            return self.close(POLICY, "nothing is expected here")
        answers = b""
        for found in self._frames.feed(data):
            if isinstance(found, Reply):
                answers += found.data
            elif isinstance(found, Over):
                self.over = True
                answers += self.close(found.code, found.why) if found.code else b""
        return answers


log = logging.getLogger("oarlock.endpoints")

PING_S = 30.0
"""Interval of pings, in seconds: detects vanished clients, and keeps proxies from closing an idle connection."""

CLOSE_S = 5.0
"""How long the client may take to answer a Close frame, in seconds."""

FED_BYTES = 4096
"""How many received bytes are skipped before other tasks get a turn: a frame may have only six bytes."""

_LENGTH_BYTES = 4
"""The length prefix of an event in protobuf."""


def over_websocket(state: RequestState, start: Callable[[Stream], None], media_type: str) -> Response:
    """The 101 that carries the stream `start` writes to. Raises the StatusError of an invalid handshake."""
    try:
        headers = watch_upgrade(state.request, state.target)
    except WrongVersion as error:
        refused = errors.error_response(error, state)
        refused.headers.append(("sec-websocket-version", VERSION))
        return refused

    def begin(tunnel: Stream) -> None:
        socket = EventSocket(cast(Tunnel, tunnel), media_type)
        start(socket)
        socket.listen()

    return Response(101, headers, stream=begin)


class EventSocket:
    """See `oarlock.endpoints.http.Stream`. What the client sends is read and ignored."""

    def __init__(self, tunnel: Tunnel, media_type: str) -> None:
        self._tunnel = tunnel
        self._text = media_type == JSON
        self._skipped = _LENGTH_BYTES if media_type == PROTOBUF else 0
        self._frames = OneWay()
        self._loop = asyncio.get_running_loop()
        self._callbacks: list[Callable[[], None]] = []
        self._timer = self._loop.call_later(PING_S, self._ping)
        self._reading: asyncio.Task[None] | None = None
        self.closed = False
        tunnel.on_close(self._gone)

    # Called by the watch.

    def write(self, data: bytes) -> None:
        if not self.closed:
            self._tunnel.write(self._frames.message(data[self._skipped :], text=self._text))

    @property
    def buffered(self) -> int:
        return self._tunnel.buffered

    @property
    def shared_writer(self) -> None:
        """Each event is a message of its own."""

    async def drained(self) -> None:
        await self._tunnel.drained()

    def close(self) -> None:
        """Send a Close frame, and disconnect when the client has answered it or `CLOSE_S` have passed."""
        if self._frames.closing or self.closed:
            return
        self._tunnel.write(self._frames.close())
        self._timer.cancel()
        self._timer = self._loop.call_later(CLOSE_S, self._tunnel.close)
        self._loop.call_soon(self._ended)

    def abort(self) -> None:
        self._tunnel.abort()

    def on_close(self, callback: Callable[[], None]) -> None:
        if self.closed:
            callback()
        else:
            self._callbacks.append(callback)

    # The client's side.

    def listen(self) -> None:
        """Read what the client sends, until one side ends it."""
        self._reading = self._loop.create_task(self._read())

    async def _read(self) -> None:
        try:
            await self._listen()
        except Exception:
            log.exception("a WebSocket could not be read any further")
            self._tunnel.abort()

    async def _listen(self) -> None:
        pacer = Pacer()
        tunnel, frames = self._tunnel, self._frames
        while data := await tunnel.read():
            for start in range(0, len(data), FED_BYTES):
                answers = frames.feed(data[start : start + FED_BYTES])
                if answers:
                    tunnel.write(answers)
                    await tunnel.drained()
                if frames.over:
                    tunnel.close()
                    return
                await pacer.turn()

    def _ping(self) -> None:
        self._tunnel.write(self._frames.ping())
        self._timer = self._loop.call_later(PING_S, self._ping)

    def _gone(self) -> None:
        self._timer.cancel()
        self._ended()

    def _ended(self) -> None:
        """The stream has ended: call the `on_close` callbacks."""
        self.closed = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
