"""`Http2Stream`: one request over HTTP/2 and its answer. See also: `http2.output`, `http2.connection`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from oarlock.endpoints.http import Request, Response, ResponseBody
from oarlock.http2.frames import DATA, DEFAULT_WINDOW, END_STREAM, ErrorCode, frame_header
from oarlock.server.serving.base_stream import LOW_BYTES, BaseStream
from oarlock.server.serving.listener_state import HARD, ListenerState
from oarlock.server.serving.request_body import RequestBody

__all__ = ["Http2Owner", "Http2Stream", "SendQueue"]


class SendQueue(Protocol):
    """What the connection has to send, as its streams see it: `http2_output.Http2Output`."""

    congested: bool
    pending: int
    hard_bytes: int
    initial_window: int

    def queue(self, stream: Http2Stream) -> None: ...

    def discard(self, stream: Http2Stream) -> None: ...

    def write_all(self, streams: Sequence[Http2Stream], data: bytes) -> None: ...

    def open_to(self, stream: Http2Stream) -> bool: ...


class Http2Owner(Protocol):
    """The connection, as its streams see it."""

    listener: ListenerState

    @property
    def out(self) -> SendQueue: ...

    def cut(self, reason: str) -> None: ...

    def cut_stream(self, stream: Http2Stream, reason: str) -> None: ...

    def reset(self, stream: Http2Stream, code: int) -> None: ...

    def sent_end(self, stream: Http2Stream, frames: list[Any]) -> None: ...


class Http2Stream(BaseStream):
    """See `oarlock.endpoints.http.Stream`.

    `send_window` is what the client may still be sent, `receive_window` what it may still send, in bytes;
    `unacknowledged` was consumed of the latter.
    """

    __slots__ = (
        "_connection",
        "_out",
        "answered",
        "body",
        "expects",
        "granted",
        "hard_bytes",
        "header_bytes",
        "id",
        "producer_waiter",
        "queued",
        "receive_window",
        "request",
        "request_complete",
        "response",
        "send_window",
        "streamed",
        "task",
        "unacknowledged",
        "unclaimed",
    )

    def __init__(self, connection: Http2Owner, stream_id: int, request_complete: bool) -> None:
        super().__init__(connection.listener.unsent)
        self._connection = connection
        self._out = connection.out
        self.id = stream_id
        self.send_window = connection.out.initial_window
        # Until it has read our SETTINGS a client goes by the default.
        self.receive_window = max(connection.listener.limits.body_window_bytes, DEFAULT_WINDOW)
        self.unacknowledged = 0
        self.request: Request | None = None
        self.response: Response | None = None
        self.body: RequestBody | None = None
        self.task: asyncio.Task[Any] | None = None
        self.request_complete = request_complete
        self.header_bytes = 0
        self.unclaimed = 0  # received bytes of the body that nobody has asked for yet
        self.granted = 0  # those that were asked for
        self.answered = False
        self.expects = False  # the client waits for a 100 before it sends its body
        self.streamed = False  # written in pieces, through `Stream`
        self.producer_waiter: asyncio.Future[None] | None = None  # the producer that waits for the client to read
        self.hard_bytes = connection.listener.limits.stream_hard_bytes
        self.queued = False

    # The writer's side.

    def put(self, body: ResponseBody) -> None:
        """Send a whole answer: `body`, then the end."""
        self.load(body)
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
        if self._charged or out.congested:
            self.charge()
        if self.pending > self.hard_bytes or out.pending > out.hard_bytes:
            self._too_much()

    @property
    def shared_writer(self) -> SendQueue:
        return self._out

    @property
    def buffered(self) -> int:
        return self.pending

    @property
    def waiting(self) -> bool:
        """Whether there is more to send, or to produce, when the client reads."""
        return bool(self.pending or self.source is not None or self.producer_waiter is not None)

    @property
    def unfinished(self) -> bool:
        """Whether something, if only the end, is to be sent or produced when the windows allow."""
        return self.waiting or self.ending

    def close(self) -> None:
        if not self.ending and not self.closed:
            self.ending = True
            if not self.queued:
                self._out.queue(self)

    def abort(self) -> None:
        if not self.closed:
            self._connection.reset(self, ErrorCode.INTERNAL_ERROR)

    async def drained(self) -> None:
        while not self.closed and self.pending > LOW_BYTES:
            await self.wait()

    async def room(self) -> None:
        """Wait until nothing is buffered and the client's windows are open. One task may wait."""
        while not self.closed and (self.pending or not self._out.open_to(self)):
            self.producer_waiter = asyncio.get_running_loop().create_future()
            if not self.queued:
                self._out.queue(self)
            try:
                await self.producer_waiter
            finally:
                self.producer_waiter = None

    def feed(self) -> None:
        """Wake the producer."""
        if self.producer_waiter is not None and not self.producer_waiter.done():
            self.producer_waiter.set_result(None)

    def _too_much(self) -> None:
        if self.pending > self.hard_bytes:
            self._connection.cut_stream(self, HARD)
        else:
            self._connection.cut(HARD)

    # The connection's side.

    def take(self, parts: list[Any], allowed: int) -> int:
        """Add one DATA frame of at most `allowed` bytes to `parts`; returns its number of data bytes."""
        size = self.pending
        if size <= allowed:
            parts.append(frame_header(size, DATA, END_STREAM if self.ending else 0, self.id))
            if self._charged or self._offset:
                self.shift(parts, size)
            else:
                parts.extend(self._chunks)
                self._chunks.clear()
                self.pending = 0
                self.accepted += size
            if self.ending:
                self._connection.sent_end(self, parts)
        else:
            size = allowed
            parts.append(frame_header(size, DATA, 0, self.id))
            self.shift(parts, size)
        if self._waiters and self.pending <= LOW_BYTES:
            self.wake()
        return size

    def finish(self, whole: bool) -> None:
        """The stream has ended. Called once, by the connection."""
        if self.streamed:
            self._out.pending -= self.pending
        if self.queued:
            self._out.discard(self)
        self.ended()
        self.feed()
        response = self.response
        # The request's body holds the stream: without this only the collector would free them.
        self.request = self.response = self.body = None
        if response is not None:
            response.sent(whole)
