"""HTTP/2 frames (RFC 9113 §4, §6): types, flags, error codes, and how frames are encoded.

Pure. See also: `header_blocks`.
"""

from __future__ import annotations

from struct import Struct

__all__ = [
    "ACK",
    "CONTINUATION",
    "DATA",
    "DEFAULT_WINDOW",
    "ENABLE_PUSH",
    "END_HEADERS",
    "END_STREAM",
    "FRAME_HEADER_BYTES",
    "GOAWAY",
    "HEADERS",
    "HEADER_TABLE_SIZE",
    "INITIAL_WINDOW_SIZE",
    "MAX_CONCURRENT_STREAMS",
    "MAX_FRAME_BYTES",
    "MAX_FRAME_SIZE",
    "MAX_HEADER_LIST_SIZE",
    "MAX_STREAM_ID",
    "MAX_WINDOW",
    "PADDED",
    "PING",
    "PREFACE",
    "PRIORITY",
    "PRIORITY_FLAG",
    "PUSH_PROMISE",
    "RST_STREAM",
    "SETTINGS",
    "WINDOW_UPDATE",
    "ErrorCode",
    "Http2Error",
    "Http2StreamError",
    "data_frame",
    "frame",
    "frame_header",
    "goaway_frame",
    "headers_frames",
    "ping_frame",
    "read_frame_header",
    "rst_stream_frame",
    "settings_frame",
    "window_update_frame",
]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY_FLAG = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = (
    range(1, 7)
)

MAX_FRAME_BYTES = 16_384
"""Both ways the smallest maximum that RFC 9113 allows: longer frames would let one stream delay the others."""

DEFAULT_WINDOW = 65_535
MAX_STREAM_ID = MAX_WINDOW = 2**31 - 1


class ErrorCode:
    """RFC 9113 §7."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Http2Error(Exception):
    """A connection error (RFC 9113 §5.4.1): the connection ends with a GOAWAY."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Http2StreamError(Exception):
    """A stream error (RFC 9113 §5.4.2): the stream ends with a RST_STREAM."""

    def __init__(self, stream_id: int, code: int, text: str) -> None:
        super().__init__(text)
        self.stream_id = stream_id
        self.code = code


FRAME_HEADER_BYTES = 9
_FRAME_HEADER = Struct(">HBBBI")

read_frame_header = _FRAME_HEADER.unpack_from
"""Of a buffer and a position: the upper two and the lowest byte of the length, type, flags, stream (§4.1)."""


def frame_header(size: int, kind: int, flags: int, stream_id: int) -> bytes:
    """What comes before a payload of `size` bytes."""
    return _FRAME_HEADER.pack(size >> 8, size & 0xFF, kind, flags, stream_id)


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    size = len(payload)
    return _FRAME_HEADER.pack(size >> 8, size & 0xFF, kind, flags, stream_id) + payload


def data_frame(stream_id: int, payload: bytes, end: bool) -> bytes:
    return frame(DATA, END_STREAM if end else 0, stream_id, payload)


def headers_frames(stream_id: int, block: bytes, end: bool) -> bytes:
    """A header block, in as many frames as it needs."""
    flags = END_STREAM if end else 0
    if len(block) <= MAX_FRAME_BYTES:
        return frame(HEADERS, flags | END_HEADERS, stream_id, block)
    pieces = [block[start : start + MAX_FRAME_BYTES] for start in range(0, len(block), MAX_FRAME_BYTES)]
    frames = [frame(HEADERS, flags, stream_id, pieces[0])]
    frames += [frame(CONTINUATION, 0, stream_id, piece) for piece in pieces[1:-1]]
    frames.append(frame(CONTINUATION, END_HEADERS, stream_id, pieces[-1]))
    return b"".join(frames)


def rst_stream_frame(stream_id: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream_id, code.to_bytes(4, "big"))


def settings_frame(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join([k.to_bytes(2, "big") + v.to_bytes(4, "big") for k, v in values.items()]))


def goaway_frame(last_stream_id: int, code: int, text: str = "") -> bytes:
    payload = last_stream_id.to_bytes(4, "big") + code.to_bytes(4, "big") + text.encode("ascii", "replace")
    return frame(GOAWAY, 0, 0, payload)


def ping_frame(payload: bytes, ack: bool = False) -> bytes:
    return frame(PING, ACK if ack else 0, 0, payload)


def window_update_frame(stream_id: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, increment.to_bytes(4, "big"))
