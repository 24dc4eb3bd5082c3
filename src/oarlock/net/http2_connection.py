"""`Http2ClientConnection`: the client's side of one HTTP/2 connection, for many streams at a time (RFC 9113).

What streams send in one turn of the event loop leaves in one write. Received data is allowed anew while it is taken;
what a server sends without being allowed, or asks for without end, ends the connection.
Must not know: what a stream carries, who connects. See also: ``http2.frames``; `http2`, requests on it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from oarlock.http2 import frames as h2
from oarlock.http2.frames import ErrorCode, Http2Error
from oarlock.http2.header_blocks import BlockDecoder, BlockEncoder, HeaderFields
from oarlock.meta.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StreamFailure:
    """Why a stream ended without the end of its answer.

    `code` is that of the server's RST_STREAM, None if the connection ended. `unsent`: the server has certainly not
    begun it, so that it may be repeated (RFC 9113 §8.7).
    """

    why: str
    code: int | None = None
    unsent: bool = False


class ClientStream(ABC):
    """A connection calls the methods named ``on_…``; they don't raise. `begun`: its header fields were handed to the
    socket."""

    __slots__ = ("begun", "ended", "received", "stream_id", "unsent", "window")

    def __init__(self) -> None:
        self.stream_id = 0
        self.begun = False
        self.ended = False
        """Whether it takes nothing more."""
        self.window = 0
        """How many bytes the server still takes."""
        self.unsent: deque[bytes | memoryview] = deque()
        self.received = 0
        """Bytes that the server hasn't been allowed anew."""

    @property
    def hungry(self) -> bool:
        """Whether it takes more now."""
        return True

    def on_drained(self) -> None:
        """All that was to be sent has been handed to the socket."""
        return

    @abstractmethod
    def on_fields(self, fields: Sequence[tuple[bytes, bytes]], end: bool) -> None:
        """The fields of an answer, interim ones too, or its trailers; with `end` nothing comes after them."""

    @abstractmethod
    def on_data(self, data: bytes, end: bool) -> None:
        """A part of the answer's body."""

    @abstractmethod
    def on_failure(self, failure: StreamFailure) -> None:
        """The stream has ended before its answer."""


BLOCK_BYTES = 64 * 1024
BLOCK_FIELDS = 256
UNSENT_ANSWERS_BYTES = 1 << 20
"""A server that asks for more signs of life than it reads is left."""

ANSWER_S = 0.02
"""How long the answer to a sign of life waits for something to be sent with it."""

MOST_IDLE_FRAMES = 4096
"""How many frames a server may send in a second that bring no stream forward."""

