"""`Http2Output`: the send side of one HTTP/2 connection, and its slow readers.

All frames of one turn of the event loop are sent in one `transport.write`: a write per stream would cost a system call
and a TLS record each, four times as much. Streams take turns of one DATA frame, within their windows and the
connection's; while the transport is congested, data waits in its streams. A client that doesn't read the connection
stalls all streams; one that doesn't widen a stream's window stalls that one (`Http2SlowReaders`). See also:
`http2.stream`, which passes data in; `http2.input`, which receives the client's window updates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from oarlock.http2.frames import DATA, DEFAULT_WINDOW, MAX_FRAME_BYTES, data_frame, frame_header
from oarlock.http2.header_blocks import TABLE_BYTES
from oarlock.server.serving.base_stream import TRANSPORT_HIGH_BYTES, TRANSPORT_LOW_BYTES, TransportBuffer
from oarlock.server.serving.config import ConnectionLimits
from oarlock.server.serving.http2.heads import TABLE_IS_EMPTY
from oarlock.server.serving.http2.stream import Http2Owner, Http2Stream
from oarlock.server.serving.listener_state import SLOW, ListenerState, Pace, SlowReader

__all__ = ["CREDIT_PER_FRAME", "Http2Output", "Http2SlowReaders"]

FLUSH_BYTES = 512 * 1024  # at once: the rest is sent in the next turn of the event loop

AHEAD_BYTES = 128 * 1024  # of a body that is produced while it is sent

PUMPED_BYTES = 64 * 1024  # what a producer that is woken is expected to produce

CREDIT_PER_FRAME = 4


class Http2Output:
    """The frames to send: `control` first, in order; then data, as windows allow.

    `window` is what the client may still be sent on all streams together, `initial_window` on a new one, in bytes.
    """

    __slots__ = (
        "_blocked",
        "_blocks",
        "_flush_scheduled",
        "_flusher",
        "_ready",
        "_table_bytes",
        "_table_is_late",
        "_transport",
        "asked_to_close",
        "buffer",
        "closed",
        "congested",
        "control",
        "credit",
        "hard_bytes",
        "initial_window",
        "pending",
        "room",
        "sent",
        "window",
    )

    def __init__(self, listener: ListenerState, transport: Any, secure: bool) -> None:
        self._flusher = listener.flusher
        self._transport = transport
        self._blocks = listener.answer_blocks
        self._table_bytes = TABLE_BYTES  # as the client goes by
        self._table_is_late = False  # the next block is to say that the table has no room
        self._ready: deque[Http2Stream] = deque()
        self._blocked: dict[Http2Stream, None] = {}  # they wait for the connection's window
        self._flush_scheduled = False
        self.window = self.initial_window = DEFAULT_WINDOW
        self.control: list[bytes] = []
        self.congested = False
        self.closed = False
        self.asked_to_close = False  # an answer had ``connection: close``
        self.pending = 0  # data of all open-ended streams
        self.sent = 0
        self.room = FLUSH_BYTES  # for data that goes to `control` at once, in this turn
        self.credit = 0  # control frames the peer may send in reaction to ours
        self.hard_bytes = listener.limits.connection_hard_bytes
        self.buffer = TransportBuffer(listener.unsent, transport, secure)
        transport.set_write_buffer_limits(high=TRANSPORT_HIGH_BYTES, low=TRANSPORT_LOW_BYTES)

    @property
    def unsent(self) -> int:
        """Bytes passed to the transport that the kernel hasn't accepted yet."""
        size: int = self._transport.get_write_buffer_size()
        return size

    def hold(self) -> None:
        """`flush` is about to be called: none need be scheduled."""
        self._flush_scheduled = True

    def schedule_flush(self) -> None:
        """Schedule a flush at the end of this turn."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._flusher.add(self)

    def send(self, frame: bytes) -> None:
        self.control.append(frame)
        self.schedule_flush()

    def block(self, status: int, headers: Sequence[tuple[str, str]], date: str, length: int | None) -> bytes:
        """The header block of an answer. Raises ValueError for an invalid header.

        Connection and framing headers and the date are left out of `headers`.
        """
        blocks = self._blocks
        block = blocks.encode(status, headers, date, length)
        if blocks.asked_to_close:
            self.asked_to_close = True
        return self._after_table(block) if self._table_is_late else block

    def continue_block(self) -> bytes:
        """The header block of a 100."""
        block = self._blocks.encode_continue()
        return self._after_table(block) if self._table_is_late else block

    def resize_table(self, size: int) -> None:
        """The client's SETTINGS_HEADER_TABLE_SIZE. Nothing is ever put into the table, but a client that wants a
        smaller one is to hear that it is (RFC 9113 §4.3.1)."""
        if size < self._table_bytes:
            self._table_bytes = 0
            self._table_is_late = True

    def _after_table(self, block: bytes) -> bytes:
        self._table_is_late = False
        return TABLE_IS_EMPTY + block

    def queue(self, stream: Http2Stream) -> None:
        """`stream` has data, or its end, to send. It must not be queued."""
        stream.queued = True
        self._ready.append(stream)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._flusher.add(self)

    def discard(self, stream: Http2Stream) -> None:
        """`stream` has ended."""
        self._blocked.pop(stream, None)

    def flush(self) -> None:
        """Send what may be sent now."""
        self._flush_scheduled = False
        if self.closed:
            return
        parts = self.control
        self.control = []
        room, self.room = self.room, FLUSH_BYTES
        if self._ready and not self.congested:
            self._fill(parts, room)
        if parts:
            data = b"".join(parts)
            self.sent += len(data)
            self._transport.write(data)
            if self._transport.get_write_buffer_size() or self.buffer.counted:
                self.buffer.recount()
        if self._ready and not self.congested and not self.closed:
            self.schedule_flush()

    def _fill(self, parts: list[Any], room: int) -> None:
        """One DATA frame of each stream in turn, as long as windows and transport allow."""
        ready = self._ready
        while ready and room > 0:
            stream = ready.popleft()
            if stream.closed:
                stream.queued = False
                continue
            allowed = min(stream.send_window, MAX_FRAME_BYTES, self.window)
            if allowed <= 0 and stream.waiting:
                stream.charge()
                if stream.send_window > 0:
                    self._blocked[stream] = None
                else:
                    stream.queued = False  # until its own window is widened
                continue
            if not stream.pending:
                if stream.source is not None:
                    stream.read_source(min(stream.send_window, self.window, AHEAD_BYTES))
                elif stream.producer_waiter is not None:
                    stream.queued = False
                    stream.feed()
                    room -= PUMPED_BYTES
                    continue
            size = stream.take(parts, max(allowed, 0))
            self.window -= size
            stream.send_window -= size
            room -= size + 9
            if stream.streamed:
                self.pending -= size
            if stream.closed:
                stream.queued = False
            elif stream.pending or stream.ending or stream.source is not None or stream.producer_waiter is not None:
                ready.append(stream)
            else:
                stream.queued = False
            self.credit += CREDIT_PER_FRAME

    def widened(self, stream: Http2Stream | None) -> None:
        """A window was widened: the stream's, or with None the connection's."""
        if stream is None and self._blocked:
            self._ready.extend(self._blocked)
            self._blocked.clear()
        if stream is not None and not stream.queued and stream.unfinished:
            self.queue(stream)
        elif self._ready:
            self.schedule_flush()

    def open_to(self, stream: Http2Stream) -> bool:
        """Whether the windows allow data of `stream` right now."""
        return not self.congested and self.window > 0 and stream.send_window > 0

    def data_fits(self, stream: Http2Stream, size: int) -> bool:
        """Whether a whole body can be sent at once, in one frame."""
        return not self.congested and size <= MAX_FRAME_BYTES and size <= self.window and size <= stream.send_window

    def send_whole(self, stream: Http2Stream, body: bytes) -> None:
        """Send `body`, which fits, as the end of the stream."""
        self.window -= len(body)
        stream.send_window -= len(body)
        self.credit += CREDIT_PER_FRAME
        self.send(data_frame(stream.id, body, end=True))

    def write_all(self, streams: Sequence[Http2Stream], data: bytes) -> None:
        """As `Http2Stream.write` on each: a stream that waits for nothing gets its DATA frame at once."""
        size = len(data)
        total = size * len(streams)
        if not 0 < size <= MAX_FRAME_BYTES or total > min(self.window, self.room) or self.congested or self.closed:
            for stream in streams:
                stream.write(data)
            return
        head = frame_header(size, DATA, 0, 0)[:-4]
        parts = self.control
        count = 0
        for stream in streams:
            if stream.pending or stream.queued or stream.ending or stream.closed or stream.send_window < size:
                stream.write(data)
            else:
                stream.send_window -= size
                stream.accepted += size
                parts += (head, stream.id.to_bytes(4, "big"), data)
                count += 1
        size *= count
        self.window -= size
        self.room -= size
        self.credit += CREDIT_PER_FRAME * count
        self.schedule_flush()

    def abort(self) -> None:
        self.closed = True
        self._transport.abort()

    @property
    def accepted(self) -> int:
        """Bytes the kernel has accepted."""
        return self.sent - self.unsent


class Http2SlowReaders:
    """Measures the pace of a connection, and of every stream that waits."""

    __slots__ = ("_limits", "_now", "_out", "_pace")

    def __init__(self, out: Http2Output, limits: ConnectionLimits, now: float) -> None:
        # The connection is named in each call: kept here, it would be garbage that only the collector finds.
        self._out = out
        self._limits = limits
        self._pace = Pace(now)
        self._now = now

    def slow_readers(self, connection: Http2Owner, streams: Sequence[Http2Stream]) -> Iterator[SlowReader]:
        """The connection, while its transport has unsent bytes; else every stream that waits."""
        buffered = self._out.buffer.counted
        if buffered:
            buffered += sum([stream.pending for stream in streams])
            yield SlowReader(self._pace.progress_at, buffered, connection.cut)
            return
        for stream in streams:
            if stream.waiting:
                progress_at = stream.pace.progress_at if stream.pace is not None else self._now
                cut = partial(connection.cut_stream, stream)
                yield SlowReader(progress_at, stream.pending, cut)

    def check(self, connection: Http2Owner, streams: Sequence[Http2Stream], now: float) -> None:
        """Cut streams, or the connection, if the client reads too slowly (see `ConnectionLimits`)."""
        self._now = now
        open_ended, buffered = False, 0
        for stream in streams:
            open_ended |= stream.open_ended
            if stream.waiting:
                stream.charge()
                buffered += stream.pending
                self._check_stream(connection, stream, now)
            else:
                stream.pace = None
        out, limits, pace = self._out, self._limits, self._pace
        out.buffer.recount()
        unsent = out.unsent
        pace.update(now, bool(unsent), out.accepted, limits.progress_bytes)
        if open_ended and unsent + buffered <= limits.connection_budget_bytes:
            pace.tolerate(now)
        elif unsent and pace.verdict(now, limits, None):
            connection.cut(SLOW)

    def _check_stream(self, connection: Http2Owner, stream: Http2Stream, now: float) -> None:
        limits, pace = self._limits, stream.pace
        if pace is None:
            pace = stream.pace = Pace(now)
        pace.update(now, True, stream.accepted, limits.progress_bytes)
        if stream.open_ended and stream.pending <= limits.stream_budget_bytes:
            pace.tolerate(now)
        reason = pace.verdict(now, limits, None if stream.open_ended else stream.started_at)
        if reason:
            connection.cut_stream(stream, reason)
