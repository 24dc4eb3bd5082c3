"""`Http1Connection`: HTTP/1.1 and 1.0 on one connection: what is answered, when, and how it is sent.

Requests of a pipeline are answered one after the other, in order. A handler starts only after the data at
hand was parsed, so that a body that came in the same packet is complete and `Request.read` never waits.
What is malformed is answered in plain text, in its turn, and ends the connection. `http1_incoming` parses,
`wire1` has the bytes of answers, `http1_stream` answers that go on. Next: `http2`.

What follows a request with an ``Upgrade`` waits until that is answered: by a 101 the connection is handed over as
an `Http1Tunnel`; with any other answer the upgrade was declined (RFC 9110 §7.8) and HTTP goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from oarlock.endpoints.http import Peer, Response
from oarlock.server.serving import wire1
from oarlock.server.serving.drive import drive
from oarlock.server.serving.http1_incoming import Incoming
from oarlock.server.serving.http1_request import Turn
from oarlock.server.serving.http1_stream import Http1Stream
from oarlock.server.serving.http1_tunnel import Http1Tunnel
from oarlock.server.serving.service import Service, log, panic, pump, whole_body

__all__ = ["Http1Connection", "Turn"]

DRAINED_BYTES = 256 * 1024  # of a body nobody read, to keep the connection
HIGH_BYTES = 256 * 1024
LOW_BYTES = 64 * 1024


class Http1Connection(Incoming):
    """One connection. `data_received` has it parsed, `_advance` answers, `sweep` looks at the clock."""

    def __init__(self, service: Service, transport: Any, peer: Peer, secure: bool, now: float) -> None:
        super().__init__(service, peer, now)
        self._transport = transport
        self._secure = secure
        # the answers
        self._task: asyncio.Task[Any] | None = None
        self._stream: Http1Stream | None = None
        self._tunnel: Http1Tunnel | None = None
        self._paused = False
        self._pausing: asyncio.Handle | None = None
        self._draining = service.draining
        # the way out
        self._out: list[bytes] = []
        self._sent = 0
        self._taken = -1
        self._taken_at = now
        self.congested = False
        self._writable: asyncio.Future[None] | None = None
        self._cut_at = 0.0  # when a refused client has had the time to read why
        self._lost = False
        transport.set_write_buffer_limits(high=HIGH_BYTES, low=LOW_BYTES)
        service.joined(self)

    # What the transport calls.

    def data_received(self, data: bytes) -> None:
        if self._stopped:
            if self._tunnel is not None:
                self._tunnel.feed(data)
            return
        self._now = self._monotonic()
        if self._held or self._undecided:
            self._held += data
            self._regulate()
            return
        self._take(data)
        self._advance()

    def eof_received(self) -> None:
        """The client sends nothing more. As in Go's server that is taken for its leaving."""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._stopped = True
        self._forget_pausing()
        self._turns.clear()
        self._held = b""
        self._out.clear()
        if self._incoming is not None and self._incoming.body is not None:
            self._incoming.body.fail(ConnectionResetError("the client went away"))
        if self._task is not None:
            self._task.cancel()
        if self._stream is not None:
            self._stream.ended()
        self.resume_writing()
        del self._parser  # which knows this object's methods
        self.service.left(self)

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None

    # What the listener calls.

    def sweep(self, now: float) -> None:
        limits = self.service.limits
        if self._cut_at:
            if self.unsent:
                self._cut_at = now + limits.linger_s
                self._watch_reader(now, 0)
            elif now >= self._cut_at:
                self.abort()
        elif self._turn is not None:
            self._watch_reader(now, limits.connection_budget_bytes)
        elif self._in_head:
            if now - self._head_since > limits.header_timeout_s:
                self._refuse(408, "the headers took too long")
                self._advance()
        elif now - self._idle_since > (limits.header_timeout_s if self._first else limits.idle_timeout_s):
            self._close(now)

    def drain(self) -> None:
        """An idle connection ends now: its client may be asleep, and would answer TLS's goodbye when it wakes."""
        self._draining = True
        if self._turn is None and not self._turns and not self._in_head and self._incoming is None:
            flushed = not self._out and not self.unsent
            self._close(self._monotonic())
            if flushed:
                self.service.loop.call_soon(self.abort)

    def abort(self) -> None:
        self._stopped = True
        self._forget_pausing()
        self._transport.abort()

    # What a stream calls.

    @property
    def unsent(self) -> int:
        """Bytes the kernel has not taken yet."""
        size: int = self._transport.get_write_buffer_size()
        return size

    def send(self, data: bytes) -> None:
        self._out.append(data)
        self._write_out()

    def stream_ended(self, stream: Http1Stream) -> None:
        """`stream` was closed by its writer and everything of it is with the transport."""
        if stream is self._stream and self._turn is not None and not self._lost:
            self._finish(self._turn, self._turn.close or self._draining)
            self._advance()

    def hold_back(self, full: bool) -> None:
        """A tunnel has as much as it takes for now, or has room again."""
        if not full:
            self._resume_reading()
        elif not self._paused and not self._lost:
            self._pause_reading()

    async def writable(self) -> None:
        """Wait until the transport has room again, or is gone."""
        if self.congested:
            if self._writable is None:
                self._writable = self.service.loop.create_future()
            await asyncio.shield(self._writable)

    # Answering.

    def _advance(self) -> None:
        """Answer what waits, one after the other, as far as it goes without waiting."""
        while not self._lost:
            while self._turn is None and self._turns and not self._cut_at:
                self._turn = turn = self._turns.popleft()
                self._start(turn)
            if not self._held or self._stopped or self._undecided or len(self._turns) + (self._turn is not None) > 1:
                break
            data, self._held = self._held, b""
            self._take(data)
        self._write_out()
        self._regulate()

    def _start(self, turn: Turn) -> None:
        if turn.refusal is not None or turn.request is None:
            self._answer_refusal(turn)
            return
        try:
            outcome = drive(self.service.handler(turn.request), self.service.loop)
        except (Exception, asyncio.CancelledError) as error:
            self._failed(turn, error)
            return
        if isinstance(outcome, asyncio.Task):
            self._task = outcome
            outcome.add_done_callback(self._handled)
        else:
            self._respond(turn, outcome)

    def _handled(self, task: asyncio.Task[Any]) -> None:
        self._task = None
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        turn = self._turn
        if self._lost or turn is None:
            if error is not None and not isinstance(error, asyncio.CancelledError | ConnectionError):
                log.error("a handler failed after the client had gone", exc_info=error)
            return
        if error is not None:
            self._failed(turn, error)
        else:
            self._respond(turn, task.result())
        self._advance()

    def _failed(self, turn: Turn, error: BaseException) -> None:
        if turn.refusal is not None:
            self._answer_refusal(turn)
            return
        request = turn.request
        log.error("%s %s failed", request and request.method, request and request.path, exc_info=error)
        self._respond(turn, panic())

    def _respond(self, turn: Turn, response: Response) -> None:
        if self._lost:
            return
        try:
            if response.status == 101:
                self._hand_over(turn, response)
                return
            streaming, close = self._send_head(turn, response)
        except Exception:
            log.exception("an answer could not be sent")
            response = panic()
            streaming, close = self._send_head(turn, response)
        turn.close = close
        if not streaming:
            self._finish(turn, close)
            return
        stream = self._stream = Http1Stream(self, chunked=not turn.old)
        if response.stream is not None:
            self._begin_stream(response.stream, stream)
        elif isinstance(response.body, AsyncIterator):
            self._task = self.service.loop.create_task(pump(response.body, stream))
            self._task.add_done_callback(self._pumped)

    def _begin_stream(self, begin: Callable[[Http1Stream], None], stream: Http1Stream) -> None:
        try:
            begin(stream)
        except Exception:
            log.exception("an answer failed halfway")
            stream.abort()

    def _hand_over(self, turn: Turn, response: Response) -> None:
        """Answer 101, after which the connection is no longer HTTP's. Raises ValueError where that can't be."""
        if not turn.upgrade or turn.old or response.stream is None:
            raise ValueError("a 101 for a request that asked for no upgrade, or with nobody to take the connection")
        self._out.append(wire1.switch(response.headers, self.service.date()))
        turn.close = self._stopped = True
        self._undecided = False
        tunnel = self._stream = self._tunnel = Http1Tunnel(self)
        held, self._held = self._held, b""
        tunnel.feed(held)
        self._begin_stream(response.stream, tunnel)

    def _pumped(self, task: asyncio.Task[Any]) -> None:
        if self._task is task:
            self._task = None
        if not task.cancelled() and task.exception() is not None:
            log.error("an answer failed halfway", exc_info=task.exception())

    def _send_head(self, turn: Turn, response: Response) -> tuple[bool, bool]:
        """Queue the head, and the body if it is at hand: whether there is more, whether to close after it."""
        close = turn.close or self._draining or not self._body_can_be_skipped(turn)
        status = response.status
        body = whole_body(response)
        streaming = body is None
        empty = status in (204, 304) or status < 200
        connection = length = None
        for name, value in response.headers:
            if name == "connection":
                connection = value
            elif name == "content-length":
                length = value
        if connection is not None and connection.lower() == "close":
            close = True
        framing = ""
        if body is not None:
            if not empty:
                framing = f"content-length: {length if turn.head_only and not body and length else len(body)}\r\n"
        elif turn.old:
            close = True
        elif not empty:
            framing = "transfer-encoding: chunked\r\n"
        if close:
            framing += "connection: close\r\n"
        elif turn.old:
            framing += "connection: keep-alive\r\n"
        self._out.append(wire1.head(status, response.headers, framing, self.service.date()))
        if empty or turn.head_only:
            return False, close
        if body:
            self._out.append(body)
        return streaming, close

    def _body_can_be_skipped(self, turn: Turn) -> bool:
        """Whether what is left of the request's body is worth reading past, to keep the connection."""
        body = turn.body
        if body is None or body.complete:
            return True
        if body.failed or (turn.expects and not turn.continued):
            return False
        return body.length is None or body.length - body.received <= DRAINED_BYTES

    def _answer_refusal(self, turn: Turn) -> None:
        status, why = turn.refusal or (400, "")
        self._out.append(wire1.refusal(status, why, self.service.date()))
        self._finish(turn, True)

    def _finish(self, turn: Turn, close: bool) -> None:
        self._turn = self._stream = None
        if turn.upgrade:
            self._undecided = False
        self._idle_since = self._monotonic()
        if turn.body is not None and not turn.body.complete:
            turn.skipped_to = turn.body.received + DRAINED_BYTES
            turn.body.fail(ConnectionError("the request was answered before its body was read"))
        if close:
            self._close(self._idle_since)

    def _close(self, now: float) -> None:
        """Close after what was written. A plain connection whose client is still sending is read a little
        longer: closing it at once would reset it and could destroy the answer on its way."""
        unread = self._incoming is not None or self._stopped or bool(self._turns) or bool(self._held)
        self._stopped = True
        self._turns.clear()
        self._held = b""
        self._write_out()
        self._cut_at = now + self.service.limits.linger_s
        self._resume_reading()
        if unread and not self._secure and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    # The way out, and how fast the way in is.

    def _write_out(self) -> None:
        out = self._out
        if not out or self._lost:
            return
        self._out = []
        if len(out) == 1:
            data = out[0]
        elif sum(map(len, out)) <= HIGH_BYTES:
            data = b"".join(out)
        else:
            for data in out:
                self._sent += len(data)
                self._transport.write(data)
            return
        self._sent += len(data)
        self._transport.write(data)

    def flush(self) -> None:
        self._write_out()

    def _body_wanted(self) -> None:
        """Somebody waits for the rest of the body."""
        turn = self._turn
        if turn is not None and turn.expects and not turn.continued:
            turn.continued = True
            self._out.append(wire1.CONTINUE)
            self.service.flusher.add(self)
        if self._paused:
            self._regulate()

    def _regulate(self) -> None:
        """Read no further than a window ahead of what is being answered."""
        body = self._incoming.body if self._incoming is not None else None
        ahead = bool(self._turns) or bool(self._held)
        if body is not None and not body.awaited and body.buffered > self.service.limits.body_window_bytes:
            ahead = True
        if ahead and not self._cut_at:
            if not self._paused:
                self._pause_reading()
        elif self._paused:
            self._resume_reading()

    def _pause_reading(self) -> None:
        """From the next turn on: a TLS transport that is paused while it hands data over keeps what it has
        decrypted and not handed over, and doesn't give it when it is resumed unless more comes in."""
        self._paused = True
        self._pausing = self.service.loop.call_soon(self._pause_now)

    def _pause_now(self) -> None:
        self._pausing = None
        self._transport.pause_reading()

    def _forget_pausing(self) -> bool:
        """Whether reading was about to be paused, and now isn't."""
        pausing, self._pausing = self._pausing, None
        if pausing is not None:
            pausing.cancel()
        return pausing is not None

    def _resume_reading(self) -> None:
        if self._paused and not self._lost:
            self._paused = False
            if not self._forget_pausing():
                self._transport.resume_reading()

    def _watch_reader(self, now: float, budget: int) -> None:
        """Cut a client that has taken nothing for long and for whom much is waiting (see `Limits`)."""
        buffered = self.unsent
        taken = self._sent - buffered
        if not buffered or taken != self._taken:
            self._taken = taken
            self._taken_at = now
        elif buffered > budget and now - self._taken_at > self.service.limits.stall_timeout_s:
            log.info("%s:%d takes nothing: cut", self._peer.address, self._peer.port)
            self.abort()
