"""The send side of an HTTP/1 connection: `Http1Output`, `Http1Stream` for long answers, `Http1Tunnel` after a 101.

Small writes of one turn of the event loop are sent together, and those of a stream as one chunk, as far as the client
reads; the rest is buffered in the stream. Writers of more check `congested` between pieces. A tunnel is raw bytes both
ways: reading from the transport pauses when its buffer is full. See also: `http1.connection`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from oarlock.endpoints.http import ResponseBody
from oarlock.server.serving.base_stream import (
    LOW_BYTES,
    TRANSPORT_HIGH_BYTES,
    TRANSPORT_LOW_BYTES,
    BaseStream,
    TransportBuffer,
)
from oarlock.server.serving.listener_state import HARD, ListenerState

__all__ = ["PIECE_BYTES", "Http1Output", "Http1Owner", "Http1Stream", "Http1Tunnel"]

JOINED_BYTES = 64 * 1024
"""In bytes. Larger writes are passed on without joining their parts."""


class Http1Output:
    """`put` what is to be sent, then `flush`."""

    __slots__ = ("_parts", "_transport", "_unsent", "buffer", "congested", "lost", "sent", "size")

    def __init__(self, listener: ListenerState, transport: Any, secure: bool) -> None:
        self._transport = transport
        self._unsent = transport.get_write_buffer_size
        self._parts: list[bytes] = []
        self.size = 0  # of the parts
        self.sent = 0
        self.congested = False
        self.lost = False
        self.buffer = TransportBuffer(listener.unsent, transport, secure)
        transport.set_write_buffer_limits(high=TRANSPORT_HIGH_BYTES, low=TRANSPORT_LOW_BYTES)

    @property
    def unsent(self) -> int:
        """Bytes the kernel hasn't accepted yet."""
        size: int = self._unsent()
        return size

    @property
    def accepted(self) -> int:
        """Bytes the kernel has accepted."""
        return self.sent - self.unsent

    def put(self, data: bytes) -> None:
        self._parts.append(data)
        self.size += len(data)

    def send(self, data: bytes) -> None:
        """Send `data` now, after what was put before."""
        if self._parts or self.lost:
            self.put(data)
            self.flush()
            return
        self.sent += len(data)
        self._transport.write(data)
        if self._unsent() or self.buffer.counted:
            self.buffer.recount()

    def flush(self) -> None:
        parts = self._parts
        if not parts or self.lost:
            return
        self._parts = []
        self.sent += self.size
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif self.size <= JOINED_BYTES:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
        self.size = 0
        if self._unsent() or self.buffer.counted:
            self.buffer.recount()

    def connection_lost(self) -> None:
        self.lost = True
        self._parts.clear()
        self.buffer.close()


PIECE_BYTES = 128 * 1024

TURN_BYTES = 512 * 1024
"""The most bytes sent in one turn of the event loop, so that a fast client doesn't keep others waiting."""

FORMATTED_BYTES = 16 * 1024


class Http1Owner(Protocol):
    """The connection, as its streams see it."""

    listener: ListenerState
    out: Http1Output

    def cut(self, reason: str) -> None: ...

    def abort(self) -> None: ...

    def stream_ended(self, stream: Http1Stream) -> None: ...

    def hold_back(self, full: bool) -> None: ...