_CANCEL = 8
_STREAM_ID = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A stream that begins when the server takes another, and what it sends first."""

    stream: ClientStream
    fields: HeaderFields
    data: bytes
    end: bool


class Http2ClientConnection(asyncio.Protocol):
    """Streams are begun by whoever makes them. With `keepalive_s`, a server that is silent for so long while streams
    are open is asked for a sign of life."""

    ping_wait_s: ClassVar[float] = 15.0
    stream_window: ClassVar[int] = 1 << 20
    connection_window: ClassVar[int] = 16 << 20
    allowed_anew_bytes: ClassVar[int] = 256 * 1024
    """So much is received before the server is told that it may send that much again."""

    def __init__(self, keepalive_s: float = 0) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._keepalive_s: Final = keepalive_s
        self._transport: asyncio.Transport | None = None
        self._encoder: Final = BlockEncoder()
        self._decoder: Final = BlockDecoder(BLOCK_BYTES, BLOCK_FIELDS)
        self._streams: Final[dict[int, ClientStream]] = {}
        self._waiting: Final[deque[_Waiting]] = deque()
        self._next_id = 1
        self._output: list[bytes] = []
        self._rest = b""
        self._block: tuple[int, bool, bytearray] | None = None
        self._window = self._first_window = h2.DEFAULT_WINDOW
        self._most_streams = _STREAM_ID
        self._blocked = False
        self._received = 0
        self._unread_answers = 0
        self._idle_frames = 0
        self._idle_since = 0.0
        self._heard = self._loop.time()
        self._pinging: asyncio.TimerHandle | None = None
        self._answering: asyncio.TimerHandle | None = None
        self.ready: Final[asyncio.Future[None]] = self._loop.create_future()
        """Done when the server has shown that it speaks HTTP/2. Raises ConnectionError."""
        self.usable = True
        """Whether new streams may begin."""

    def on_unusable(self) -> None:
        """Called once, when no new stream may begin any more; those that are open may go on."""

    # Streams

    def begin(self, stream: ClientStream, fields: HeaderFields, data: bytes, *, end: bool) -> None:
        """Open a stream with `fields`, and `data` of its body; with `end` that is all of it."""
        if self._transport is None or self._transport.is_closing():
            self._end_use()  # the loop tells of it in a moment
        if not self.usable:
            stream.on_failure(StreamFailure("the connection has ended", unsent=True))
            return
        if len(self._streams) >= self._most_streams:
            self._waiting.append(_Waiting(stream, fields, data, end))
            return
        stream.stream_id = self._next_id
        self._next_id += 2
        stream.window = self._first_window
        self._streams[stream.stream_id] = stream
        self._write(h2.headers_frames(stream.stream_id, self._encoder.encode(fields), end=end and not data))
        stream.begun = True
        if data and not stream.unsent:
            self._send(stream, data, end=end)
        if self._next_id > _STREAM_ID:
            self._end_use()
        if self._keepalive_s and self._pinging is None:
            self._pinging = self._loop.call_later(self._keepalive_s, self._look_for_signs)

    @property
    def room(self) -> int:
        """How many more streams can begin at once."""
        return self._most_streams - len(self._streams) - len(self._waiting) if self.usable else 0

    @property
    def most_streams(self) -> int:
        """How many streams may be open at a time, as far as the server says so."""
        return self._most_streams

    @property
    def ended(self) -> bool:
        """Whether it carries nothing any more."""
        return self._transport is None

    @property
    def heard(self) -> float:
        """When something came last, by the clock of the loop."""
        return self._heard

    def send(self, stream: ClientStream, data: bytes, *, end: bool = False) -> None:
        """Send a part of the body as soon as flow control allows; with `end` it is the last."""
        if stream.begun:
            self._send(stream, data, end=end)
            return
        stream.unsent.append(data)
        if end and data:
            stream.unsent.append(b"")

    def _send(self, stream: ClientStream, data: bytes, *, end: bool) -> None:
        if (
            not stream.unsent
            and not self._blocked
            and len(data) <= min(self._window, stream.window, h2.MAX_FRAME_BYTES)
        ):
            self._window -= len(data)
            stream.window -= len(data)
            self._write(h2.data_frame(stream.stream_id, data, end))
            return
        if data:
            stream.unsent.append(data)
        if end:
            stream.unsent.append(b"")
        self._pump(stream)

    def _pump(self, stream: ClientStream) -> None:
        """Send what the windows allow. An empty piece stands for the end of what the stream sends."""
        unsent = stream.unsent
        while unsent and not self._blocked:
            data = unsent[0]
            size = min(len(data), self._window, stream.window, h2.MAX_FRAME_BYTES)
            if size <= 0 and data:
                return
            last = not data or (len(unsent) == 2 and not unsent[1] and size == len(data))
            self._window -= size
            stream.window -= size
            self._write(h2.data_frame(stream.stream_id, bytes(data[:size]), end=last))
            if last:
                unsent.clear()
            elif size == len(data):
                unsent.popleft()
            else:
                unsent[0] = memoryview(data)[size:]
        if not unsent:
            stream.on_drained()

    def give_up(self, stream: ClientStream) -> None:
        if self._streams.get(stream.stream_id) is stream:
            self._write(h2.rst_stream_frame(stream.stream_id, _CANCEL))
            self._remove(stream)
        elif not stream.begun:
            for waiting in self._waiting:
                if waiting.stream is stream:
                    self._waiting.remove(waiting)
                    break

    def take_in(self, stream: ClientStream) -> None:
        if stream.received >= self.allowed_anew_bytes and self._streams.get(stream.stream_id) is stream:
            self._write(h2.window_update_frame(stream.stream_id, stream.received))
            stream.received = 0

    def _remove(self, stream: ClientStream) -> None:
        self._streams.pop(stream.stream_id, None)
        while self.usable and self._waiting and len(self._streams) < self._most_streams:
            waiting = self._waiting.popleft()
            pieces, waiting.stream.unsent = waiting.stream.unsent, deque()
            self.begin(waiting.stream, waiting.fields, waiting.data, end=waiting.end)
            for piece in pieces:
                self._send(waiting.stream, bytes(piece), end=not piece)
        if not self.usable and not self._streams:
            self.close("the connection has ended")

    # Life

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        settings = {h2.ENABLE_PUSH: 0, h2.INITIAL_WINDOW_SIZE: self.stream_window, h2.MAX_HEADER_LIST_SIZE: BLOCK_BYTES}
        more = h2.window_update_frame(0, self.connection_window - h2.DEFAULT_WINDOW)
        transport.write(h2.PREFACE + h2.settings_frame(settings) + more)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._fail(f"the connection was lost: {error}" if error else "the server ended the connection")

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        self._pump_all()

    def close(self, why: str) -> None:
        """End the connection; streams fail with `why`."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.write(b"".join(self._output) + h2.goaway_frame(0, ErrorCode.NO_ERROR))
            self._output.clear()
            transport.abort()  # an end that waits for the server's would outlast the loop, or last as it likes
        self._fail(why)

    def retire(self) -> None:
        """Begin no new stream; the connection ends with the last that is open."""
        self._end_use()
        if not self._streams:
            self.close("the connection has ended")

    def _fail(self, why: str) -> None:
        self._end_use()
        for timer in (self._pinging, self._answering):
            if timer is not None:
                timer.cancel()
        self._pinging = self._answering = None
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(why))
            self.ready.exception()  # whoever waits has it
        streams = [*self._streams.values(), *(waiting.stream for waiting in self._waiting)]
        self._streams.clear()
        self._waiting.clear()
        for stream in streams:
            stream.on_failure(StreamFailure(why, unsent=not stream.begun))

    def _end_use(self) -> None:
        if self.usable:
            self.usable = False
            self.on_unusable()

    def _write(self, data: bytes) -> None:
        if self._answering is not None:
            self._answering.cancel()
            self._answering = None
            self._loop.call_soon(self._flush)
        elif not self._output:
            self._loop.call_soon(self._flush)
        self._output.append(data)

    def _flush(self) -> None:
        self._answering = None
        if self._transport is not None and self._output:
            self._transport.write(b"".join(self._output))
        self._output.clear()

    def _look_for_signs(self) -> None:
        silence = self._loop.time() - self._heard
        if not self._streams:
            self._pinging = None
        elif silence >= self._keepalive_s + self.ping_wait_s:
            self.close("no sign of life: deadline exceeded")
        else:
            wait = self._keepalive_s - silence
            if wait <= 0:
                self._write(h2.ping_frame(bytes(8)))
                wait = self._keepalive_s + self.ping_wait_s - silence
            self._pinging = self._loop.call_later(wait, self._look_for_signs)

    # Frames

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        try:
            self._parse(self._rest + data if self._rest else data)
        except Http2Error as error:
            self.close(f"what listens there breaks the rules of HTTP/2: {error}")
        except Exception as error:
            self.close(f"what came can't be read: {type(error).__name__}: {error}")
            raise

    def _parse(self, data: bytes) -> None:
        position, end = 0, len(data)
        while end - position >= h2.FRAME_HEADER_BYTES:
            upper, lowest, kind, flags, stream_id = h2.read_frame_header(data, position)
            size = upper << 8 | lowest
            if size > h2.MAX_FRAME_BYTES:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a frame is longer than was allowed")
            begin = position + h2.FRAME_HEADER_BYTES
            if end - begin < size:
                break
            position = begin + size
            self._frame(kind, flags, stream_id & _STREAM_ID, data[begin:position])
            if self._transport is None:
                return
        self._rest = data[position:]

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if not self.ready.done() and kind != h2.SETTINGS:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "it doesn't begin with SETTINGS")
        if self._block is not None and kind != h2.CONTINUATION:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a header block isn't continued")
        if kind != h2.DATA or not payload:
            self._count_idle()
        if kind == h2.DATA:
            self._on_data(flags, stream_id, payload)
        elif kind == h2.HEADERS:
            payload = _unpadded(payload, flags)
            if flags & h2.PRIORITY_FLAG:
                payload = payload[5:]
            self._block = (stream_id, bool(flags & h2.END_STREAM), bytearray(payload))
            self._on_block_piece(flags)
        elif kind == h2.CONTINUATION:
            if self._block is None or self._block[0] != stream_id:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "an unexpected CONTINUATION")
            self._block[2].extend(payload)
            self._on_block_piece(flags)
        elif kind == h2.SETTINGS:
            self._on_settings(flags, payload)
        elif kind == h2.WINDOW_UPDATE:
            self._on_window(stream_id, payload)
        elif kind == h2.PING:
            if not flags & h2.ACK:
                self._answer_soon(h2.ping_frame(payload[:8].ljust(8, b"\0"), ack=True))
        elif kind == h2.RST_STREAM:
            self._on_reset(stream_id, int.from_bytes(payload[:4], "big"))
        elif kind == h2.GOAWAY:
            self._on_goaway(payload)
        elif kind == h2.PUSH_PROMISE:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "it pushes")

    def _count_idle(self) -> None:
        self._idle_frames += 1
        if self._idle_frames > MOST_IDLE_FRAMES:
            if self._heard < self._idle_since + 1:
                raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "it sends frames without end")
            self._idle_frames = 0
            self._idle_since = self._heard

    def _answer_soon(self, data: bytes) -> None:
        """Send it with what is sent next: Go's servers ask after each request, and one answer in time is enough."""
        if self._answering is None and not self._output:
            self._answering = self._loop.call_later(ANSWER_S, self._flush)
        self._output.append(data)
        self._count_answer(data)

    def _count_answer(self, data: bytes) -> None:
        self._unread_answers += len(data)
        if self._transport is not None and not self._transport.get_write_buffer_size():
            self._unread_answers = len(data)
        elif self._unread_answers > UNSENT_ANSWERS_BYTES:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "it asks for more answers than it reads")

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._received += size
        if self._received >= self.allowed_anew_bytes:
            self._write(h2.window_update_frame(0, self._received))
            self._received = 0
        stream = self._streams.get(stream_id)
        if stream is None:  # given up a moment ago
            self._count_idle()
            return
        if size:
            self._idle_frames = 0
        stream.received += size
        if stream.received > self.stream_window:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more was sent than was allowed")
        end = bool(flags & h2.END_STREAM)
        stream.on_data(_unpadded(payload, flags), end)
        if end:
            self._ended_by_server(stream)
        elif not stream.ended and stream.hungry:
            self.take_in(stream)

    def _ended_by_server(self, stream: ClientStream) -> None:
        self._idle_frames = 0
        if stream.unsent and self._streams.get(stream.stream_id) is stream:
            self._write(h2.rst_stream_frame(stream.stream_id, ErrorCode.NO_ERROR))  # it wants to hear no more
            stream.unsent.clear()
        self._remove(stream)

    def _on_block_piece(self, flags: int) -> None:
        assert self._block is not None
        stream_id, end, block = self._block
        if len(block) > BLOCK_BYTES:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "oversized header block")
        if flags & h2.END_HEADERS:
            self._block = None
            fields = self._decoder.decode(bytes(block))[0]
            stream = self._streams.get(stream_id)
            if stream is not None:
                stream.on_fields([(bytes(name), bytes(value)) for name, value, _ in fields], end)
                if end:
                    self._ended_by_server(stream)

    def _on_settings(self, flags: int, payload: bytes) -> None:
        if flags & h2.ACK:
            return
        for start in range(0, len(payload) - 5, 6):
            name = int.from_bytes(payload[start : start + 2], "big")
            value = int.from_bytes(payload[start + 2 : start + 6], "big")
            if name == h2.INITIAL_WINDOW_SIZE:
                if value > h2.MAX_WINDOW:
                    raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "window too large")
                for stream in self._streams.values():
                    stream.window += value - self._first_window
                self._first_window = value
            elif name == h2.MAX_CONCURRENT_STREAMS:
                self._most_streams = value
            elif name == h2.HEADER_TABLE_SIZE:
                self._encoder.resize(value)
        acknowledgement = h2.frame(h2.SETTINGS, h2.ACK, 0, b"")
        self._write(acknowledgement)
        self._count_answer(acknowledgement)
        if not self.ready.done():
            self.ready.set_result(None)
        self._pump_all()

    def _on_window(self, stream_id: int, payload: bytes) -> None:
        increment = int.from_bytes(payload[:4], "big") & _STREAM_ID
        if not stream_id:
            self._window += increment
            if self._window > h2.MAX_WINDOW:
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "window too large")
            self._pump_all()
            return
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.window += increment
            self._pump(stream)

    def _pump_all(self) -> None:
        for stream in [stream for stream in self._streams.values() if stream.unsent]:
            self._pump(stream)

    def _on_reset(self, stream_id: int, code: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.unsent.clear()
            refused = code == ErrorCode.REFUSED_STREAM
            stream.on_failure(StreamFailure(f"the server reset the stream with code {code}", code, unsent=refused))
            self._remove(stream)

    def _on_goaway(self, payload: bytes) -> None:
        last = int.from_bytes(payload[:4], "big") & _STREAM_ID
        text = payload[8:200].decode("ascii", "replace")
        self._end_use()
        unseen = [stream for stream in self._streams.values() if stream.stream_id > last]
        for stream in unseen:
            del self._streams[stream.stream_id]
        unseen += [waiting.stream for waiting in self._waiting]
        self._waiting.clear()
        for stream in unseen:
            stream.on_failure(StreamFailure(f"the server goes away: {text}", unsent=True))
        if not self._streams:
            self.close("the server goes away")


def _unpadded(payload: bytes, flags: int) -> bytes:
    if not flags & h2.PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "more padding than there is")
    return payload[1 : len(payload) - payload[0]]
