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
from oarlock.endpoints.channels.over_pipe import NORMAL, POLICY, PROTOCOL_ERROR
from oarlock.endpoints.channels.upgrades import VERSION, WrongVersion, watch_upgrade
from oarlock.endpoints.http import Response, Stream, Tunnel
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import JSON, PROTOBUF
from oarlock.storage.pacing import Pacer

MOST_IGNORED_BYTES = 32 * 1024 * 1024
"""How many ignored bytes a client may send in all; Kubernetes accepts as much in one message."""

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_KNOWN = frozenset((0x0, TEXT, BINARY, CLOSE, PING, PONG))
_FIN, _RESERVED, _KIND, _CONTROL = 0x80, 0x70, 0xF, 0x8
_MASKED, _LENGTH = 0x80, 0x7F

_LONG_LENGTH_BYTES = {126: 2, 127: 8}

_MOST_CONTROL_BYTES = 125


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size <= _MOST_CONTROL_BYTES:
        return bytes((_FIN | opcode, size)) + payload
    if size < 1 << 16:
        return bytes((_FIN | opcode, 126)) + size.to_bytes(2, "big") + payload
    return bytes((_FIN | opcode, 127)) + size.to_bytes(8, "big") + payload


class OneWay:
    """The frames of one connection. `over` is True once the client has closed or broken the protocol."""

    __slots__ = ("_answers", "_head", "_ignored", "_kind", "_left", "_payload", "closing", "over")

    def __init__(self) -> None:
        self._head = b""  # the received part of a frame's head, with its mask
        self._kind = -1  # payload bytes still to come; -1 while the head is incomplete
        self._left = 0  # received payload bytes of that frame
        self._payload = b""  # payload of a control frame
        self._ignored = 0
        self._answers = b""
        self.closing = False  # whether a Close frame was sent
        self.over = False

    def message(self, data: bytes, *, text: bool) -> bytes:
        """The frame of a message; ``b""`` once a Close frame was sent. Text must be UTF-8."""
        return b"" if self.closing else _frame(TEXT if text else BINARY, data)

    def ping(self) -> bytes:
        return b"" if self.closing else _frame(PING, b"")

    def close(self, code: int = NORMAL, why: str = "") -> bytes:
        """A Close frame; ``b""`` if one was sent already."""
        if self.closing:
            return b""
        self.closing = True
        return _frame(CLOSE, code.to_bytes(2, "big") + why.encode()[: _MOST_CONTROL_BYTES - 2])

    def feed(self, data: bytes) -> bytes:
        """Take received `data`; returns the bytes to answer with. Ignored once it is `over`."""
        self._ignored += len(data)
        if self._ignored > MOST_IGNORED_BYTES:
            self._refuse(POLICY, "nothing is expected here")
        at = 0
        while at < len(data) and not self.over:
            at = self._read_head(data, at) if self._kind < 0 else self._read_payload(data, at)
            if self._kind >= 0 and not self._left:
                self._finish()
        answers, self._answers = self._answers, b""
        return answers

    def _read_head(self, data: bytes, at: int) -> int:
        """Read the available part of a frame's head; returns where in `data` it ends."""
        head = self._head
        size = 2 if len(head) < 2 else 6 + _LONG_LENGTH_BYTES.get(head[1] & _LENGTH, 0)
        taken = data[at : at + size - len(head)]
        self._head = head = head + taken
        if len(head) == 2:
            wrong = _wrong(head)
            if wrong:
                self._refuse(PROTOCOL_ERROR, wrong)
        elif len(head) == size:
            self._kind = head[0] & _KIND
            length = head[1] & _LENGTH
            self._left = int.from_bytes(head[2:-4], "big") if length in _LONG_LENGTH_BYTES else length
        return at + len(taken)

    def _read_payload(self, data: bytes, at: int) -> int:
        taken = min(self._left, len(data) - at)
        self._left -= taken
        if self._kind & _CONTROL:
            self._payload += data[at : at + taken]
        return at + taken

    def _finish(self) -> None:
        """Handle a complete frame."""
        kind, self._kind = self._kind, -1
        payload, self._payload = self._payload, b""
        mask, self._head = self._head[-4:], b""
        if kind not in (PING, CLOSE):
            return
        payload = bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload))
        if kind == CLOSE:
            self.over = True
            self._answers += self.close(int.from_bytes(payload[:2], "big") if len(payload) >= 2 else NORMAL)
        elif not self.closing:
            self._answers += _frame(PONG, payload)

    def _refuse(self, code: int, why: str) -> None:
        if not self.over:
            self.over = True
            self._answers += self.close(code, why)


def _wrong(head: bytes) -> str:
    """The protocol violation in the first two bytes of a frame, if any."""
    first, second = head[0], head[1]
    if first & _RESERVED:
        return "reserved bits"
    if first & _KIND not in _KNOWN:
        return "unknown opcode"
    if not second & _MASKED:
        return "a client masks what it sends"
    if first & _CONTROL and (not first & _FIN or second & _LENGTH > _MOST_CONTROL_BYTES):
        return "a control frame is short and whole"
    return ""


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
