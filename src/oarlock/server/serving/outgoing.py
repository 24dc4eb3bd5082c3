"""`Outgoing`: the send side of one HTTP/2 connection.

All frames of one turn of the event loop are sent in one `transport.write`: a write per stream would cost a system call
and a TLS record each, four times as much. Streams take turns of one DATA frame, within their windows and the
connection's; while the transport is congested, data waits in its streams. See also: `http2_stream`, which passes data
in; `machine`, whose windows are used up here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from oarlock.server.serving import wire2
from oarlock.server.serving.http2_stream import Http2Stream
from oarlock.server.serving.machine import Machine
from oarlock.server.serving.service import Service
from oarlock.server.serving.transport import HIGH_BYTES, LOW_BYTES, TransportBuffer

__all__ = ["CREDIT_PER_FRAME", "Outgoing"]

MAX_FRAME = 16_384  # longer frames would let one stream delay the others
FLUSH_BYTES = 512 * 1024  # at once: the rest is sent in the next turn of the event loop
AHEAD_BYTES = 128 * 1024  # of a body that is produced while it is sent
PUMPED_BYTES = 64 * 1024  # what a producer that is woken is expected to produce
CREDIT_PER_FRAME = 4


class Outgoing:
    """The frames to send: `control` first, in order; then data, as windows allow."""

    __slots__ = (
        "_dirty",
        "_encode",
        "_flusher",
        "_names",
        "_ready",
        "_transport",
        "asked_to_close",
        "buffer",
        "closed",
        "congested",
        "control",
        "credit",
        "hard_bytes",
        "machine",
        "pending",
        "sent",
    )

    def __init__(self, service: Service, transport: Any, machine: Machine, secure: bool) -> None:
        self._flusher = service.flusher
        self._transport = transport
        self._encode = machine.encoder.encode
        self._names: dict[str, bytes] = {}
        self._ready: deque[Http2Stream] = deque()
        self._dirty = False
        self.machine = machine
        self.control: list[bytes] = []
        self.congested = False
        self.closed = False
        self.asked_to_close = False  # an answer had ``connection: close``
        self.pending = 0  # data of all open-ended streams
        self.sent = 0
        self.credit = 0  # control frames the peer may send in reaction to ours
        self.hard_bytes = service.limits.connection_hard_bytes
        self.buffer = TransportBuffer(service.unsent, transport, secure)
        transport.set_write_buffer_limits(high=HIGH_BYTES, low=LOW_BYTES)

    @property
    def unsent(self) -> int:
        """Bytes passed to the transport that the kernel hasn't accepted yet."""
        size: int = self._transport.get_write_buffer_size()
        return size

    @property
    def max_frame(self) -> int:
        return min(int(self.machine.max_outbound_frame_size), MAX_FRAME)

    def hold(self) -> None:
        """`flush` is about to be called: none need be scheduled."""
        self._dirty = True

    def mark(self) -> None:
        """Schedule a flush at the end of this turn."""
        if not self._dirty:
            self._dirty = True
            self._flusher.add(self)

    def send(self, frame: bytes) -> None:
        self.control.append(frame)
        self.mark()

    def block(self, status: int, headers: Iterable[tuple[str, str]], date: str, length: int | None) -> bytes:
        """The header block of an answer. Raises ValueError for an invalid header.

        Connection and framing headers and the date are left out of `headers`.
        """
        names = self._names
        fields: list[tuple[bytes, bytes, bool]] = [(b":status", b"%d" % status, False), (b"date", date.encode(), False)]
        for name, value in headers:
            raw = names.get(name)
            if raw is None:
                raw = self._name(name)
            if raw:
                fields.append((raw, value.encode(), False))
            elif name == "connection" and value.lower() == "close":
                self.asked_to_close = True
        if length is not None:
            fields.append((b"content-length", b"%d" % length, False))
        if wire2.BREAKS.search(b"\1".join([value for _, value, _ in fields])):
            raise ValueError("a header contains a line break")
        block: bytes = self._encode(fields)
        return block

    def continue_block(self) -> bytes:
        """The header block of a 100, to be sent at once: each block depends on those before it."""
        block: bytes = self._encode([(b":status", b"100", False)])
        return block

    def _name(self, name: str) -> bytes:
        lower = name.lower()
        if lower in wire2.FORBIDDEN or lower in ("date", "content-length"):
            raw = b""
        else:
            raw = lower.encode()
            if wire2.NAME.fullmatch(raw) is None:
                raise ValueError(f"{name!r} can't be the name of a header")
        if len(self._names) < 128:
            self._names[name] = raw
        return raw

    def queue(self, stream: Http2Stream) -> None:
        """`stream` has data, or its end, to send. It must not be queued."""
        stream.queued = True
        self._ready.append(stream)
        if not self._dirty:
            self._dirty = True
            self._flusher.add(self)

    def flush(self) -> None:
        """Send what may be sent now."""
        self._dirty = False
        if self.closed:
            return
        parts = self.control
        self.control = []
        if self._ready and not self.congested:
            self._fill(parts)
        if parts:
            data = b"".join(parts)
            self.sent += len(data)
            self._transport.write(data)
            if self._transport.get_write_buffer_size() or self.buffer.held:
                self.buffer.settle()
        if self._ready and not self.congested and not self.closed:
            self._again()

    def _again(self) -> None:
        if self.machine.outbound_flow_control_window > 0:
            self.mark()

    def _fill(self, parts: list[Any]) -> None:
        """One DATA frame of each stream in turn, as long as windows and transport allow."""
        machine, ready = self.machine, self._ready
        room = FLUSH_BYTES
        window = machine.outbound_flow_control_window
        max_frame = self.max_frame
        skipped = 0
        while ready and room > 0 and skipped < len(ready):
            stream = ready.popleft()
            if stream.closed:
                stream.queued = False
                continue
            flow = stream.flow
            own = flow.outbound_flow_control_window
            allowed = min(own, max_frame, window)
            if allowed <= 0 and stream.waiting:
                stream.charge()
                if own > 0:
                    ready.append(stream)  # it waits for the connection's window
                    skipped += 1
                else:
                    stream.queued = False  # until its own window is widened
                continue
            skipped = 0
            if not stream.pending:
                if stream.source is not None:
                    stream.read_source(min(own, window, AHEAD_BYTES))
                elif stream.hungry is not None:
                    stream.queued = False
                    stream.feed()
                    room -= PUMPED_BYTES
                    continue
            size = stream.take(parts, max(allowed, 0))
            window -= size
            room -= size + 9
            flow.outbound_flow_control_window -= size
            if stream.streaming:
                self.pending -= size
            if stream.closed:
                stream.queued = False
            elif stream.pending or stream.ending or stream.source is not None or stream.hungry is not None:
                ready.append(stream)
            else:
                stream.queued = False
            self.credit += CREDIT_PER_FRAME
        machine.outbound_flow_control_window = window

    def widened(self, stream: Http2Stream | None) -> None:
        """A window was widened: the stream's, or with None the connection's."""
        if stream is not None and not stream.queued and stream.unfinished:
            self.queue(stream)
        elif self._ready:
            self.mark()

    def open_to(self, stream: Http2Stream) -> bool:
        """Whether the windows allow data of `stream` right now."""
        return (
            not self.congested
            and self.machine.outbound_flow_control_window > 0
            and stream.flow.outbound_flow_control_window > 0
        )

    def data_fits(self, stream: Http2Stream, size: int) -> bool:
        """Whether a whole body can be sent at once, in one frame."""
        return (
            not self.congested
            and size <= self.max_frame
            and size <= self.machine.outbound_flow_control_window
            and size <= stream.flow.outbound_flow_control_window
        )

    def send_whole(self, stream: Http2Stream, body: bytes) -> None:
        """Send `body`, which fits, as the end of the stream."""
        self.machine.outbound_flow_control_window -= len(body)
        stream.flow.outbound_flow_control_window -= len(body)
        self.credit += CREDIT_PER_FRAME
        self.send(wire2.data(stream.id, body, end=True))

    def abort(self) -> None:
        self.closed = True
        self._transport.abort()

    @property
    def taken(self) -> int:
        """Bytes the kernel has accepted."""
        return self.sent - self.unsent
