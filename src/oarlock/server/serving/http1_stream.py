"""`Http1Stream`: an answer over HTTP/1.1 that goes on, sent in chunks.

All that is written in one turn of the loop leaves as one chunk in one `transport.write`. Next: `http1`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from oarlock.server.serving.service import log

if TYPE_CHECKING:
    from oarlock.server.serving.http1 import Http1Connection

__all__ = ["Http1Stream"]


class Http1Stream:
    """See `oarlock.endpoints.http.Stream`. Without `chunked` (HTTP/1.0) the end of the connection ends the answer."""

    __slots__ = ("_add", "_callbacks", "_chunked", "_chunks", "_connection", "_ending", "_hard", "_pending", "closed")

    def __init__(self, connection: Http1Connection, chunked: bool) -> None:
        self._connection = connection
        self._add = connection.service.flusher.add
        self._hard = connection.service.limits.stream_hard_bytes
        self._chunked = chunked
        self._chunks: list[bytes] = []
        self._pending = 0
        self._ending = False
        self._callbacks: list[Callable[[], None]] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        if self._ending or self.closed or not data:
            return
        if not self._chunks:
            self._add(self)
        self._chunks.append(data)
        self._pending += len(data)
        if self._pending > self._hard:
            self.abort()

    @property
    def buffered(self) -> int:
        return self._pending + (0 if self.closed else self._connection.unsent)

    def close(self) -> None:
        if not self._ending and not self.closed:
            self._ending = True
            if not self._chunks:
                self._add(self)

    def abort(self) -> None:
        if not self.closed:
            self.ended()
            self._connection.abort()

    def on_close(self, callback: Callable[[], None]) -> None:
        if self.closed:
            callback()
        else:
            self._callbacks.append(callback)

    async def drained(self) -> None:
        if self._chunks and not self.closed:
            self._send()
        while not self.closed and self._connection.congested:
            await self._connection.writable()

    def flush(self) -> None:
        """What was written in this turn, as one chunk; then the end, if it was closed."""
        if self.closed:
            return
        if self._chunks:
            self._send()
        if self._ending and not self.closed:
            if self._chunked:
                self._connection.send(b"0\r\n\r\n")
            self.ended()
            self._connection.stream_ended(self)

    def _send(self) -> None:
        chunks, self._chunks = self._chunks, []
        size, self._pending = self._pending, 0
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        last = b"0\r\n\r\n" if self._ending and self._chunked else b""
        if self._chunked:
            data = b"%x\r\n%b\r\n%b" % (size, data, last)
        connection = self._connection
        connection.send(data)
        if last:
            self.ended()
            connection.stream_ended(self)
        elif connection.unsent > self._hard:
            self.abort()

    def ended(self) -> None:
        """It is over, whoever ended it: tell those who asked. Called once."""
        if self.closed:
            return
        self.closed = True
        self._chunks.clear()
        self._pending = 0
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("a callback of a closed stream failed")
