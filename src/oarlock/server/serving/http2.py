"""`Http2Connection`: HTTP/2 on one connection (RFC 9113).

`machine` parses, `outgoing` sends; this module turns streams into requests, runs their handlers and enforces
`ConnectionLimits`: a client that exceeds them gets GOAWAY ENHANCE_YOUR_CALM. Handlers start after all received data was
parsed, so that a body in the same packet is complete, and a request that was reset in the same packet never starts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Any

import jh2.events as jh2

from oarlock.endpoints.http import BrokenBody, Peer, Request, Response
from oarlock.server.serving import wire2
from oarlock.server.serving.body import RequestBody, no_body
from oarlock.server.serving.config import ConnectionLimits
from oarlock.server.serving.eager import run_eagerly
from oarlock.server.serving.guards import Bucket, Share
from oarlock.server.serving.http2_readers import Http2Readers
from oarlock.server.serving.http2_stream import Http2Stream
from oarlock.server.serving.machine import LengthMismatch, Machine, Opened, ProtocolError
from oarlock.server.serving.outgoing import CREDIT_PER_FRAME, Outgoing
from oarlock.server.serving.readers import CONTROL, SlowReader
from oarlock.server.serving.reading import Reading
from oarlock.server.serving.service import Receiver, Service, body_length, log, over, panic, pump

__all__ = ["Http2Connection"]

STARTED_AT_ONCE = 64  # requests, before other connections have their turn
TINY = 64  # a smaller DATA frame is counted as useless
CONTROL_BYTES = 4 * 1024 * 1024  # unsent, although data waits its turn: the client doesn't read what it asks for
MAX_CREDIT = 20_000
HEADERS_IN_FLIGHT = 4  # times `max_header_bytes`, of all requests in progress
DRAIN_PING = b"draining"
DRAIN_S = 1.0


class Http2Connection(Receiver):
    """One connection. `data_received` parses and starts requests, `sweep` checks time limits."""

    def __init__(self, service: Service, transport: Any, peer: Peer, secure: bool, now: float) -> None:
        limits = service.limits
        self.service = service
        self._transport = transport
        self._peer = peer
        self._secure = secure
        self._monotonic = service.monotonic
        self._machine = Machine(limits)
        self.out = Outgoing(service, transport, self._machine, secure)
        self._readers = Http2Readers(self, self.out, limits, now)
        self._streams: dict[int, Http2Stream] = {}
        self._starting: deque[Http2Stream] = deque()
        self._withdrawn: set[asyncio.Task[Any]] = set()  # cancelled, but not done yet
        self._uploads: dict[int, Http2Stream] = {}
        self._granted = 0
        self._header_bytes = 0
        self._resets = Bucket(limits.resets_per_s, limits.resets_burst, now)
        self._control = Bucket(limits.control_frames_per_s, limits.control_burst, now)
        self._useful = 0  # useful frames of this slice
        self._now = self._idle_since = self._stuck_since = now
        self._frames_seen = -1
        self._final: int | None = None  # streams above it are refused
        self._draining_since: float | None = None
        self._cut_at = 0.0
        self._was_cut = False
        self._lost = False
        self._again: asyncio.Handle | None = None  # scheduled: continues with what there was no time for
        self._reading = Reading(transport, service.loop)
        self._on: dict[type, Callable[[Any], None]] = {
            Opened: self._opened,
            LengthMismatch: self._broken,
            jh2.DataReceived: self._data,
            jh2.StreamEnded: self._uploaded,
            jh2.StreamReset: self._reset_by_peer,
            jh2.WindowUpdated: self._window,
            jh2.RemoteSettingsChanged: self._settings,
            jh2.PingAckReceived: self._pong,
            jh2.ConnectionTerminated: self._leaving,
        }
        service.joined(self)
        self.out.send(self._machine.take())
        if service.draining:
            self.drain()

    # Called by the transport.

    def data_received(self, data: bytes) -> None:
        if self._cut_at or self._lost:
            return
        try:
            self._machine.feed(data)
        except ProtocolError as error:
            self._quit(None, str(error))
        if self._again is None:
            self._go_on()

    def _go_on(self) -> None:
        """Parse, and start requests, within this connection's share of a turn of the event loop."""
        self._again = None
        if self._cut_at or self._lost:
            return
        self._now = self._monotonic()
        self.out.hold()
        if not self._starting:
            self._take()
        share = Share(STARTED_AT_ONCE, self._monotonic)
        while self._starting and not self.out.congested and share.left():
            stream = self._starting.popleft()
            if not stream.closed:
                self._start(stream)
        if (self._starting or self._machine.waiting) and not self._cut_at and not self._lost:
            self._reading.pause()
            if not self.out.congested:  # else once the client has read more
                self._again = self.service.loop.call_soon(self._go_on)
        else:
            self._reading.resume()
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
            self._reading.forget()
            self._starting.clear()
            self._on.clear()
            self._machine.dismiss()
            self.service.left(self)

    def pause_writing(self) -> None:
        self.out.congested = True

    def resume_writing(self) -> None:
        self.out.congested = False
        self.out.buffer.settle()
        self.out.mark()
        if (self._starting or self._machine.waiting) and self._again is None:
            self._again = self.service.loop.call_soon(self._go_on)

    # Called by the listener.

    def sweep(self, now: float) -> None:
        limits = self.service.limits
        if self._reading.peer_left(wholly=True):
            self.abort()
        elif self._cut_at:
            self._readers.look((), now)
            if self.out.unsent:
                self._cut_at = now + limits.linger_s
            elif now >= self._cut_at:
                self.abort()
        else:
            self._sweep_open(now, limits)

    def _sweep_open(self, now: float, limits: ConnectionLimits) -> None:
        # what isn't parsed because we read no further is no fault of the client's sending
        if self._machine.midway and self._machine.frames == self._frames_seen and not self._reading.paused:
            if now - self._stuck_since > limits.header_timeout_s:
                self._quit(wire2.ENHANCE_YOUR_CALM, "a frame or header block took too long")
                return
        else:
            self._frames_seen = self._machine.frames
            self._stuck_since = now
        if self._draining_since is not None and self._final is None and now - self._draining_since >= DRAIN_S:
            self._finish_draining(heard=True)
        elif not self._streams and now - self._idle_since > limits.idle_timeout_s:
            self._quit(wire2.NO_ERROR, "idle")
        else:
            self._readers.look(list(self._streams.values()), now)

    def drain(self) -> None:
        """Graceful shutdown with two GOAWAY frames: the last stream is named when the first was acknowledged (§6.8)."""
        if self._draining_since is None and not self._cut_at:
            self._draining_since = self._monotonic()
            self.out.send(wire2.goaway(wire2.LAST_STREAM, wire2.NO_ERROR))
            self.out.send(wire2.ping(DRAIN_PING))

    def abort(self) -> None:
        self._cut_at = self._cut_at or self._monotonic()
        self._reading.forget()
        self.out.abort()

    def readers(self) -> Iterator[SlowReader]:
        """The streams, or the connection, with unsent bytes."""
        return self._readers.found(list(self._streams.values())) if not self._lost and not self._was_cut else iter(())

    def cut(self, reason: str) -> None:
        """End the connection: the client reads too slowly."""
        if not self._lost and not self._was_cut:
            self._was_cut = True
            log.info("%s:%d takes too little: cut (%s)", self._peer.address, self._peer.port, reason)
            self.service.unsent.count_cut(reason)
            self.abort()

    def cut_stream(self, stream: Http2Stream, reason: str) -> None:
        """Reset one stream: the client reads it too slowly."""
        if not stream.closed:
            log.info("%s:%d takes too little of a stream: cut (%s)", self._peer.address, self._peer.port, reason)
            self.service.unsent.count_cut(reason)
            self.reset(stream, wire2.INTERNAL_ERROR)

    # Events.

    def _take(self) -> None:
        machine = self._machine
        before = machine.frames
        self._useful = 0
        try:
            events = machine.events()
        except ProtocolError as error:
            self._quit(None if machine.said_goodbye else wire2.PROTOCOL_ERROR, str(error))
            return
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a bug of the parser, or a panic of its Rust part
            log.exception("HTTP/2 from %s:%d could not be understood", self._peer.address, self._peer.port)
            self._quit(wire2.INTERNAL_ERROR, "not understood")
            return
        handlers = self._on
        for event in events:
            handle = handlers.get(event.__class__)
            if handle is not None:
                handle(event)
        control = machine.take()
        if control:
            self.out.send(control)
        useless = machine.frames - before - self._useful
        if useless > 0:
            out = self.out
            free = min(useless, out.credit)
            out.credit = min(out.credit - free, MAX_CREDIT)
            if free < useless and not self._control.take(useless - free, self._now):
                self._quit(wire2.ENHANCE_YOUR_CALM, "too many control frames")

    def _opened(self, event: Opened) -> None:
        stream_id = event.stream_id
        limits = self.service.limits
        raw, size = event.raw, event.size
        self._useful += 1
        if (
            (self._final is not None and stream_id > self._final)
            or len(self._streams) + len(self._withdrawn) >= limits.max_concurrent_streams
            or (self._streams and self._header_bytes + size > HEADERS_IN_FLIGHT * limits.max_header_bytes)
        ):
            self._refuse(stream_id, wire2.REFUSED_STREAM)
            return
        stream = Http2Stream(self, stream_id, event.stream, event.ended)
        if size > limits.max_header_bytes or len(raw) > limits.max_headers:
            self._join(stream, 0)
            self._say(stream, 431)
            return
        try:
            self._request(stream, event)
        except wire2.MalformedRequest:
            self._refuse(stream_id, wire2.PROTOCOL_ERROR)
            return
        self._join(stream, size)
        self._starting.append(stream)

    def _join(self, stream: Http2Stream, size: int) -> None:
        self._streams[stream.id] = stream
        self._header_bytes += size
        stream.header_bytes = size
        self.out.credit += CREDIT_PER_FRAME

    def _request(self, stream: Http2Stream, event: Opened) -> None:
        """Make the request of a stream. Raises `MalformedRequest`."""
        method, target, headers, lines = wire2.request_head(event.raw)
        length: int | None = None
        if "content-length" in headers:
            declared = headers["content-length"]
            if not (declared.isascii() and declared.isdigit() and len(declared) < 20):
                raise wire2.MalformedRequest("content-length")
            length = int(declared)
            if event.ended and length:
                raise wire2.MalformedRequest("a body was announced")
        path, _, query = target.partition("?")
        stream.request = Request(method, path, query, headers, lines, self._peer, no_body, self._now, True)
        if not event.ended:
            limit = self.service.limits.max_request_bytes
            stream.body = RequestBody(self.service.loop, limit, partial(self._grant, stream), length)
            stream.request._read = stream.body.read
            stream.expects = headers.get("expect", "").lower() == "100-continue"

    def _refuse(self, stream_id: int, code: int) -> None:
        self._machine.forget(stream_id, reset=True)
        self.out.send(wire2.reset(stream_id, code))
        self._given_up()

    def _given_up(self) -> None:
        if not self._resets.take(1, self._now):
            self._quit(wire2.ENHANCE_YOUR_CALM, "too many resets")

    def _broken(self, event: LengthMismatch) -> None:
        self._freed(event.flow_controlled_length)
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            self.reset(stream, wire2.PROTOCOL_ERROR)
        self._given_up()

    def _data(self, event: jh2.DataReceived) -> None:
        self._freed(event.flow_controlled_length)
        data = event.data
        if len(data) >= TINY or event.stream_ended is not None:
            self._useful += 1
        stream = self._streams.get(event.stream_id)
        if stream is not None and stream.body is not None:
            stream.body.feed(data)
            stream.owed += event.flow_controlled_length
            if stream.body.awaited:
                self._grant(stream)

    def _freed(self, length: int) -> None:
        increment = self._machine.received(length)
        if increment:
            self.out.send(wire2.window_update(0, increment))

    def _grant(self, stream: Http2Stream) -> None:
        """Widen the window of a body somebody waits for, while the connection's budget lasts.

        Beyond the budget only the oldest unfinished body goes on, so that they can't all wait for each other.
        """
        if stream.uploaded or stream.closed or stream.body is None or stream.body.failed:
            return
        if stream.expects:
            stream.expects = False
            self.out.send(wire2.headers(stream.id, self.out.continue_block(), False, self.out.max_frame))
        self._uploads[stream.id] = stream
        if self._granted + stream.owed > self.service.limits.upload_budget_bytes:
            oldest = next(one for one in self._uploads.values() if not one.uploaded)
            if oldest is not stream:
                return
        increment = self._machine.widen(stream.id, stream.owed)
        self._granted += stream.owed
        stream.granted += stream.owed
        stream.owed = 0
        if increment:
            self.out.send(wire2.window_update(stream.id, increment))

    def _uploaded(self, event: jh2.StreamEnded) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.uploaded = True
            if stream.body is not None:
                stream.body.finish()

    def _reset_by_peer(self, event: jh2.StreamReset) -> None:
        stream = self._streams.get(event.stream_id)
        self._machine.forget(event.stream_id, reset=True)
        if stream is not None:
            self._withdraw(stream, BrokenBody("the client withdrew the request"))
            self._given_up()

    def _window(self, event: jh2.WindowUpdated) -> None:
        if event.stream_id:
            stream = self._streams.get(event.stream_id)
            if stream is not None:
                self.out.widened(stream)
        else:
            self.out.widened(None)

    def _settings(self, event: jh2.RemoteSettingsChanged) -> None:
        for stream in self._streams.values():
            self.out.widened(stream)

    def _pong(self, event: jh2.PingAckReceived) -> None:
        if event.ping_data == DRAIN_PING and self._draining_since is not None and self._final is None:
            self._finish_draining(heard=True)

    def _leaving(self, event: jh2.ConnectionTerminated) -> None:
        """The client sent GOAWAY: it opens no more streams; open ones are answered."""
        self._draining_since = self._draining_since or self._now
        self._finish_draining()

    # Answering.

    def _start(self, stream: Http2Stream) -> None:
        assert stream.request is not None
        try:
            outcome = run_eagerly(self.service.handler(stream.request), self.service.loop)
        except (Exception, asyncio.CancelledError) as error:
            self._failed(stream, error)
            return
        if isinstance(outcome, asyncio.Task):
            stream.task = outcome
            outcome.add_done_callback(partial(self._handled, stream))
        else:
            self._respond(stream, outcome)

    def _handled(self, stream: Http2Stream, task: asyncio.Task[Any]) -> None:
        self._withdrawn.discard(task)
        stream.task = None
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if stream.closed:
            if error is None:
                over(task.result(), False)
            elif not isinstance(error, asyncio.CancelledError | ConnectionError):
                log.error("a handler failed after the client had gone", exc_info=error)
        elif error is not None:
            self._failed(stream, error)
        else:
            self._respond(stream, task.result())

    def _failed(self, stream: Http2Stream, error: BaseException) -> None:
        request = stream.request
        log.error("%s %s failed", request and request.method, request and request.path, exc_info=error)
        self._respond(stream, panic())

    def _say(self, stream: Http2Stream, status: int) -> None:
        text = f"{status} {HTTPStatus(status).phrase}".encode()
        self._respond(stream, Response(status, [("content-type", "text/plain; charset=utf-8")], text))

    def _respond(self, stream: Http2Stream, response: Response) -> None:
        stream.response = response
        try:
            self._answer(stream, response)
        except Exception:
            log.exception("an answer could not be sent")
            over(response, False)
            if stream.answered:
                self.reset(stream, wire2.INTERNAL_ERROR)
            else:
                self._answer(stream, panic())
        if self.out.asked_to_close:
            self.out.asked_to_close = False
            self.drain()

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
        block = out.block(status, response.headers, self.service.date(), length)
        stream.answered = True
        out.send(wire2.headers(stream.id, block, end, out.max_frame))
        if end:
            self.sent_end(stream, out.control)
            return
        if size is not None and isinstance(body, bytes) and not stream.queued and out.data_fits(stream, size):
            out.send_whole(stream, body)
            self.sent_end(stream, out.control)
            return
        stream.began = self._monotonic()
        if response.stream is not None:
            stream.streaming = stream.endless = True
            response.stream(stream)
        elif isinstance(body, AsyncIterator):
            stream.streaming = True
            stream.task = self.service.loop.create_task(pump(body, stream))
            stream.task.add_done_callback(partial(self._pumped, stream))
        else:
            stream.put(body)

    def _pumped(self, stream: Http2Stream, task: asyncio.Task[Any]) -> None:
        self._withdrawn.discard(task)
        stream.task = None
        if not task.cancelled() and task.exception() is not None:
            log.error("an answer failed halfway", exc_info=task.exception())

    # The end of streams, and of the connection.

    def sent_end(self, stream: Http2Stream, frames: list[Any]) -> None:
        """The end of the answer is in `frames`. A client that is still sending its request gets RST_STREAM (§8.1)."""
        if not stream.uploaded:
            frames.append(wire2.reset(stream.id, wire2.NO_ERROR))
        self._machine.forget(stream.id, reset=not stream.uploaded)
        if stream.body is not None:
            stream.body.fail(BrokenBody("the request was answered before its body was read"))
        self._over(stream, whole=True)

    def reset(self, stream: Http2Stream, code: int) -> None:
        """Reset one stream."""
        if stream.closed:
            return
        self._machine.forget(stream.id, reset=True)
        if not self.out.closed:
            self.out.send(wire2.reset(stream.id, code))
        self._withdraw(stream, BrokenBody("the request was cut"))

    def _withdraw(self, stream: Http2Stream, error: BrokenBody) -> None:
        if stream.body is not None:
            stream.body.fail(error)
        if stream.task is not None and stream.task is not asyncio.current_task():
            stream.task.cancel()
            self._withdrawn.add(stream.task)
        self._over(stream)

    def _over(self, stream: Http2Stream, whole: bool = False) -> None:
        if self._streams.pop(stream.id, None) is None:
            return
        self._header_bytes -= stream.header_bytes
        if self._uploads.pop(stream.id, None) is not None:
            self._granted -= stream.granted
            for waiting in list(self._uploads.values()):
                if waiting.body is not None and waiting.body.awaited:
                    self._grant(waiting)
        stream.finish(whole)
        if not self._streams:
            self._idle_since = self._monotonic()
            if self._final is not None and not self._cut_at:
                self.service.loop.call_soon(self._close_if_done)

    def _end_streams(self, error: BrokenBody) -> None:
        for stream in list(self._streams.values()):
            self._withdraw(stream, error)

    def _finish_draining(self, heard: bool = False) -> None:
        """`heard` says that the client has received everything, or had time to: don't wait for TLS's close_notify."""
        if self._final is None:
            self._final = self._machine.highest_inbound_stream_id
            self.out.send(wire2.goaway(self._final, wire2.NO_ERROR))
            if not self._streams:
                self.service.loop.call_soon(self._close_if_done)
                if heard:
                    self.service.loop.call_soon(self._cut_if_flushed)

    def _close_if_done(self) -> None:
        if not self._streams and not self._cut_at and not self._lost:
            self._close()

    def _cut_if_flushed(self) -> None:
        if self._cut_at and not self._lost and not self._transport.get_write_buffer_size():
            self.abort()

    def _quit(self, code: int | None, why: str) -> None:
        """End the connection now. With `code` None, jh2 has written the GOAWAY itself."""
        if self._cut_at or self._lost:
            return
        own = self._machine.take()
        if own:
            self.out.send(own)
        if code is not None:
            self.out.send(wire2.goaway(self._machine.highest_inbound_stream_id, code, why))
        if code != wire2.NO_ERROR:
            log.info("%s:%d: HTTP/2 connection ended: %s", self._peer.address, self._peer.port, why)
        self._close(linger=code != wire2.NO_ERROR)
        self._end_streams(BrokenBody(why))

    def _close(self, linger: bool = False) -> None:
        """Close after what was written. A client that is refused may still be sending: closing at once would
        reset the connection and could destroy the GOAWAY on its way, so it is listened to a moment longer."""
        self._cut_at = self._monotonic() + self.service.limits.linger_s
        self.out.flush()
        self.out.closed = True
        if linger and not self._secure and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
