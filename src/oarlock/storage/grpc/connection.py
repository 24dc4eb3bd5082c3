"""`GrpcConnection`: one HTTP/2 connection to a gRPC server, for many calls at a time.

What calls send in one turn of the event loop leaves in one write. Received data is allowed anew while it is taken;
what a server sends without being allowed, or asks for without end, ends the connection.

Must not know: what is called, who connects. See also: `calls`, `channel`; `oarlock.http2`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from oarlock.http2 import frames as h2
from oarlock.http2.frames import ErrorCode, Http2Error
from oarlock.http2.header_blocks import BlockDecoder, BlockEncoder, Fields
from oarlock.meta.dataclass import dataclass
from oarlock.storage.grpc.calls import GrpcCall, GrpcStream, Metadata, UnaryCall, prefixed
from oarlock.storage.grpc.errors import GrpcCode, GrpcError, error_of_trailers

__all__ = ["ConnectionSettings", "GrpcConnection"]

STREAM_WINDOW = 4 << 20
CONNECTION_WINDOW = 64 << 20
ALLOWED_ANEW_BYTES = 1 << 20
"""So much is received before the server is told that it may send that much again."""
BLOCK_BYTES = 64 * 1024
BLOCK_FIELDS = 256
MOST_FIELDS = 64
"""Of how many paths and metadata the header fields are remembered."""
UNSENT_ANSWERS_BYTES = 1 << 20
"""A server that asks for more signs of life than it reads is left."""
PING_WAIT_S = 5.0
ANSWER_S = 0.02
"""How long the answer to a sign of life waits for something to be sent with it."""

_CANCEL = 8
_OF_RESETS: Final = {
    _CANCEL: GrpcCode.CANCELLED,
    ErrorCode.REFUSED_STREAM: GrpcCode.UNAVAILABLE,
    ErrorCode.ENHANCE_YOUR_CALM: GrpcCode.RESOURCE_EXHAUSTED,
}
_STREAM_ID = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A call that begins when the server takes another, and what it sends first."""

    call: GrpcCall
    path: str
    metadata: Metadata
    data: bytes
    end: bool


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """`largest` is how many bytes a message may have that comes.

    With `keepalive_s`, a server that is silent for so long while calls are under way is asked for a sign of life.
    """

    scheme: str
    authority: str
    keepalive_s: float
    largest: int


