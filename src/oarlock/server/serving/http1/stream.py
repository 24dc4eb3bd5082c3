"""`Http1Stream`: a long answer over HTTP/1.1, either open-ended or large.

All that is written in one turn of the event loop is sent as one chunk in one `transport.write`, as far as the client
reads; the rest is buffered here. See also: `http1.connection`.
"""

from __future__ import annotations

from typing import Any, Protocol

from oarlock.endpoints.http import ResponseBody
from oarlock.server.serving.base_stream import LOW_BYTES, BaseStream
from oarlock.server.serving.http1.output import Http1Output
from oarlock.server.serving.listener_state import ListenerState
from oarlock.server.serving.slow_readers import HARD

__all__ = ["PIECE_BYTES", "Http1Owner", "Http1Stream"]

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
