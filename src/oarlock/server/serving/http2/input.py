"""`Http2Input`: the receive side of one HTTP/2 connection (RFC 9113).

It parses frames, assembles and decodes header blocks, keeps the states of streams and the windows of both sides,
acknowledges SETTINGS and PING, and calls `Http2Events` with what concerns requests. Which frames are allowed when is
decided here alone. Frames that carry nothing are counted in `idle_frames`, for the connection to limit.
Must not know: handlers, responses, transports. See also: `oarlock.http2`, `http2.headers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from oarlock.http2 import frames as h2
from oarlock.http2.frames import ErrorCode, Http2Error, Http2StreamError
from oarlock.http2.header_blocks import TABLE_BYTES, HeaderFields
from oarlock.server.serving.config import ConnectionLimits
from oarlock.server.serving.http2.heads import MalformedRequest, ReceivedBlock, ReceivedBlocks, check_trailers
from oarlock.server.serving.http2.output import Http2Output
from oarlock.server.serving.http2.stream import Http2Stream

__all__ = ["Http2Events", "Http2Input"]

STREAM_ID = 0x7FFF_FFFF  # the highest bit is reserved
CONTINUATIONS = 64  # of one header block
FRAMES_AT_ONCE = 512
HEADER_BYTES_AT_ONCE = 256 * 1024
REQUEST_BYTES = 4096  # what a request counts besides its headers
TINY_BYTES = 64  # a smaller DATA or CONTINUATION frame counts as one that carries nothing
RESETS_REMEMBERED = 1024


class Http2Events(Protocol):
    """What a connection does about received frames. Each method may raise `Http2Error` and `Http2StreamError`."""

    def stream_opened(self, stream_id: int, block: ReceivedBlock, ended: bool) -> None:
        """A client opened a stream with `block`, whose fields are unchecked."""
        ...

    def body_received(self, stream: Http2Stream, data: bytes, flow_controlled: int, ended: bool) -> None:
        """A piece of a body, which used `flow_controlled` bytes of the window; `ended` says that it is the last."""
        ...

    def stream_failed(self, error: Http2StreamError) -> None: ...

    def stream_reset(self, stream: Http2Stream) -> None:
        """The client reset the stream."""
        ...

    def ping_acknowledged(self, payload: bytes) -> None: ...

    def goaway_received(self) -> None: ...


class Http2Input:
    """`feed` takes received bytes, `parse` handles them.

    `streams` are the open streams: the connection adds one in `stream_opened`, and ends it with `close_stream`.
    """

    __slots__ = (
        "_block",
        "_block_ends_stream",
        "_block_stream",
        "_blocks",
        "_data",
        "_expected_kind",
        "_header_bytes",
        "_out",
        "_preface_left",
        "_reset_streams",
        "_stream_window",
        "_unacknowledged",
        "_window",
        "_window_size",
        "frames",
        "idle_frames",
        "last_stream_id",
        "streams",
        "waiting",
    )

    def __init__(self, limits: ConnectionLimits, out: Http2Output) -> None:
        self._out = out
        # Up to twice the limits a request is answered with 431; more is an attack on the decoder.
        self._blocks = ReceivedBlocks(2 * limits.max_header_bytes, 2 * limits.max_headers)
        self._preface_left = h2.PREFACE
        self._expected_kind: int | None = h2.SETTINGS  # no other frame may come
        self._data = b""
        self._block: list[bytes] = []  # the pieces of an incomplete header block
        self._block_stream = 0
        self._block_ends_stream = False
        self._header_bytes = 0  # of all blocks, decoded, and `REQUEST_BYTES` for each
        self._stream_window = limits.body_window_bytes
        self._window_size = self._window = min(
            limits.upload_budget_bytes + limits.max_concurrent_streams * limits.body_window_bytes, 2**30
        )
        self._unacknowledged = 0  # bytes of the connection's window that were used up
        # The last streams that ended with RST_STREAM, oldest first: True if the client sent one.
        self._reset_streams: dict[int, bool] = {}
        self.streams: dict[int, Http2Stream] = {}
        self.last_stream_id = 0  # the highest one the client has used
        self.frames = 0  # grows with every frame
        self.idle_frames = 0
        self.waiting = False  # `parse` has more to do
        settings = {
            h2.HEADER_TABLE_SIZE: TABLE_BYTES,
            h2.ENABLE_PUSH: 0,
            h2.MAX_CONCURRENT_STREAMS: limits.max_concurrent_streams,
            h2.INITIAL_WINDOW_SIZE: limits.body_window_bytes,
            h2.MAX_HEADER_LIST_SIZE: limits.max_header_bytes,
        }
        out.send(h2.settings_frame(settings))
        if self._window_size > h2.DEFAULT_WINDOW:
            out.send(h2.window_update_frame(0, self._window_size - h2.DEFAULT_WINDOW))

    @property
    def incomplete(self) -> bool:
        """Whether a frame or a header block has begun and isn't complete."""
        return bool(self._data or self._block_stream or self._preface_left)

    def feed(self, data: bytes) -> None:
        """Take received `data`. Raises `Http2Error` for an invalid preface."""
        if self._preface_left:
            size = min(len(self._preface_left), len(data))
            if data[:size] != self._preface_left[:size]:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "invalid preface")
            self._preface_left = self._preface_left[size:]
            data = data[size:]
        self._data = self._data + data if self._data else data
        self.waiting = True

    def parse(self, events: Http2Events) -> None:
        """Handle the frames at hand, up to a number of frames and of bytes of headers that other connections can wait
        for; `waiting` says that there may be more. Raises `Http2Error`, which ends the connection."""
        data, position = self._data, 0
        size = len(data)
        frames, header_bytes = self.frames + FRAMES_AT_ONCE, self._header_bytes + HEADER_BYTES_AT_ONCE
        self.waiting = False
        try:
            while size - position >= h2.FRAME_HEADER_BYTES:
                upper, lower, kind, flags, stream_id = h2.read_frame_header(data, position)
                start = position + h2.FRAME_HEADER_BYTES
                end = start + (upper << 8) + lower
                if end - start > h2.MAX_FRAME_BYTES:
                    raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "frame too long")
                if end > size:
                    break
                position = end
                self.frames += 1
                stream_id &= STREAM_ID
                if self._expected_kind is not None:
                    self._check_expected(kind, flags, stream_id)
                try:
                    if kind < len(HANDLERS):
                        HANDLERS[kind](self, events, flags, stream_id, data[start:end])
                    else:
                        self.idle_frames += 1
                except Http2StreamError as error:
                    events.stream_failed(error)
                if self.frames >= frames or self._header_bytes >= header_bytes:
                    self.waiting = True
                    break
        finally:
            self._data = data[position:]

    def close_stream(self, stream_id: int, reset: bool) -> None:
        """The stream has ended. After a `reset` by the server, frames that are still on their way aren't errors."""
        self.streams.pop(stream_id, None)
        if reset:
            self._reset_streams[stream_id] = False
            if len(self._reset_streams) > RESETS_REMEMBERED:
                del self._reset_streams[next(iter(self._reset_streams))]

    def widen(self, stream: Http2Stream, size: int) -> None:
        """`size` bytes of a stream's body were consumed: widen its window, when half of it is used up."""
        stream.unacknowledged += size
        if stream.unacknowledged and stream.unacknowledged >= self._stream_window // 2:
            self._out.send(h2.window_update_frame(stream.id, stream.unacknowledged))
            stream.receive_window += stream.unacknowledged
            stream.unacknowledged = 0

    # Frames.

    def _check_expected(self, kind: int, flags: int, stream_id: int) -> None:
        """The first frame is SETTINGS (§3.4), and nothing comes between those of a header block (§4.3)."""
        if kind != self._expected_kind or stream_id != self._block_stream:
            text = "a header block is incomplete" if self._block_stream else "the first frame isn't SETTINGS"
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, text)
        if kind == h2.SETTINGS and flags & h2.ACK:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first SETTINGS acknowledges others")
        if kind == h2.SETTINGS or flags & h2.END_HEADERS:
            self._expected_kind = None

    def _data_frame(self, events: Http2Events, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._window -= size
        if self._window < 0:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window is exceeded")
        self._unacknowledged += size
        if self._unacknowledged >= self._window_size // 2:
            self._out.send(h2.window_update_frame(0, self._unacknowledged))
            self._window += self._unacknowledged
            self._unacknowledged = 0
        stream = self.streams.get(stream_id)
        if stream is None:
            self._not_open(stream_id)
            if stream_id not in self._reset_streams:
                raise Http2Error(ErrorCode.STREAM_CLOSED, f"DATA on stream {stream_id}, which is closed")
            self.idle_frames += 1
            self._check_withdrawn(stream_id)
            return
        ended = bool(flags & h2.END_STREAM)
        data = _unpadded(payload) if flags & h2.PADDED else payload
        if len(data) < TINY_BYTES and not ended:
            self.idle_frames += 1
        if stream.request_complete:
            raise Http2StreamError(stream_id, ErrorCode.STREAM_CLOSED, "DATA after the end of the request")
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"the window of stream {stream_id} is exceeded")
        events.body_received(stream, data, size, ended)

    def _headers_frame(self, events: Http2Events, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"HEADERS on stream {stream_id}")
        if flags & h2.PADDED:
            payload = _unpadded(payload)
        if flags & h2.PRIORITY_FLAG:
            if len(payload) < 5:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "HEADERS too short")
            if _depends_on(payload) == stream_id:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"stream {stream_id} depends on itself")
            payload = payload[5:]
        ended = bool(flags & h2.END_STREAM)
        if flags & h2.END_HEADERS:
            self._header_block(events, stream_id, payload, ended)
        else:
            self._block = [payload]
            self._block_stream = stream_id
            self._block_ends_stream = ended
            self._expected_kind = h2.CONTINUATION

    def _continuation_frame(self, events: Http2Events, flags: int, stream_id: int, payload: bytes) -> None:
        if not self._block_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without a header block")
        self._block.append(payload)
        if len(payload) < TINY_BYTES and not flags & h2.END_HEADERS:
            self.idle_frames += 1
        if flags & h2.END_HEADERS:
            block, self._block, self._block_stream = b"".join(self._block), [], 0
            self._header_block(events, stream_id, block, self._block_ends_stream)
        elif len(self._block) > CONTINUATIONS:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "too many CONTINUATION frames")

    def _header_block(self, events: Http2Events, stream_id: int, block: bytes, ended: bool) -> None:
        received = self._blocks.decode(block)
        self._header_bytes += received.size + REQUEST_BYTES
        if stream_id > self.last_stream_id:
            self.last_stream_id = stream_id
            events.stream_opened(stream_id, received, ended)
        else:
            self._trailers(events, stream_id, received.fields, ended)

    def _trailers(self, events: Http2Events, stream_id: int, fields: HeaderFields, ended: bool) -> None:
        """Trailers are checked and ignored."""
        self.idle_frames += 1
        stream = self.streams.get(stream_id)
        if stream is None:
            if stream_id not in self._reset_streams:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"HEADERS on stream {stream_id}, which is closed")
            self._check_withdrawn(stream_id)
            return
        if stream.request_complete:
            raise Http2StreamError(stream_id, ErrorCode.STREAM_CLOSED, "HEADERS after the end of the request")
        try:
            check_trailers(fields)
        except MalformedRequest as error:
            raise Http2StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, str(error)) from error
        if not ended:
            raise Http2StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, "trailers that don't end the request")
        events.body_received(stream, b"", 0, True)

    def _priority_frame(self, events: Http2Events, flags: int, stream_id: int, payload: bytes) -> None:
        """Priorities are ignored (§5.3.2)."""
        self.idle_frames += 1
        if not stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        if len(payload) != 5:
            if stream_id not in self.streams:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "length of PRIORITY")
            raise Http2StreamError(stream_id, ErrorCode.FRAME_SIZE_ERROR, "length of PRIORITY")
        if _depends_on(payload) == stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"stream {stream_id} depends on itself")

    def _rst_stream_frame(self, events: Http2Events, flags: int, stream_id: int, payload: bytes) -> None:
        self.idle_frames += 1
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "length of RST_STREAM")
        stream = self.streams.get(stream_id)
        if stream is None:
            self._not_open(stream_id)
        else:
            events.stream_reset(stream)
        if stream_id in self._reset_streams:
            self._reset_streams[stream_id] = True

    def _settings_frame(self, events: Http2Events, flags: int, stream_id: int, payload: bytes) -> None:
        self.idle_frames += 1
        if stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream")
        if len(payload) % 6 or (flags & h2.ACK and payload):
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "length of SETTINGS")
        if flags & h2.ACK:
            return
        values: dict[int, int] = {}
        for at in range(0, len(payload), 6):
            code, value = int.from_bytes(payload[at : at + 2], "big"), int.from_bytes(payload[at + 2 : at + 6], "big")
            values[code] = value
            if code == h2.ENABLE_PUSH and value > 1:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "SETTINGS_ENABLE_PUSH")
            if code == h2.INITIAL_WINDOW_SIZE and value > h2.MAX_WINDOW:
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE")
            if code == h2.MAX_FRAME_SIZE and not h2.MAX_FRAME_BYTES <= value < 2**24:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "SETTINGS_MAX_FRAME_SIZE")
        if h2.HEADER_TABLE_SIZE in values:
            self._out.resize_table(values[h2.HEADER_TABLE_SIZE])
        if h2.INITIAL_WINDOW_SIZE in values:
            self._set_initial_window(values[h2.INITIAL_WINDOW_SIZE])
        self._out.send(h2.frame(h2.SETTINGS, h2.ACK, 0, b""))

    def _set_initial_window(self, size: int) -> None:
        """All streams' windows change by the difference (§6.9.2)."""
        difference = size - self._out.initial_window
        if not difference:
            return
        self._out.initial_window = size
        self.frames += len(self.streams) // 4  # it takes the time of so many
        for stream in self.streams.values():
            stream.send_window += difference
            if stream.send_window > h2.MAX_WINDOW:
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"the window of stream {stream.id} is too large")
            self._out.widened(stream)

    def _push_promise_frame(self, events: Http2Events, flags: int, stream_id: int, payload: bytes) -> None:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE from a client")

    def _ping_frame(self, events: Http2Events, flags: int, stream_id: int, payload: bytes) -> None:
        self.idle_frames += 1
        if stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "length of PING")
        if flags & h2.ACK:
            events.ping_acknowledged(payload)
        else:
            self._out.send(h2.ping_frame(payload, ack=True))

    def _goaway_frame(self, events: Http2Events, flags: int, stream_id: int, payload: bytes) -> None:
        self.idle_frames += 1
        if stream_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "length of GOAWAY")
        events.goaway_received()

    def _window_update_frame(self, events: Http2Events, flags: int, stream_id: int, payload: bytes) -> None:
        self.idle_frames += 1
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "length of WINDOW_UPDATE")
        increment = int.from_bytes(payload, "big") & h2.MAX_WINDOW
        out = self._out
        if not stream_id:
            out.window += increment
            if not increment or out.window > h2.MAX_WINDOW:
                code = ErrorCode.FLOW_CONTROL_ERROR if increment else ErrorCode.PROTOCOL_ERROR
                raise Http2Error(code, "increment of the connection's window")
            out.widened(None)
            return
        stream = self.streams.get(stream_id)
        if stream is None:
            self._not_open(stream_id)
            return
        stream.send_window += increment
        if not increment or stream.send_window > h2.MAX_WINDOW:
            code = ErrorCode.FLOW_CONTROL_ERROR if increment else ErrorCode.PROTOCOL_ERROR
            raise Http2StreamError(stream_id, code, "increment of a stream's window")
        out.widened(stream)

    def _check_withdrawn(self, stream_id: int) -> None:
        """Nothing comes on a stream behind the client's own RST_STREAM (§5.1)."""
        if self._reset_streams[stream_id]:
            raise Http2StreamError(stream_id, ErrorCode.STREAM_CLOSED, "a frame after RST_STREAM")

    def _not_open(self, stream_id: int) -> None:
        """A frame for a stream that isn't open: closed, or else it's an error."""
        if stream_id > self.last_stream_id or not stream_id & 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a frame for stream {stream_id}, which was never opened")


def _unpadded(payload: bytes) -> bytes:
    """The payload of a padded frame without its padding (§6.1)."""
    if not payload or payload[0] >= len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "invalid padding")
    return payload[1 : len(payload) - payload[0]]


def _depends_on(payload: bytes) -> int:
    """The stream that a priority refers to."""
    return int.from_bytes(payload[:4], "big") & STREAM_ID


FrameHandler = Callable[[Http2Input, Http2Events, int, int, bytes], None]

HANDLERS: tuple[FrameHandler, ...] = (
    Http2Input._data_frame,
    Http2Input._headers_frame,
    Http2Input._priority_frame,
    Http2Input._rst_stream_frame,
    Http2Input._settings_frame,
    Http2Input._push_promise_frame,
    Http2Input._ping_frame,
    Http2Input._goaway_frame,
    Http2Input._window_update_frame,
    Http2Input._continuation_frame,
)
"""By type of frame."""
