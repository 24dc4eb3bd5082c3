"""`Http2Stream`: one request over HTTP/2 and its answer, which may go on. Next: `outgoing`, `http2`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oarlock.endpoints.http import Request
from oarlock.server.serving import wire2
from oarlock.server.serving.body import Body
from oarlock.server.serving.outgoing import LOW_BYTES
from oarlock.server.serving.service import log

if TYPE_CHECKING:
    from oarlock.server.serving.http2 import Http2Connection

__all__ = ["Http2Stream"]


class Http2Stream:
    """See `oarlock.endpoints.http.Stream`. `flow` is jh2's stream, which keeps the window."""

    __slots__ = (
        "_callbacks",
        "_chunks",
        "_connection",
        "_offset",
        "_out",
        "_tail",
        "_tail_end",
        "_waiter",
        "answered",
        "body",
        "closed",
        "ending",
        "expects",
        "flow",
        "granted",
        "hard_bytes",
        "header_bytes",
        "id",
        "owed",
        "pending",
        "queued",
        "request",
        "streaming",
        "taken",
        "taken_at",
        "taken_before",
        "task",
        "uploaded",
    )

    def __init__(self, connection: Http2Connection, stream_id: int, flow: Any, uploaded: bool) -> None:
        self._connection = connection
        self._out = connection.out
        self._chunks: deque[bytes] = deque()
        self._offset = 0  # how much of the first chunk is sent
        self._tail = b"\0\0" + stream_id.to_bytes(4, "big")  # of a DATA frame's header: type, flags, stream
        self._tail_end = b"\0\1" + stream_id.to_bytes(4, "big")
        self._callbacks: list[Callable[[], None]] = []
        self._waiter: asyncio.Future[None] | None = None
        self.id = stream_id
        self.flow = flow
        self.request: Request | None = None
        self.body: Body | None = None
        self.task: asyncio.Task[Any] | None = None
        self.uploaded = uploaded  # the request has come whole
        self.header_bytes = 0
        self.owed = 0  # bytes of its body its window wasn't widened for
        self.granted = 0  # bytes it was
        self.answered = False
        self.expects = False  # it waits for a 100 before it sends its body
        self.streaming = False  # it's written to bit by bit
        self.hard_bytes = connection.service.limits.stream_hard_bytes
        self.pending = 0
        self.queued = False
        self.ending = False
        self.closed = False
        self.taken = 0
        self.taken_before = -1
        self.taken_at = 0.0

    # The writer's side.

    def put(self, body: bytes) -> None:
        """A whole answer at once: `body` as it is, then the end."""
        self._chunks.append(body)
        self.pending = len(body)
        self.ending = True
        self._out.queue(self)

    def write(self, data: bytes) -> None:
        if self.ending or self.closed or not data:
            return
        size = len(data)
        out = self._out
        self._chunks.append(data)
        self.pending += size
        out.pending += size
        if not self.queued:
            out.queue(self)
        if self.pending > self.hard_bytes or out.pending > out.hard_bytes:
            self._too_much()

    @property
    def buffered(self) -> int:
        return self.pending

    def close(self) -> None:
        if not self.ending and not self.closed:
            self.ending = True
            if not self.queued:
                self._out.queue(self)

    def abort(self) -> None:
        if not self.closed:
            self._connection.reset(self, wire2.INTERNAL_ERROR)

    def on_close(self, callback: Callable[[], None]) -> None:
        if self.closed:
            callback()
        else:
            self._callbacks.append(callback)

    async def drained(self) -> None:
        while not self.closed and self.pending > LOW_BYTES:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _too_much(self) -> None:
        if self.pending > self.hard_bytes:
            self.abort()
        else:
            self._connection.abort()

    # The connection's side.

    def take(self, parts: list[Any], allowed: int) -> int:
        """Put one DATA frame of at most `allowed` bytes into `parts`: how many bytes of data it has."""
        chunks = self._chunks
        size = self.pending
        if size <= allowed:
            last = self.ending
            parts.append(size.to_bytes(3, "big") + (self._tail_end if last else self._tail))
            if self._offset:
                parts.append(memoryview(chunks.popleft())[self._offset :])
                self._offset = 0
            parts.extend(chunks)
            chunks.clear()
            self.pending = 0
            if last:
                self._connection.sent_end(self, parts)
        else:
            size = allowed
            parts.append(size.to_bytes(3, "big") + self._tail)
            left = size
            while left:
                chunk = chunks[0]
                available = len(chunk) - self._offset
                if available <= left:
                    parts.append(memoryview(chunk)[self._offset :] if self._offset else chunk)
                    chunks.popleft()
                    self._offset = 0
                    left -= available
                else:
                    parts.append(memoryview(chunk)[self._offset : self._offset + left])
                    self._offset += left
                    left = 0
            self.pending -= size
        self.taken += size
        if self._waiter is not None and self.pending <= LOW_BYTES and not self._waiter.done():
            self._waiter.set_result(None)
        return size

    def ended(self) -> None:
        """It is over, whoever ended it: tell those who asked. Called once, by the connection."""
        if self.closed:
            return
        self.closed = True
        if self.streaming:
            self._out.pending -= self.pending
        self.pending = 0
        self._chunks.clear()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                log.exception("a callback of a closed stream failed")
