"""`Http1Connection`: HTTP/1.1 and 1.0 on one connection.

Pipelined requests are answered one after the other. A handler starts after all received data was parsed, so that a body
in the same packet is complete and `Request.read` never waits. A malformed request is answered in plain text, in its
turn, and ends the connection. `http1.input` parses, `http1.encoding` encodes answers, `http1.stream` sends long ones.
See also: `http2.connection`.

While the client doesn't read, no further request of its pipeline is carried out, and large answers are produced only as
fast as it reads.

Data after a request with ``Upgrade`` waits until that is answered: with a 101 the connection becomes an `Http1Tunnel`;
with any other answer the upgrade was declined (RFC 9110 §7.8), and HTTP goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from oarlock.endpoints.http import BrokenBody, Response
from oarlock.meta.context import Peer
from oarlock.server.serving.eager import run_eagerly
from oarlock.server.serving.http1 import encoding
from oarlock.server.serving.http1.input import Http1Input, QueuedRequest
from oarlock.server.serving.http1.stream import PIECE_BYTES, Http1Output, Http1Stream, Http1Tunnel
from oarlock.server.serving.listener_state import (
    ListenerState,
    Pace,
    SlowReader,
    body_length,
    log,
    panic_response,
    pump,
)
from oarlock.server.serving.read_control import ReadControl, TurnBudget

__all__ = ["Http1Connection", "QueuedRequest"]

DRAINED_BYTES = 256 * 1024  # bytes of an unread body that are skipped to keep the connection
REQUESTS_AT_ONCE = 64  # requests of a pipeline, before other connections have their turn


class Http1Connection(Http1Input):
    """One connection. `data_received` parses, `_advance` answers, `sweep` checks time limits."""

    def __init__(self, listener: ListenerState, transport: Any, peer: Peer, secure: bool, now: float) -> None:
        super().__init__(listener, peer, now)
        self._transport = transport
        self._secure = secure
        # the answers
        self._task: asyncio.Task[Any] | None = None
        self._response: Response | None = None  # that of `_current`, once there is one
        self._stream: Http1Stream | None = None
        self._tunnel: Http1Tunnel | None = None
        self._next_turn: asyncio.Handle | None = None  # scheduled: continues with what there was no time for
        self._read_control = ReadControl(transport, listener.loop)
        self._draining = listener.draining
        # the way out
        self.out = Http1Output(listener, transport, secure)
        self._pace = Pace(now)
        self._flush_scheduled = False
        self._advancing = False
        self._abort_at = 0.0  # when lingering for a refused client ends
        self._is_cut = False
        self._lost = False
        listener.add(self)

    # Called by the transport.

    def data_received(self, data: bytes) -> None:
        if self._input_ended:
            if self._tunnel is not None:
                self._tunnel.feed(data)
            return
        self._now = self._monotonic()
        if self._unparsed or self._upgrade_pending:
            self._unparsed += data
            self._regulate()
            return
        self._take(data)
        self._advance()

    def eof_received(self) -> None:
        """The client has closed its half. As in Go's server that counts as a disconnect."""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._input_ended = True
        self._read_control.forget()
        self._queue.clear()
        self._unparsed = b""
        self.out.connection_lost()
        if self._receiving is not None and self._receiving.body is not None:
            self._receiving.body.fail(BrokenBody("the client went away"))
        if self._task is not None:
            self._task.cancel()
        if self._stream is not None:
            self._stream.ended()
        if self._response is not None:
            self._response.sent(False)
        self._stream = self._tunnel = self._response = None  # break the reference cycles: collections of them are rare
        del self._parser
        self.listener.remove(self)

    def pause_writing(self) -> None:
        self.out.congested = True

    def resume_writing(self) -> None:
        self.out.congested = False
        self.out.buffer.recount()
        self._schedule_flush()

    # Called by the listener.

    def sweep(self, now: float) -> None:
        limits = self.listener.limits
        self._watch_reader(now)
        if self._read_control.peer_left(wholly=self._stream is None):  # a streamed answer ends with its client
            self.abort()
        elif self._abort_at:
            if self.out.unsent:
                self._abort_at = now + limits.linger_s
            elif now >= self._abort_at:
                self.abort()
        elif self._current is not None or self._queue:
            pass
        elif self._in_head:
            if now - self._head_since > limits.header_timeout_s:
                self._refuse(408, "the headers took too long")
                self._advance()
        elif now - self._idle_since > (limits.header_timeout_s if self._first else limits.idle_timeout_s):
            self._close(now)

    def drain(self) -> None:
        """An idle connection is aborted: its client may be asleep and not answer TLS's close_notify."""
        self._draining = True
        if self._current is None and not self._queue and not self._in_head and self._receiving is None:
            flushed = not self.out.size and not self.out.unsent
            self._close(self._monotonic())
            if flushed:
                self.listener.loop.call_soon(self.abort)

    def abort(self) -> None:
        self._input_ended = True
        self._read_control.forget()
        self._transport.abort()

    def readers(self) -> Iterator[SlowReader]:
        """The client, if bytes wait for it."""
        stream, buffered = self._stream, self.out.buffer.counted
        waiting = stream is not None and stream.waiting
        if (buffered or waiting) and not self._lost and not self._is_cut:
            buffered += stream.pending if stream is not None else 0
            yield SlowReader(self._pace.progress_at, buffered, self.cut)

    def cut(self, reason: str) -> None:
        """Abort: the client reads too slowly."""
        if not self._lost and not self._is_cut:
            self._is_cut = True
            log.info("%s:%d reads too slowly: closed (%s)", self._peer.address, self._peer.port, reason)
            self.listener.unsent.count_cut(reason)
            if self._stream is not None:
                self._stream.ended()
            self.abort()

    # Called by a stream.

    def stream_ended(self, stream: Http1Stream) -> None:
        """`stream` was closed by its writer, and all of it was passed to the transport."""
        if stream is self._stream and self._current is not None and not self._lost:
            self._finish(self._current, self._current.close or self._draining)
            self._advance()

    def hold_back(self, full: bool) -> None:
        """The buffer of a tunnel is full, or has room again."""
        if self._lost:
            return
        if full:
            self._read_control.pause()
        else:
            self._read_control.resume()

    # Answering.

    def _advance(self) -> None:
        """Answer the waiting requests, send what was written, and read more or less accordingly."""
        if self._advancing:
            return
        if self._queue or self._unparsed:
            self._advancing = True
            self._answer_queue()
            self._advancing = False
        self.out.flush()
        self._regulate()

    def _answer_queue(self) -> None:
        """Answer requests in order, as far as possible without waiting, within this connection's share."""
        queue, out = self._queue, self.out
        budget = TurnBudget(REQUESTS_AT_ONCE, self._monotonic) if len(queue) > 1 or self._unparsed else None
        while not self._lost:
            while queue and self._current is None and not self._abort_at and not out.congested:
                if budget is not None and not budget.take():
                    self._continue_later()
                    return
                self._current = queued = queue.popleft()
                self._start(queued)
                if out.size > PIECE_BYTES:
                    out.flush()
            if not self._unparsed or self._input_ended or self._upgrade_pending:
                return
            if len(queue) + (self._current is not None) > 1:
                return
            data, self._unparsed = self._unparsed, b""
            self._take(data)

    def _continue_later(self) -> None:
        if self._next_turn is None:
            self._next_turn = self.listener.loop.call_soon(self._continue)

    def _continue(self) -> None:
        self._next_turn = None
        self._advance()

    def _start(self, queued: QueuedRequest) -> None:
        if queued.refusal is not None or queued.request is None:
            self._answer_refusal(queued)
            return
        try:
            outcome = run_eagerly(self.listener.handler(queued.request), self.listener.loop)
        except (Exception, asyncio.CancelledError) as error:
            self._failed(queued, error)
            return
        if isinstance(outcome, asyncio.Task):
            self._task = outcome
            outcome.add_done_callback(self._handler_done)
        else:
            self._respond(queued, outcome)

    def _handler_done(self, task: asyncio.Task[Any]) -> None:
        self._task = None
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        queued = self._current
        if self._lost or queued is None:
            if error is None:
                task.result().sent(False)
            elif not isinstance(error, asyncio.CancelledError | ConnectionError):
                log.error("a handler failed after the client had gone", exc_info=error)
            return
        if error is not None:
            self._failed(queued, error)
        else:
            self._respond(queued, task.result())
        self._advance()

    def _failed(self, queued: QueuedRequest, error: BaseException) -> None:
        if queued.refusal is not None:
            self._answer_refusal(queued)
            return
        request = queued.request
        log.error("%s %s failed", request and request.method, request and request.path, exc_info=error)
        self._respond(queued, panic_response())

    def _respond(self, queued: QueuedRequest, response: Response) -> None:
        if self._lost:
            response.sent(False)
            return
        self._response = response
        try:
            if response.status == 101:
                self._hand_over(queued, response)
                return
            streamed = self._send_head(queued, response)
        except Exception:
            log.exception("an answer could not be sent")
            if isinstance(response, Response):
                response.sent(False)
            response = self._response = panic_response()
            streamed = self._send_head(queued, response)
        if not streamed:
            self._finish(queued, queued.close)
            return
        body = response.body
        unknown = response.stream is not None or body_length(body) is None
        stream = self._stream = Http1Stream(self, chunked=unknown and not queued.is_http10)
        stream.started_at = self._monotonic()
        if response.stream is not None:
            self._begin_stream(response.stream, stream)
        elif isinstance(body, AsyncIterator):
            self._task = self.listener.loop.create_task(pump(body, stream))
            self._task.add_done_callback(self._pump_done)
        else:
            stream.put(body)

    def _begin_stream(self, begin: Callable[[Http1Stream], None], stream: Http1Stream) -> None:
        stream.open_ended = True
        try:
            begin(stream)
        except Exception:
            log.exception("an answer failed halfway")
            stream.abort()

    def _hand_over(self, queued: QueuedRequest, response: Response) -> None:
        """Answer 101 and start the tunnel. Raises ValueError if the request can't be upgraded."""
        if not queued.upgrade or queued.is_http10 or response.stream is None:
            raise ValueError("a 101 for a request that asked for no upgrade, or with nobody to take the connection")
        self.out.put(encoding.switch(response.headers, self.listener.date()))
        queued.close = self._input_ended = True
        self._upgrade_pending = False
        tunnel = self._stream = self._tunnel = Http1Tunnel(self)
        data, self._unparsed = self._unparsed, b""
        tunnel.feed(data)
        self._begin_stream(response.stream, tunnel)

    def _pump_done(self, task: asyncio.Task[Any]) -> None:
        if self._task is task:
            self._task = None
        if not task.cancelled() and task.exception() is not None:
            log.error("an answer failed halfway", exc_info=task.exception())

    def _send_head(self, queued: QueuedRequest, response: Response) -> bool:
        """Queue the head, and a small body that is ready. Returns whether more is to come."""
        close = queued.close or self._draining or not self._body_can_be_skipped(queued)
        status = response.status
        body = response.body
        size = len(body) if type(body) is bytes else body_length(body)
        if response.stream is not None:
            size = None
        empty = status in (204, 304) or status < 200
        given = dict(response.headers)
        if given.get("connection", "").lower() == "close":
            close = True
        framing = ""
        if size is not None:
            if not empty:
                length = given.get("content-length") if queued.head_only and not size else None
                framing = f"content-length: {length or size}\r\n"
        elif queued.is_http10:
            close = True
        elif not empty:
            framing = "transfer-encoding: chunked\r\n"
        if close:
            framing += "connection: close\r\n"
        elif queued.is_http10:
            framing += "connection: keep-alive\r\n"
        head = encoding.head(status, response.headers, framing, self.listener.date())
        queued.close = close
        if empty or queued.head_only or size == 0:
            self.out.put(head)
            return False
        if size is None or size > PIECE_BYTES or not isinstance(body, bytes):
            self.out.put(head)
            return True
        self.out.put(head + body)
        return False

    def _body_can_be_skipped(self, queued: QueuedRequest) -> bool:
        """Whether to skip the rest of the request's body, to keep the connection."""
        body = queued.body
        if body is None or body.complete:
            return True
        if body.failed or (queued.expects and not queued.continued):
            return False
        return body.length is None or body.length - body.received <= DRAINED_BYTES

    def _answer_refusal(self, queued: QueuedRequest) -> None:
        status, why = queued.refusal or (400, "")
        self.out.put(encoding.refusal(status, why, self.listener.date()))
        self._finish(queued, True)

    def _finish(self, queued: QueuedRequest, close: bool) -> None:
        response = self._response
        self._current = self._stream = self._response = None
        if response is not None:
            response.sent(True)
        if queued.upgrade:
            self._upgrade_pending = False
        self._idle_since = self._monotonic()
        if queued.body is not None and not queued.body.complete:
            queued.skip_limit = queued.body.received + DRAINED_BYTES
            queued.body.fail(BrokenBody("the request was answered before its body was read"))
        if close:
            self._close(self._idle_since)

    def _close(self, now: float) -> None:
        """Close after what was written. A plain connection whose client is still sending is read a little
        longer: closing it at once would reset it and could destroy the answer on its way."""
        unread = self._receiving is not None or self._input_ended or bool(self._queue) or bool(self._unparsed)
        self._input_ended = True
        self._queue.clear()
        self._unparsed = b""
        self.out.flush()
        self._abort_at = now + self.listener.limits.linger_s
        self._read_control.resume()
        if unread and not self._secure and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    # The way out, and how fast the way in is.

    def _schedule_flush(self) -> None:
        """Schedule a flush at the end of this turn of the event loop."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self.listener.flusher.add(self)

    def flush(self) -> None:
        self._flush_scheduled = False
        if self._lost:
            return
        self.out.flush()
        if self._stream is not None:
            self._stream.resume()
        elif self._current is None:
            self._advance()

    def _body_wanted(self) -> None:
        """Called when a reader waits for the rest of the body."""
        queued = self._current
        if queued is not None and queued.expects and not queued.continued:
            queued.continued = True
            self.out.put(encoding.CONTINUE)
            self._schedule_flush()
        if self._read_control.paused:
            self._regulate()

    def _regulate(self) -> None:
        """Pause reading when a window's worth of data is waiting."""
        ahead = bool(self._queue) or bool(self._unparsed)
        if self._receiving is not None:
            body = self._receiving.body
            if body is not None and not body.awaited and body.buffered > self.listener.limits.body_window_bytes:
                ahead = True
        if self._lost:
            return
        if ahead and not self._abort_at:
            self._read_control.pause()
        elif self._read_control.paused:
            self._read_control.resume()

    def _watch_reader(self, now: float) -> None:
        """Cut a client that reads too slowly (see `ConnectionLimits`)."""
        out, stream, limits = self.out, self._stream, self.listener.limits
        out.buffer.recount()
        unsent = out.unsent
        if stream is not None:
            stream.charge()
        waiting = bool(unsent) or (stream is not None and stream.waiting)
        self._pace.update(now, waiting, out.accepted, limits.progress_bytes)
        if stream is not None and stream.open_ended and unsent + stream.pending <= limits.stream_budget_bytes:
            self._pace.tolerate(now)
        elif waiting:
            started_at = stream.started_at if stream is not None and not stream.open_ended else None
            reason = self._pace.verdict(now, limits, started_at)
            if reason:
                self.cut(reason)