class Http1Stream(BaseStream):
    """See `oarlock.endpoints.http.Stream`. Not `chunked`: with Content-Length, or ended by closing the connection."""

    __slots__ = ("_add", "_chunked", "_connection", "_flush_scheduled", "_hard", "_out")

    def __init__(self, connection: Http1Owner, chunked: bool) -> None:
        super().__init__(connection.listener.unsent)
        self._connection = connection
        self._out = connection.out
        self._add = connection.listener.flusher.add
        self._hard = connection.listener.limits.stream_hard_bytes
        self._chunked = chunked
        self._flush_scheduled = False

    def write(self, data: bytes) -> None:
        if self.ending or self.closed or not data:
            return
        self._chunks.append(data)
        self.pending += len(data)
        if self._out.congested:
            self.charge()
        elif not self._flush_scheduled:
            self._flush_scheduled = True
            self._add(self)
        if self.pending > self._hard:
            self._connection.cut(HARD)

    def put(self, body: ResponseBody) -> None:
        """Send a whole answer: `body`, then the end."""
        self.load(body)
        if not self._flush_scheduled:
            self.flush()

    @property
    def buffered(self) -> int:
        return self.pending + (0 if self.closed else self._out.unsent)

    @property
    def waiting(self) -> bool:
        """Whether there is more to send, or to produce, when the client reads."""
        return bool(self.pending or self.source is not None or self._waiters)

    def close(self) -> None:
        if not self.ending and not self.closed:
            self.ending = True
            self.schedule_flush()

    def abort(self) -> None:
        if not self.closed:
            self.ended()
            self._connection.abort()

    async def drained(self) -> None:
        while not self.closed and (self.pending > LOW_BYTES or self._out.congested):
            await self.wait()

    room = drained

    def resume(self) -> None:
        """The client reads again."""
        if not self._flush_scheduled:
            self.flush()

    def schedule_flush(self) -> None:
        """Schedule a flush at the end of this turn."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._add(self)

    def flush(self) -> None:
        """Send what is buffered, as far as the client reads; then the end, if it was closed."""
        self._flush_scheduled = False
        out = self._out
        if 0 < self.pending <= FORMATTED_BYTES and self._chunked and not (out.congested or self.ending or self._offset):
            out.send(b"%x\r\n%b\r\n" % (self.pending, self.shift_all()))  # fast path: one event
            if self._waiters and not out.congested:
                self.wake()
            return
        room = TURN_BYTES
        while not self.closed and room > 0 and not out.congested:
            if not self.pending and self.source is not None:
                self.read_source(PIECE_BYTES)
            if not self.pending:
                break
            room -= self._send_piece()
        if self.closed:
            return
        if self.ending and not self.pending:
            self._end(b"0\r\n\r\n" if self._chunked else b"")
        elif out.congested:
            self.charge()
        elif self.pending or self.source is not None:
            self.schedule_flush()
        if self._waiters and self.pending <= LOW_BYTES and not out.congested:
            self.wake()

    def _send_piece(self) -> int:
        parts: list[Any] = []
        size = self.shift(parts, PIECE_BYTES)
        data = b"".join(parts)
        out = self._out
        last = self.ending and not self.pending
        if not self._chunked:
            out.put(data)
        elif size <= FORMATTED_BYTES:
            out.put(b"%x\r\n%b\r\n%b" % (size, data, b"0\r\n\r\n" if last else b""))
        else:
            out.put(b"%x\r\n" % size)
            out.put(data)
            out.put(b"\r\n0\r\n\r\n" if last else b"\r\n")
        if last:
            self._end(b"")
        else:
            out.flush()
        return size

    def _end(self, mark: bytes) -> None:
        if mark:
            self._out.put(mark)
        self._out.flush()
        self.ended()
        self._connection.stream_ended(self)


WINDOW_BYTES = 256 * 1024
"""The size of the receive buffer, in bytes."""


class Http1Tunnel(Http1Stream):
    """See `oarlock.endpoints.http.Tunnel`."""

    __slots__ = ("_arrived", "_reader", "_size")

    def __init__(self, connection: Http1Owner) -> None:
        super().__init__(connection, chunked=False)
        self._arrived: list[bytes] = []
        self._size = 0
        self._reader: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        """Add received `data`."""
        if self.closed or not data:
            return
        self._arrived.append(data)
        self._size += len(data)
        if self._size > WINDOW_BYTES:
            self._connection.hold_back(True)
        self._wake()

    async def read(self) -> bytes:
        """One reader at a time. Data from before the end is still returned."""
        if not self._arrived and not self.closed:
            self._reader = self._connection.listener.loop.create_future()
            await self._reader
        data, self._arrived, self._size = b"".join(self._arrived), [], 0
        if not self.closed:
            self._connection.hold_back(False)
        return data

    def ended(self) -> None:
        super().ended()
        self._wake()

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)
