"""`Http2Connection`: HTTP/2 on one connection (RFC 9113).

`http2.input` receives frames, `http2.output` sends them; this module turns streams into requests, runs their handlers
and enforces `ConnectionLimits`: a client that exceeds them gets GOAWAY ENHANCE_YOUR_CALM. Handlers start after all
received data was parsed, so that a body in the same packet is complete, and a request that was reset in the same packet
never starts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from functools import partial
from http import HTTPStatus
from typing import Any

from oarlock.endpoints.http import BrokenBody, Request, Response
from oarlock.http2.frames import (
    MAX_STREAM_ID,
    ErrorCode,
    Http2Error,
    Http2StreamError,
    goaway_frame,
    headers_frames,
    ping_frame,
    rst_stream_frame,
)
from oarlock.meta.context import Peer
from oarlock.server.serving.config import ConnectionLimits
from oarlock.server.serving.eager import run_eagerly
from oarlock.server.serving.http2.heads import MalformedRequest, ReceivedBlock, StreamHead
from oarlock.server.serving.http2.input import Http2Input
from oarlock.server.serving.http2.output import CREDIT_PER_FRAME, Http2Output, Http2SlowReaders
from oarlock.server.serving.http2.stream import Http2Stream
from oarlock.server.serving.listener_state import (
    CONTROL,
    ListenerState,
    Receiver,
    SlowReader,
    body_length,
    log,
    panic_response,
    pump,
)
from oarlock.server.serving.read_control import ReadControl, TokenBucket, TurnBudget
from oarlock.server.serving.request_body import RequestBody, no_body

__all__ = ["Http2Connection"]

STARTED_AT_ONCE = 64  # requests, before other connections have their turn
CONTROL_BYTES = 4 * 1024 * 1024  # unsent, although data waits its turn: the client doesn't read what it asks for
MAX_CREDIT = 20_000
HEADERS_IN_FLIGHT = 4  # times `max_header_bytes`, of all requests in progress
DRAIN_PING = b"draining"
DRAIN_S = 1.0
LISTENS_S = 1.0  # after the last answer of a connection that takes no other requests, as Go's server does


class Http2Connection(Receiver):
    """One connection. `data_received` parses and starts requests, `sweep` checks time limits."""

    def __init__(self, listener: ListenerState, transport: Any, peer: Peer, secure: bool, now: float) -> None:
        limits = listener.limits
        self.listener = listener
        self._transport = transport
        self._peer = peer
        self._secure = secure
        self._monotonic = listener.monotonic
        self.out = Http2Output(listener, transport, secure)
        self._input = Http2Input(limits, self.out)
        self._streams = self._input.streams
        self._readers = Http2SlowReaders(self.out, limits, now)
        self._starting: deque[Http2Stream] = deque()
        self._cancelled_tasks: set[asyncio.Task[Any]] = set()  # cancelled, but not done yet
        self._uploads: dict[int, Http2Stream] = {}
        self._granted = 0
        self._header_bytes = 0
        self._resets = TokenBucket(limits.resets_per_s, limits.resets_burst, now)
        self._control = TokenBucket(limits.control_frames_per_s, limits.control_burst, now)
        self._now = self._idle_since = self._stuck_since = now
        self._frames_seen = -1
        self._final: int | None = None  # streams above it are refused
        self._draining_since: float | None = None
        self._listens = False  # a moment longer, when everything is answered
        self._abort_at = 0.0  # when lingering for a refused client ends
        self._is_cut = False
        self._lost = False
        self._next_turn: asyncio.Handle | None = None  # scheduled: continues with what there was no time for
        self._read_control = ReadControl(transport, listener.loop)
        listener.add(self)
        if listener.draining:
            self.drain()

    # Called by the transport.

    def data_received(self, data: bytes) -> None:
        if self._abort_at or self._lost:
            return
        try:
            self._input.feed(data)
        except Http2Error as error:
            self._end_with_goaway(error.code, str(error))
        if self._next_turn is None:
            self._continue()

    def _continue(self) -> None:
        """Parse, and start requests, within this connection's share of a turn of the event loop."""
        self._next_turn = None
        if self._abort_at or self._lost:
            return
        self._now = self._monotonic()
        self.out.hold()
        if not self._starting:
            self._parse()
        budget = TurnBudget(STARTED_AT_ONCE, self._monotonic)
        while self._starting and not self.out.congested and budget.take():
            stream = self._starting.popleft()
            if not stream.closed:
                self._start(stream)
        if (self._starting or self._input.waiting) and not self._abort_at and not self._lost:
            self._read_control.pause()
            if not self.out.congested:  # else once the client has read more
                self._next_turn = self.listener.loop.call_soon(self._continue)
        else:
            self._read_control.resume()
        self.out.flush()
        if self.out.congested and self.out.unsent > CONTROL_BYTES:
            self.cut(CONTROL)

    def eof_received(self) -> None:
        """The client has closed its half. As in Go's server that counts as a disconnect."""

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self.out.closed = True
            self.out.buffer.close()
            self._end_streams(BrokenBody("the client went away"))
            self._read_control.forget()
            self._starting.clear()
            self.listener.remove(self)

    def pause_writing(self) -> None:
        self.out.congested = True

    def resume_writing(self) -> None:
        self.out.congested = False
        self.out.buffer.recount()
        self.out.schedule_flush()
        if (self._starting or self._input.waiting) and self._next_turn is None:
            self._next_turn = self.listener.loop.call_soon(self._continue)

    # Called by the listener.

    def sweep(self, now: float) -> None:
        limits = self.listener.limits
        if self._read_control.peer_left(wholly=True):
            self.abort()
        elif self._abort_at:
            self._readers.check(self, (), now)
            if self.out.unsent:
                self._abort_at = now + limits.linger_s
            elif now >= self._abort_at:
                self.abort()
        else:
            self._sweep_open(now, limits)

    def _sweep_open(self, now: float, limits: ConnectionLimits) -> None:
        # what isn't parsed because we read no further is no fault of the client's sending
        if self._input.incomplete and self._input.frames == self._frames_seen and not self._read_control.paused:
            if now - self._stuck_since > limits.header_timeout_s:
                self._end_with_goaway(ErrorCode.ENHANCE_YOUR_CALM, "a frame or header block took too long")
                return
        else:
            self._frames_seen = self._input.frames
            self._stuck_since = now
        if self._draining_since is not None and self._final is None and now - self._draining_since >= DRAIN_S:
            self._finish_draining(heard=True)
        elif self._listens and not self._streams and self._final is not None and now - self._idle_since >= LISTENS_S:
            self._close()
        elif not self._streams and now - self._idle_since > limits.idle_timeout_s:
            self._end_with_goaway(ErrorCode.NO_ERROR, "idle")
        else:
            self._readers.check(self, list(self._streams.values()), now)

    def drain(self) -> None:
        """Graceful shutdown with two GOAWAY frames: the last stream is named when the first was acknowledged (§6.8)."""
        self._listen_no_longer()
        if self._draining_since is None and not self._abort_at:
            self._draining_since = self._monotonic()
            self.out.send(goaway_frame(MAX_STREAM_ID, ErrorCode.NO_ERROR))
            self.out.send(ping_frame(DRAIN_PING))

    def _end_after_these(self) -> None:
        """Answer the streams that are open, and take no others: one GOAWAY, as Go's server sends it.

        Some clients lose an answer when a PING comes with it after a GOAWAY. Frames of other kinds are still answered
        for a moment: a client that has just sent one isn't cut off.
        """
        self._listens = True
        self._draining_since = self._draining_since or self._monotonic()
        self._finish_draining()

    def abort(self) -> None:
        self._abort_at = self._abort_at or self._monotonic()
        self._read_control.forget()
        self.out.abort()

    def readers(self) -> Iterator[SlowReader]:
        """The streams, or the connection, with unsent bytes."""
        return (
            self._readers.slow_readers(self, list(self._streams.values()))
            if not self._lost and not self._is_cut
            else iter(())
        )

    def cut(self, reason: str) -> None:
        """End the connection: the client reads too slowly."""
        if not self._lost and not self._is_cut:
            self._is_cut = True
            log.info("%s:%d reads too slowly: closed (%s)", self._peer.address, self._peer.port, reason)
            self.listener.unsent.count_cut(reason)
            self.abort()

    def cut_stream(self, stream: Http2Stream, reason: str) -> None:
        """Reset one stream: the client reads it too slowly."""
        if not stream.closed:
            log.info("%s:%d reads a stream too slowly: closed (%s)", self._peer.address, self._peer.port, reason)
            self.listener.unsent.count_cut(reason)
            self.reset(stream, ErrorCode.INTERNAL_ERROR)

    # What is received.

    def _parse(self) -> None:
        received, out = self._input, self.out
        try:
            received.parse(self)
        except Http2Error as error:
            self._end_with_goaway(error.code, str(error))
            return
        except Exception:  # a bug of ours
            log.exception("HTTP/2 from %s:%d could not be understood", self._peer.address, self._peer.port)
            self._end_with_goaway(ErrorCode.INTERNAL_ERROR, "not understood")
            return
        idle_frames, received.idle_frames = received.idle_frames, 0
        if idle_frames:
            free = min(idle_frames, out.credit)
            out.credit = min(out.credit - free, MAX_CREDIT)
            if free < idle_frames and not self._control.take(idle_frames - free, self._now):
                self._end_with_goaway(ErrorCode.ENHANCE_YOUR_CALM, "too many control frames")

    def stream_opened(self, stream_id: int, block: ReceivedBlock, ended: bool) -> None:
        limits, size = self.listener.limits, block.size
        if (
            (self._final is not None and stream_id > self._final)
            or len(self._streams) + len(self._cancelled_tasks) >= limits.max_concurrent_streams
            or (self._streams and self._header_bytes + size > HEADERS_IN_FLIGHT * limits.max_header_bytes)
        ):
            raise Http2StreamError(stream_id, ErrorCode.REFUSED_STREAM, "too many streams")
        stream = Http2Stream(self, stream_id, ended)
        if size > limits.max_header_bytes or len(block.fields) > limits.max_headers:
            self._add_stream(stream, 0)
            self._respond_plainly(stream, 431)
            return
        try:
            self._request(stream, block.head(self.listener.http2_heads))
        except MalformedRequest as error:
            raise Http2StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, str(error)) from error
        self._add_stream(stream, size)
        self._starting.append(stream)

    def _add_stream(self, stream: Http2Stream, size: int) -> None:
        self._streams[stream.id] = stream
        self._header_bytes += size
        stream.header_bytes = size
        self.out.credit += CREDIT_PER_FRAME

    def _request(self, stream: Http2Stream, head: StreamHead) -> None:
        """Make the request of a stream. Raises `MalformedRequest`."""
        headers = head.headers.copy()
        stream.request = Request(
            head.method, head.path, head.query, headers, head.lines, self._peer, no_body, self._now, True
        )
        if not stream.request_complete:
            limit = self.listener.limits.max_request_bytes
            stream.body = RequestBody(self.listener.loop, limit, partial(self._grant, stream), head.length)
            stream.request.read, stream.request.piece = stream.body.read, stream.body.piece
            stream.expects = head.expects
        elif head.length:
            raise MalformedRequest("a body was announced")

    def body_received(self, stream: Http2Stream, data: bytes, flow_controlled: int, ended: bool) -> None:
        body = stream.body
        if body is None:  # that of a request with too many headers
            stream.request_complete |= ended
            return
        body.feed(data)
        if body.length is not None and (body.received > body.length or (ended and body.received < body.length)):
            raise Http2StreamError(stream.id, ErrorCode.PROTOCOL_ERROR, "the body isn't as long as announced")
        stream.unclaimed += flow_controlled
        if ended:
            stream.request_complete = True
            body.finish()
        elif body.awaited:
            self._grant(stream)

    def stream_reset(self, stream: Http2Stream) -> None:
        self._cancel_stream(stream, BrokenBody("the client withdrew the request"))
        self._count_reset()

    def stream_failed(self, error: Http2StreamError) -> None:
        stream = self._streams.get(error.stream_id)
        if stream is not None:
            self.reset(stream, error.code)
        else:
            self._input.close_stream(error.stream_id, reset=True)
            self.out.send(rst_stream_frame(error.stream_id, error.code))
        self._count_reset()

    def _count_reset(self) -> None:
        if not self._resets.take(1, self._now):
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "too many resets")

    def ping_acknowledged(self, payload: bytes) -> None:
        if payload == DRAIN_PING and self._draining_since is not None and self._final is None:
            self._finish_draining(heard=True)

    def goaway_received(self) -> None:
        """The client opens no more streams; open ones are answered."""
        self._listen_no_longer()
        self._draining_since = self._draining_since or self._now
        self._finish_draining()

    def _grant(self, stream: Http2Stream) -> None:
        """Widen the window of a body somebody waits for, while the connection's budget lasts.

        Beyond the budget only the oldest unfinished body goes on, so that they can't all wait for each other.
        """
        if stream.request_complete or stream.closed or stream.body is None or stream.body.failed:
            return
        if stream.expects:
            stream.expects = False
            self.out.send(headers_frames(stream.id, self.out.continue_block(), False))
        if stream.body.streamed:  # who waits has taken all that came
            self._input.widen(stream, stream.unclaimed)
            stream.unclaimed = 0
            return
        self._uploads[stream.id] = stream
        if self._granted + stream.unclaimed > self.listener.limits.upload_budget_bytes:
            oldest = next(upload for upload in self._uploads.values() if not upload.request_complete)
            if oldest is not stream:
                return
        self._input.widen(stream, stream.unclaimed)
        self._granted += stream.unclaimed
        stream.granted += stream.unclaimed
        stream.unclaimed = 0

    # Answering.

    def _start(self, stream: Http2Stream) -> None:
        assert stream.request is not None
        try:
            outcome = run_eagerly(self.listener.handler(stream.request), self.listener.loop)
        except (Exception, asyncio.CancelledError) as error:
            self._failed(stream, error)
            return
        if isinstance(outcome, asyncio.Task):
            stream.task = outcome
            outcome.add_done_callback(partial(self._handler_done, stream))
        else:
            self._respond(stream, outcome)

    def _handler_done(self, stream: Http2Stream, task: asyncio.Task[Any]) -> None:
        self._cancelled_tasks.discard(task)
        stream.task = None
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if stream.closed:
            if error is None:
                task.result().sent(False)
            elif not isinstance(error, asyncio.CancelledError | ConnectionError):
                log.error("a handler failed after the client had gone", exc_info=error)
        elif error is not None:
            self._failed(stream, error)
        else:
            self._respond(stream, task.result())

    def _failed(self, stream: Http2Stream, error: BaseException) -> None:
        request = stream.request
        log.error("%s %s failed", request and request.method, request and request.path, exc_info=error)
        self._respond(stream, panic_response())

    def _respond_plainly(self, stream: Http2Stream, status: int) -> None:
        text = f"{status} {HTTPStatus(status).phrase}".encode()
        self._respond(stream, Response(status, [("content-type", "text/plain; charset=utf-8")], text))

    def _respond(self, stream: Http2Stream, response: Response) -> None:
        stream.response = response
        try:
            self._answer(stream, response)
        except Exception:
            log.exception("an answer could not be sent")
            if isinstance(response, Response):
                response.sent(False)
            if stream.answered:
                self.reset(stream, ErrorCode.INTERNAL_ERROR)
            else:
                self._answer(stream, panic_response())
        if self.out.asked_to_close:
            self.out.asked_to_close = False
            self._end_after_these()

    def _answer(self, stream: Http2Stream, response: Response) -> None:
        out = self.out
        status = response.status
        if status == 101:
            raise ValueError("a stream of HTTP/2 can't be upgraded")
        body = response.body
        size = len(body) if type(body) is bytes else body_length(body)
        if response.stream is not None:
            size = None
        empty = status in (204, 304) or status < 200
        head_only = stream.request is not None and stream.request.method == "HEAD"
        length = None if empty else size
        if head_only and not size:
            length = next((int(value) for name, value in response.headers if name == "content-length"), length)
        end = empty or head_only or size == 0
        block = out.block(status, response.headers, self.listener.date(), length)
        stream.answered = True
        out.send(headers_frames(stream.id, block, end))
        if end:
            self.sent_end(stream, out.control)
            return
        if size is not None and isinstance(body, bytes) and not stream.queued and out.data_fits(stream, size):
            out.send_whole(stream, body)
            self.sent_end(stream, out.control)
            return
        stream.started_at = self._monotonic()
        if response.stream is not None:
            stream.streamed = stream.open_ended = True
            response.stream(stream)
        elif isinstance(body, AsyncIterator):
            stream.streamed = True
            stream.task = self.listener.loop.create_task(pump(body, stream))
            stream.task.add_done_callback(partial(self._pump_done, stream))
        else:
            stream.put(body)

    def _pump_done(self, stream: Http2Stream, task: asyncio.Task[Any]) -> None:
        self._cancelled_tasks.discard(task)
        stream.task = None
        if not task.cancelled() and task.exception() is not None:
            log.error("an answer failed halfway", exc_info=task.exception())

    # The end of streams, and of the connection.

    def sent_end(self, stream: Http2Stream, frames: list[Any]) -> None:
        """The end of the answer is in `frames`. A client that is still sending its request gets RST_STREAM (§8.1)."""
        if not stream.request_complete:
            frames.append(rst_stream_frame(stream.id, ErrorCode.NO_ERROR))
        if stream.body is not None:
            stream.body.fail(BrokenBody("the request was answered before its body was read"))
        self._end_stream(stream, reset=not stream.request_complete, whole=True)

    def reset(self, stream: Http2Stream, code: int) -> None:
        """Reset one stream."""
        if stream.closed:
            return
        if not self.out.closed:
            self.out.send(rst_stream_frame(stream.id, code))
        self._cancel_stream(stream, BrokenBody("the request was cut"))

    def _cancel_stream(self, stream: Http2Stream, error: BrokenBody) -> None:
        if stream.body is not None:
            stream.body.fail(error)
        if stream.task is not None and stream.task is not asyncio.current_task():
            stream.task.cancel()
            self._cancelled_tasks.add(stream.task)
        self._end_stream(stream, reset=True, whole=False)

    def _end_stream(self, stream: Http2Stream, *, reset: bool, whole: bool) -> None:
        if stream.id not in self._streams:
            return
        self._input.close_stream(stream.id, reset)
        self._header_bytes -= stream.header_bytes
        if self._uploads.pop(stream.id, None) is not None:
            self._granted -= stream.granted
            for waiting in list(self._uploads.values()):
                if waiting.body is not None and waiting.body.awaited:
                    self._grant(waiting)
        stream.finish(whole)
        if not self._streams:
            self._idle_since = self._monotonic()
            if self._final is not None and not self._abort_at:
                self.listener.loop.call_soon(self._close_if_done)

    def _end_streams(self, error: BrokenBody) -> None:
        for stream in list(self._streams.values()):
            self._cancel_stream(stream, error)

    def _finish_draining(self, heard: bool = False) -> None:
        """`heard` says that the client has received everything, or had time to: don't wait for TLS's close_notify."""
        if self._final is None:
            self._final = self._input.last_stream_id
            self.out.send(goaway_frame(self._final, ErrorCode.NO_ERROR))
            if not self._streams:
                self.listener.loop.call_soon(self._close_if_done)
                if heard:
                    self.listener.loop.call_soon(self._cut_if_flushed)

    def _listen_no_longer(self) -> None:
        if self._listens:
            self._listens = False
            self.listener.loop.call_soon(self._close_if_done)

    def _close_if_done(self) -> None:
        if not self._streams and not self._listens and not self._abort_at and not self._lost:
            self._close()

    def _cut_if_flushed(self) -> None:
        if self._abort_at and not self._lost and not self._transport.get_write_buffer_size():
            self.abort()

    def _end_with_goaway(self, code: int, why: str) -> None:
        """End the connection now."""
        if self._abort_at or self._lost:
            return
        self.out.send(goaway_frame(self._input.last_stream_id, code, why))
        if code != ErrorCode.NO_ERROR:
            log.info("%s:%d: HTTP/2 connection ended: %s", self._peer.address, self._peer.port, why)
        self._close(linger=code != ErrorCode.NO_ERROR)
        self._end_streams(BrokenBody(why))

    def _close(self, linger: bool = False) -> None:
        """Close after what was written. A client that is refused may still be sending: closing at once would
        reset the connection and could destroy the GOAWAY on its way, so it is listened to a moment longer."""
        self._abort_at = self._monotonic() + self.listener.limits.linger_s
        self.out.flush()
        self.out.closed = True
        if linger and not self._secure and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