class GrpcConnection(asyncio.Protocol):
    """Made by a channel. `on_end` is called when no new call may begin on it."""

    def __init__(self, settings: ConnectionSettings, on_end: Callable[[GrpcConnection], None]) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._settings: Final = settings
        self.largest = settings.largest
        self._fields: Final[dict[tuple[str, Metadata], Fields]] = {}
        self._on_end: Final = on_end
        self._keepalive_s: Final = settings.keepalive_s
        self._transport: asyncio.Transport | None = None
        self._encoder: Final = BlockEncoder()
        self._decoder: Final = BlockDecoder(BLOCK_BYTES, BLOCK_FIELDS)
        self._calls: Final[dict[int, GrpcCall]] = {}
        self._waiting: Final[deque[_Waiting]] = deque()
        self._next_id = 1
        self._output: list[bytes] = []
        self._rest = b""
        self._block: tuple[int, bool, bytearray] | None = None
        self._window = self._stream_window = h2.DEFAULT_WINDOW
        self._most_calls = _STREAM_ID
        self._received = 0
        self._unread_answers = 0
        self._heard = self._loop.time()
        self._pinging: asyncio.TimerHandle | None = None
        self._answering: asyncio.TimerHandle | None = None
        self.ready: Final[asyncio.Future[None]] = self._loop.create_future()
        """Done when the server has shown that it speaks HTTP/2. Raises `GrpcError`."""
        self.usable = True

    # Calls

    async def unary(self, path: str, message: bytes, timeout_s: float, metadata: Metadata) -> bytes:
        """The answer. Raises `GrpcError`."""
        call = UnaryCall(self, self._loop)
        timer = self._loop.call_later(timeout_s, call.expire)
        self._begin(call, path, metadata, prefixed(message), end=True)
        try:
            return await call.answer
        except asyncio.CancelledError:
            call.cancel(GrpcError(GrpcCode.CANCELLED, "nobody waits for the answer any more"))
            raise
        finally:
            timer.cancel()

    def stream(self, path: str, metadata: Metadata) -> GrpcStream:
        stream = GrpcStream(self, self._loop)
        self._begin(stream, path, metadata, b"", end=False)
        return stream

    def _begin(self, call: GrpcCall, path: str, metadata: Metadata, data: bytes, *, end: bool) -> None:
        if not self.usable:
            call.end(GrpcError(GrpcCode.UNAVAILABLE, "the connection has ended", unsent=True))
            return
        if len(self._calls) >= self._most_calls:
            self._waiting.append(_Waiting(call, path, metadata, data, end))
            return
        call.stream_id = self._next_id
        self._next_id += 2
        call.window = self._stream_window
        self._calls[call.stream_id] = call
        block = self._encoder.encode(self._fields_of(path, metadata))
        self._write(h2.headers_frames(call.stream_id, block, end=False))
        call.begun = True
        if data and not call.unsent:
            self._send(call, data, end=end)
        if self._next_id > _STREAM_ID:
            self._end_use()
        if self._keepalive_s and self._pinging is None:
            self._pinging = self._loop.call_later(self._keepalive_s, self._look_for_signs)

    def _fields_of(self, path: str, metadata: Metadata) -> Fields:
        fields = self._fields.get((path, metadata))
        if fields is None:
            if len(self._fields) >= MOST_FIELDS:
                self._fields.clear()
            settings = self._settings
            head = [(b":method", b"POST"), (b":scheme", settings.scheme.encode())]
            head += [(b":authority", settings.authority.encode())]
            head += [(b":path", path.encode()), (b"te", b"trailers"), (b"content-type", b"application/grpc")]
            head += [(name.encode(), value.encode()) for name, value in metadata]
            fields = self._fields[path, metadata] = [(name, value, False) for name, value in head]
        return fields

    def send(self, call: GrpcCall, data: bytes) -> None:
        if call.begun:
            self._send(call, data, end=False)
        else:
            call.unsent.append(data)

    def _send(self, call: GrpcCall, data: bytes, *, end: bool) -> None:
        if not call.unsent and len(data) <= min(self._window, call.window, h2.MAX_FRAME_BYTES):
            self._window -= len(data)
            call.window -= len(data)
            self._write(h2.data_frame(call.stream_id, data, end))
            return
        call.unsent.append(data)
        if end:
            call.unsent.append(b"")
        self._pump(call)

    def _pump(self, call: GrpcCall) -> None:
        """Send what the windows allow. An empty piece stands for the end of what the call sends."""
        unsent = call.unsent
        while unsent:
            data = unsent[0]
            size = min(len(data), self._window, call.window, h2.MAX_FRAME_BYTES)
            if size <= 0:
                return
            last = len(unsent) == 2 and not unsent[1] and size == len(data)
            self._window -= size
            call.window -= size
            self._write(h2.data_frame(call.stream_id, data[:size], end=last))
            if last:
                unsent.clear()
            elif size == len(data):
                unsent.popleft()
            else:
                unsent[0] = data[size:]

    def give_up(self, call: GrpcCall) -> None:
        if self._calls.get(call.stream_id) is call:
            self._write(h2.rst_stream_frame(call.stream_id, _CANCEL))
            self._remove(call)

    def take_in(self, call: GrpcCall) -> None:
        if call.received >= ALLOWED_ANEW_BYTES and self._calls.get(call.stream_id) is call:
            self._write(h2.window_update_frame(call.stream_id, call.received))
            call.received = 0

    def _remove(self, call: GrpcCall) -> None:
        self._calls.pop(call.stream_id, None)
        while self.usable and self._waiting and len(self._calls) < self._most_calls:
            one = self._waiting.popleft()
            if not one.call.ended:
                pieces, one.call.unsent = one.call.unsent, deque()
                self._begin(one.call, one.path, one.metadata, one.data, end=one.end)
                for piece in pieces:
                    self._send(one.call, piece, end=False)
        if not self.usable and not self._calls:
            self.close("the connection has ended")

    # Life

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        settings = {h2.ENABLE_PUSH: 0, h2.INITIAL_WINDOW_SIZE: STREAM_WINDOW, h2.MAX_HEADER_LIST_SIZE: BLOCK_BYTES}
        more = h2.window_update_frame(0, CONNECTION_WINDOW - h2.DEFAULT_WINDOW)
        transport.write(h2.PREFACE + h2.settings_frame(settings) + more)

    def connection_lost(self, error: Exception | None) -> None:
        why = f"the connection was lost: {error}" if error else "the server ended the connection"
        self._transport = None
        self._fail(why)

    def close(self, why: str) -> None:
        """End the connection; calls fail with `why`."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.write(b"".join(self._output) + h2.goaway_frame(0, ErrorCode.NO_ERROR))
            self._output.clear()
            if transport.get_write_buffer_size():
                transport.abort()  # who doesn't read would keep it open
            else:
                transport.close()
        self._fail(why)

    def _fail(self, why: str) -> None:
        self._end_use()
        for timer in (self._pinging, self._answering):
            if timer is not None:
                timer.cancel()
        self._pinging = self._answering = None
        if not self.ready.done():
            self.ready.set_exception(GrpcError(GrpcCode.UNAVAILABLE, f"failed to connect: {why}", unsent=True))
            self.ready.exception()  # whoever waits has it
        calls = [*self._calls.values(), *(one.call for one in self._waiting)]
        self._calls.clear()
        self._waiting.clear()
        for call in calls:
            call.end(GrpcError(GrpcCode.UNAVAILABLE, why, unsent=not call.begun))

    def _end_use(self) -> None:
        if self.usable:
            self.usable = False
            self._on_end(self)

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
        if not self._calls:
            self._pinging = None
        elif silence >= self._keepalive_s + PING_WAIT_S:
            self.close("no sign of life: deadline exceeded")
        else:
            wait = self._keepalive_s - silence
            if wait <= 0:
                self._write(h2.ping_frame(bytes(8)))
                wait = self._keepalive_s + PING_WAIT_S - silence
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
        if self._received >= ALLOWED_ANEW_BYTES:
            self._write(h2.window_update_frame(0, self._received))
            self._received = 0
        call = self._calls.get(stream_id)
        if call is None:
            return  # given up a moment ago
        call.received += size
        if call.received > STREAM_WINDOW:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more was sent than was allowed")
        try:
            call.feed(_unpadded(payload, flags))
        except GrpcError as error:
            call.cancel(error)
            return
        if flags & h2.END_STREAM:
            self._remove(call)
            call.end(error_of_trailers({}))
        elif call.hungry:
            self.take_in(call)

    def _on_block_piece(self, flags: int) -> None:
        assert self._block is not None
        stream_id, end, block = self._block
        if len(block) > BLOCK_BYTES:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "oversized header block")
        if flags & h2.END_HEADERS:
            self._block = None
            fields = self._decoder.decode(bytes(block))[0]
            call = self._calls.get(stream_id)
            if call is not None:
                self._on_fields(call, fields, end)

    def _on_fields(self, call: GrpcCall, fields: Fields, end: bool) -> None:
        found = {bytes(name): bytes(value) for name, value, _ in fields}
        if end:
            self._remove(call)
            call.end(error_of_trailers(found))
        elif not call.headers_seen:
            status = found.get(b":status", b"")
            if status.startswith(b"1"):
                return
            call.headers_seen = True
            if status != b"200":
                call.cancel(error_of_trailers(found) or GrpcError(GrpcCode.UNKNOWN, "an answer without a status"))
            elif not found.get(b"content-type", b"").startswith(b"application/grpc"):
                call.cancel(GrpcError(GrpcCode.UNIMPLEMENTED, "what answers is no gRPC server"))

    def _on_settings(self, flags: int, payload: bytes) -> None:
        if flags & h2.ACK:
            return
        for start in range(0, len(payload) - 5, 6):
            name = int.from_bytes(payload[start : start + 2], "big")
            value = int.from_bytes(payload[start + 2 : start + 6], "big")
            if name == h2.INITIAL_WINDOW_SIZE:
                if value > h2.MAX_WINDOW:
                    raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "window too large")
                for call in self._calls.values():
                    call.window += value - self._stream_window
                self._stream_window = value
            elif name == h2.MAX_CONCURRENT_STREAMS:
                self._most_calls = value
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
        call = self._calls.get(stream_id)
        if call is not None:
            call.window += increment
            self._pump(call)

    def _pump_all(self) -> None:
        for call in [call for call in self._calls.values() if call.unsent]:
            self._pump(call)

    def _on_reset(self, stream_id: int, code: int) -> None:
        call = self._calls.get(stream_id)
        if call is not None:
            self._remove(call)
            refused = code == ErrorCode.REFUSED_STREAM
            grpc_code = (
                GrpcCode.CANCELLED if code == _CANCEL else GrpcCode.UNAVAILABLE if refused else GrpcCode.INTERNAL
            )
            call.end(GrpcError(grpc_code, f"the server reset the stream with code {code}", unsent=refused))

    def _on_goaway(self, payload: bytes) -> None:
        last = int.from_bytes(payload[:4], "big") & _STREAM_ID
        text = payload[8:200].decode("ascii", "replace")
        self._end_use()
        unseen = [call for call in self._calls.values() if call.stream_id > last]
        for call in unseen:
            del self._calls[call.stream_id]
            call.end(GrpcError(GrpcCode.UNAVAILABLE, f"the server goes away: {text}", unsent=True))
        waiting = [one.call for one in self._waiting]
        self._waiting.clear()
        for call in waiting:
            call.end(GrpcError(GrpcCode.UNAVAILABLE, f"the server goes away: {text}", unsent=True))
        if not self._calls:
            self.close("the server goes away")


def _unpadded(payload: bytes, flags: int) -> bytes:
    if not flags & h2.PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "more padding than there is")
    return payload[1 : len(payload) - payload[0]]
