"""The client's end of HTTP/2: many streams on a connection, their frames taken apart by hand.

The windows are those of Go's client, because what a client allows at once, and how often it allows more, is work for
the server.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Any

from jh2._hazmat import Decoder, Encoder

from oarlock.http2 import frames as h2
from support.connections import Asked, ClientConnection, Driver, Form

STREAM_WINDOW = 4 << 20
CONNECTION_WINDOW = 1 << 30
ALLOWED_ANEW = 4096
"""So many bytes are received before the server is told that it may send that many again."""


class Http2Client(ClientConnection):
    """What all streams share: settings, windows, pings, header blocks. A subclass is told of heads and data."""

    def __init__(self, form: Form) -> None:
        self._fields = [(name.encode(), value.encode(), False) for name, value in form.fields()]
        self._encoder, self._decoder = Encoder(), Decoder()
        self._next_id = 1
        self._rest = b""
        self._unsent: deque[tuple[int, bytes]] = deque()
        self._window = h2.DEFAULT_WINDOW
        self._received: dict[int, int] = {0: 0}

    @abstractmethod
    def on_head(self, stream: int, status: int) -> None: ...

    @abstractmethod
    def on_data(self, stream: int, data: bytes) -> None: ...

    @abstractmethod
    def on_end(self, stream: int) -> None: ...

    @abstractmethod
    def on_failure(self, why: str) -> None: ...

    def on_lost(self) -> None:
        self.on_failure("the server closed a connection")

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        settings = h2.settings_frame({h2.ENABLE_PUSH: 0, h2.INITIAL_WINDOW_SIZE: STREAM_WINDOW})
        transport.write(h2.PREFACE + settings + h2.window_update_frame(0, CONNECTION_WINDOW))

    def begin(self, method: str, path: str, body: bytes, media: str) -> int:
        """Send a request; its stream. Head and body leave one after the other, as Go's client sends them."""
        stream = self._next_id
        self._next_id += 2
        fields = [(b":authority", b"localhost", False), (b":method", method.encode(), False)]
        fields += [(b":path", path.encode(), False), (b":scheme", b"https", False), *self._fields]
        if body:
            fields += [(b"content-type", media.encode(), False), (b"content-length", b"%d" % len(body), False)]
        self._received[stream] = 0
        self.transport.write(h2.headers_frames(stream, self._encoder.encode(fields), end=not body))
        if body:
            self._unsent.append((stream, body))
            self._send_bodies()
        return stream

    def _send_bodies(self) -> None:
        while self._unsent and len(self._unsent[0][1]) <= self._window:
            stream, body = self._unsent.popleft()
            self._window -= len(body)
            self.transport.write(h2.data_frame(stream, body, True))

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        allowed: list[bytes] = []
        while end - at >= h2.FRAME_HEADER_BYTES:
            first = at + h2.FRAME_HEADER_BYTES
            following = first + int.from_bytes(data[at : at + 3], "big")
            if following > end:
                break
            kind, flags, stream = data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : first], "big")
            if kind == h2.DATA:
                if following > first:
                    self.on_data(stream, data[first:following])
                    self._allow(stream, following - first, allowed)
                if flags & h2.END_STREAM:
                    self._ended(stream)
            elif kind == h2.HEADERS:
                self._on_headers(stream, flags, data[first:following])
            else:
                self._on_other(kind, flags, stream, data[first:following])
            at = following
        self._rest = data[at:]
        if allowed:
            self.transport.write(b"".join(allowed))

    def _allow(self, stream: int, size: int, allowed: list[bytes]) -> None:
        for one in (0, stream):
            received = self._received[one] + size
            if received >= ALLOWED_ANEW:
                allowed.append(h2.window_update_frame(one, received))
                received = 0
            self._received[one] = received

    def _ended(self, stream: int) -> None:
        del self._received[stream]
        self.on_end(stream)

    def _on_headers(self, stream: int, flags: int, block: bytes) -> None:
        if flags & (h2.PADDED | h2.PRIORITY_FLAG) or not flags & h2.END_HEADERS:
            self.on_failure("the server sent a head that isn't one plain frame")
            return
        name, value, *_ = self._decoder.decode(block, raw=True)[0]
        if name == b":status":
            self.on_head(stream, int(value))
        if flags & h2.END_STREAM:
            self._ended(stream)

    def _on_other(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (h2.RST_STREAM, h2.GOAWAY):
            self.on_failure(f"the server sent frame {kind} of stream {stream}: {payload!r}")
        elif kind == h2.SETTINGS and not flags & h2.ACK:
            self.transport.write(h2.frame(h2.SETTINGS, h2.ACK, 0, b""))
        elif kind == h2.PING and not flags & h2.ACK:
            self.transport.write(h2.frame(h2.PING, h2.ACK, 0, payload))
        elif kind == h2.WINDOW_UPDATE and not stream:
            self._window += int.from_bytes(payload, "big")
            self._send_bodies()


class Http2Requests(Http2Client):
    """As many requests at once as are sent."""

    def __init__(self, driver: Driver, form: Form) -> None:
        super().__init__(form)
        self.driver = driver
        self._asked: dict[int, Asked] = {}
        self._status: dict[int, int] = {}
        self._bodies: dict[int, list[bytes]] = {}

    def send(self, asked: Asked) -> None:
        self._asked[self.begin(asked.method, asked.path, asked.body, asked.media)] = asked

    def on_head(self, stream: int, status: int) -> None:
        self._status[stream] = status
        if self.driver.wants_bodies or status >= 400:
            self._bodies[stream] = []

    def on_data(self, stream: int, data: bytes) -> None:
        body = self._bodies.get(stream)
        if body is not None:
            body.append(data)

    def on_end(self, stream: int) -> None:
        body = b"".join(self._bodies.pop(stream, ()))
        following = self.driver.answered(self._asked.pop(stream), self._status.pop(stream), body)
        if following is not None:
            self.send(following)

    def on_failure(self, why: str) -> None:
        self.driver.failed(why)
