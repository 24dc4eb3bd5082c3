"""What RFC 9113 (HTTP/2) and RFC 7541 (HPACK) demand of a server, frame by frame: one row for each demand.

A row is what a client sends after its preface, and how the server must react: `Goaway` (a connection error),
`Reset` (a stream error) or `Answered`, the streams that are answered in spite of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import pytest
from hpack import Decoder, Encoder
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from jh2.hpack import Decoder as PythonDecoder
from thoroughness import examples

from oarlock.endpoints.http import BrokenBody, Request, Response
from oarlock.http2 import frames as h2
from oarlock.http2.frames import ErrorCode, Http2Error, data_frame, frame, headers_frames
from oarlock.http2.header_blocks import BlockDecoder, BlockEncoder, check_block

SETTINGS = frame(h2.SETTINGS, 0, 0, b"")
HEAD = [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/")]
WAITS = [*HEAD[:3], (":path", "/waits")]


@dataclass(frozen=True)
class Goaway:
    code: int


@dataclass(frozen=True)
class Reset:
    stream: int
    code: int


@dataclass(frozen=True)
class Answered:
    streams: tuple[int, ...]


PROTOCOL = Goaway(ErrorCode.PROTOCOL_ERROR)
FRAME_SIZE = Goaway(ErrorCode.FRAME_SIZE_ERROR)
FLOW_CONTROL = Goaway(ErrorCode.FLOW_CONTROL_ERROR)
COMPRESSION = Goaway(ErrorCode.COMPRESSION_ERROR)


def block(head: Any = None) -> bytes:
    """A header block that needs no table."""
    encoder = Encoder()
    encoder.header_table_size = 0
    made: bytes = encoder.encode(head or HEAD)
    return made


def get(stream: int, head: Any = None) -> bytes:
    return headers_frames(stream, block(head), True)


def post(stream: int, head: Any = None) -> bytes:
    """A request whose body is still to come."""
    return headers_frames(stream, block(head), False)


def padded(kind: int, flags: int, stream: int, payload: bytes, padding: int) -> bytes:
    return frame(kind, flags | h2.PADDED, stream, bytes((padding,)) + payload + b"\0" * padding)


def setting(code: int, value: int) -> bytes:
    return frame(h2.SETTINGS, 0, 0, code.to_bytes(2, "big") + value.to_bytes(4, "big"))


def window(stream: int, increment: int) -> bytes:
    return h2.window_update_frame(stream, increment)


def rst(stream: int, code: int = 8) -> bytes:
    return h2.rst_stream_frame(stream, code)


WEIGHT = b"\0\0\0\0\x0f"  # depends on stream 0
TRAILERS = block([("grpc-status", "0")])
LITERAL = b"\0\1a\1b"  # a field that isn't indexed

CASES: list[tuple[str, str, bytes, Any]] = [
    ("3.4", "a client begins with SETTINGS, which may be empty", SETTINGS + get(1), Answered((1,))),
    ("3.4", "another frame first", get(1), PROTOCOL),
    ("3.4", "an acknowledgement first", frame(h2.SETTINGS, h2.ACK, 0, b""), PROTOCOL),
    ("4.1", "frames of unknown types are ignored", SETTINGS + frame(0x16, 0xFF, 0, b"x" * 8) + get(1), Answered((1,))),
    ("4.1", "and on streams", SETTINGS + frame(0x16, 0, 1, b"") + get(1), Answered((1,))),
    (
        "4.1",
        "undefined flags are ignored",
        SETTINGS + frame(h2.PING, 0xFE, 0, b"x" * 8) + frame(h2.HEADERS, 0xD5 & ~h2.PADDED, 1, block()),
        Answered((1,)),
    ),
    (
        "4.1",
        "the reserved bit of a stream is ignored",
        SETTINGS + frame(h2.HEADERS, 5, 1 | 1 << 31, block()),
        Answered((1,)),
    ),
    ("4.2", "a frame of the largest size", SETTINGS + post(1) + data_frame(1, b"x" * 16_384, True), Answered((1,))),
    ("4.2", "DATA that is longer", SETTINGS + post(1) + data_frame(1, b"x" * 16_385, True), FRAME_SIZE),
    ("4.2", "HEADERS that are longer", SETTINGS + frame(h2.HEADERS, 5, 1, b"\x82" * 16_385), FRAME_SIZE),
    ("4.2", "an unknown frame that is longer", SETTINGS + frame(0x16, 0, 0, b"x" * 16_385), FRAME_SIZE),
    ("4.2", "a longer one is refused before it has arrived", SETTINGS + b"\xff\xff\xff\0\0\0\0\0\1", FRAME_SIZE),
    ("4.3", "a block that can't be decompressed", SETTINGS + frame(h2.HEADERS, 5, 1, b"\xff" * 8), COMPRESSION),
    ("4.3", "trailers that can't", SETTINGS + post(1) + frame(h2.HEADERS, 5, 1, b"\x80"), COMPRESSION),
    ("4.3", "another frame within a block", SETTINGS + frame(h2.HEADERS, 1, 1, block()) + SETTINGS, PROTOCOL),
    ("4.3", "an unknown one", SETTINGS + frame(h2.HEADERS, 1, 1, block()) + frame(0x16, 0, 1, b""), PROTOCOL),
    (
        "4.3",
        "one of another stream",
        SETTINGS + frame(h2.HEADERS, 1, 1, block()) + frame(h2.CONTINUATION, 4, 3, b""),
        PROTOCOL,
    ),
    ("5.1", "idle: DATA", SETTINGS + data_frame(1, b"x", True), PROTOCOL),
    ("5.1", "idle: RST_STREAM", SETTINGS + rst(1), PROTOCOL),
    ("5.1", "idle: WINDOW_UPDATE", SETTINGS + window(1, 1), PROTOCOL),
    ("5.1", "idle: CONTINUATION", SETTINGS + frame(h2.CONTINUATION, 4, 1, block()), PROTOCOL),
    ("5.1", "idle: PRIORITY is allowed", SETTINGS + frame(h2.PRIORITY, 0, 3, WEIGHT) + get(3), Answered((3,))),
    ("5.1", "a server's stream was never opened: DATA", SETTINGS + get(3) + data_frame(2, b"x", True), PROTOCOL),
    ("5.1", "WINDOW_UPDATE on it", SETTINGS + get(3) + window(2, 1), PROTOCOL),
    (
        "5.1",
        "half closed: DATA",
        SETTINGS + get(1, WAITS) + data_frame(1, b"x", True) + get(3),
        Reset(1, ErrorCode.STREAM_CLOSED),
    ),
    ("5.1", "half closed: HEADERS", SETTINGS + get(1, WAITS) + get(1), Reset(1, ErrorCode.STREAM_CLOSED)),
    (
        "5.1",
        "half closed: CONTINUATION",
        SETTINGS + get(1, WAITS) + frame(h2.CONTINUATION, 4, 1, b""),
        PROTOCOL,
    ),
    (
        "5.1",
        "half closed: WINDOW_UPDATE and PRIORITY",
        SETTINGS + get(1, WAITS) + window(1, 5) + frame(h2.PRIORITY, 0, 1, WEIGHT) + get(3),
        Answered((3,)),
    ),
    ("5.1", "half closed: RST_STREAM", SETTINGS + get(1, WAITS) + rst(1) + get(3), Answered((3,))),
    ("5.1", "closed: DATA", SETTINGS + get(1) + b"|" + data_frame(1, b"x", True), Goaway(ErrorCode.STREAM_CLOSED)),
    (
        "5.1",
        "closed: WINDOW_UPDATE, RST_STREAM and PRIORITY",
        SETTINGS + get(1) + b"|" + window(1, 5) + rst(1) + frame(h2.PRIORITY, 0, 1, WEIGHT) + get(3),
        Answered((1, 3)),
    ),
    (
        "5.1",
        "reset by the client: DATA",
        SETTINGS + post(1) + rst(1) + data_frame(1, b"x", True) + get(3),
        Reset(1, ErrorCode.STREAM_CLOSED),
    ),
    (
        "5.1",
        "reset by the client: HEADERS",
        SETTINGS + post(1) + rst(1) + headers_frames(1, TRAILERS, True) + get(3),
        Reset(1, ErrorCode.STREAM_CLOSED),
    ),
    (
        "5.1",
        "reset by the client: WINDOW_UPDATE, RST_STREAM and PRIORITY",
        SETTINGS + post(1) + rst(1) + window(1, 5) + rst(1) + frame(h2.PRIORITY, 0, 1, WEIGHT) + get(3),
        Answered((3,)),
    ),
    (
        "5.1",
        "reset by the server, then by the client: DATA",
        SETTINGS + post(1, [*HEAD, ("A", "b")]) + rst(1) + data_frame(1, b"x", True) + get(3),
        Reset(1, ErrorCode.STREAM_CLOSED),
    ),
    (
        "5.1",
        "reset by the server: what was on its way is ignored",
        SETTINGS + post(1, [*HEAD, ("A", "b")]) + data_frame(1, b"x", False) + rst(1) + get(3),
        Answered((3,)),
    ),
    (
        "5.1",
        "and its header blocks still change the table",
        SETTINGS
        + post(1, [*HEAD, ("A", "b")])
        + headers_frames(1, b"\x3f\xe1\x1f\x40\x01x\x01y", True)
        + headers_frames(3, block()[1:] + b"\xbf", True),  # behind :authority
        Answered((3,)),
    ),
    (
        "5.1",
        "answered before the request was complete: what was on its way is ignored",
        SETTINGS + post(1, [*HEAD[:3], (":path", "/unread")]) + b"|" + data_frame(1, b"x" * 100, True) + get(3),
        Answered((1, 3)),
    ),
    ("5.1.1", "a stream of a server", SETTINGS + get(2), PROTOCOL),
    ("5.1.1", "stream 0", SETTINGS + frame(h2.HEADERS, 5, 0, block()), PROTOCOL),
    ("5.1.1", "a lower stream than before", SETTINGS + get(5, WAITS) + get(3), PROTOCOL),
    ("5.1.1", "a stream for the second time", SETTINGS + get(1) + b"|" + get(1), PROTOCOL),
    (
        "5.1.2",
        "more streams than allowed",
        SETTINGS + b"".join(get(stream, WAITS) for stream in (1, 3, 5, 7, 9)),
        Reset(9, ErrorCode.REFUSED_STREAM),
    ),
    (
        "5.5",
        "unknown settings are ignored",
        SETTINGS + setting(0xFFFF, 7) + setting(0x8, 1) + get(1),
        Answered((1,)),
    ),
    ("6.1", "padding", SETTINGS + post(1) + padded(h2.DATA, 1, 1, b"abc", 7), Answered((1,))),
    ("6.1", "nothing but padding", SETTINGS + post(1) + padded(h2.DATA, 1, 1, b"", 255), Answered((1,))),
    ("6.1", "more padding than payload", SETTINGS + post(1) + frame(h2.DATA, 9, 1, b"\x03ab"), PROTOCOL),
    ("6.1", "no length of the padding", SETTINGS + post(1) + frame(h2.DATA, 9, 1, b""), PROTOCOL),
    ("6.1", "DATA on stream 0", SETTINGS + frame(h2.DATA, 1, 0, b"x"), PROTOCOL),
    ("6.2", "padding", SETTINGS + padded(h2.HEADERS, 5, 1, block(), 9), Answered((1,))),
    (
        "6.2",
        "padding and priority",
        SETTINGS + padded(h2.HEADERS, 5 | h2.PRIORITY_FLAG, 1, WEIGHT + block(), 9),
        Answered((1,)),
    ),
    ("6.2", "more padding than payload", SETTINGS + frame(h2.HEADERS, 5 | h2.PADDED, 1, b"\xff" + block()), PROTOCOL),
    ("6.2", "too short for a priority", SETTINGS + frame(h2.HEADERS, 5 | h2.PRIORITY_FLAG, 1, b"\0\0\0"), FRAME_SIZE),
    ("6.3", "priorities are ignored", SETTINGS + get(1) + frame(h2.PRIORITY, 0, 1, WEIGHT), Answered((1,))),
    ("6.3", "PRIORITY on stream 0", SETTINGS + frame(h2.PRIORITY, 0, 0, WEIGHT), PROTOCOL),
    (
        "6.3",
        "length of PRIORITY",
        SETTINGS + get(1, WAITS) + frame(h2.PRIORITY, 0, 1, b"\0" * 4),
        Reset(1, ErrorCode.FRAME_SIZE_ERROR),
    ),
    ("6.4", "RST_STREAM on stream 0", SETTINGS + rst(0), PROTOCOL),
    ("6.4", "length of RST_STREAM", SETTINGS + post(1) + frame(h2.RST_STREAM, 0, 1, b"\0\0\0"), FRAME_SIZE),
    ("6.5", "SETTINGS on a stream", SETTINGS + frame(h2.SETTINGS, 0, 1, b""), PROTOCOL),
    ("6.5", "length of SETTINGS", SETTINGS + frame(h2.SETTINGS, 0, 0, b"\0" * 7), FRAME_SIZE),
    ("6.5", "an acknowledgement with a payload", SETTINGS + frame(h2.SETTINGS, h2.ACK, 0, b"\0" * 6), FRAME_SIZE),
    ("6.5", "an acknowledgement", SETTINGS + frame(h2.SETTINGS, h2.ACK, 0, b"") + get(1), Answered((1,))),
    ("6.5.2", "ENABLE_PUSH is 0 or 1", SETTINGS + setting(h2.ENABLE_PUSH, 2), PROTOCOL),
    ("6.5.2", "INITIAL_WINDOW_SIZE", SETTINGS + setting(h2.INITIAL_WINDOW_SIZE, 2**31), FLOW_CONTROL),
    ("6.5.2", "MAX_FRAME_SIZE too small", SETTINGS + setting(h2.MAX_FRAME_SIZE, 16_383), PROTOCOL),
    ("6.5.2", "MAX_FRAME_SIZE too large", SETTINGS + setting(h2.MAX_FRAME_SIZE, 2**24), PROTOCOL),
    ("6.5.2", "MAX_FRAME_SIZE", SETTINGS + setting(h2.MAX_FRAME_SIZE, 2**24 - 1) + get(1), Answered((1,))),
    ("6.6", "PUSH_PROMISE", SETTINGS + post(1) + frame(h2.PUSH_PROMISE, 4, 1, b"\0\0\0\2" + block()), PROTOCOL),
    ("6.7", "PING on a stream", SETTINGS + frame(h2.PING, 0, 1, b"x" * 8), PROTOCOL),
    ("6.7", "length of PING", SETTINGS + frame(h2.PING, 0, 0, b"x" * 7), FRAME_SIZE),
    (
        "6.7",
        "an acknowledgement that nobody waits for",
        SETTINGS + h2.ping_frame(b"x" * 8, True) + get(1),
        Answered((1,)),
    ),
    ("6.8", "GOAWAY on a stream", SETTINGS + frame(h2.GOAWAY, 0, 1, b"\0" * 8), PROTOCOL),
    ("6.8", "length of GOAWAY", SETTINGS + frame(h2.GOAWAY, 0, 0, b"\0" * 7), FRAME_SIZE),
    ("6.8", "streams go on after a GOAWAY", SETTINGS + get(1) + h2.goaway_frame(0, 0), Answered((1,))),
    ("6.9", "an increment of 0", SETTINGS + window(0, 0), PROTOCOL),
    ("6.9", "on a stream", SETTINGS + get(1, WAITS) + window(1, 0), Reset(1, ErrorCode.PROTOCOL_ERROR)),
    ("6.9", "length of WINDOW_UPDATE", SETTINGS + frame(h2.WINDOW_UPDATE, 0, 0, b"\0\0\1"), FRAME_SIZE),
    ("6.9", "on a stream", SETTINGS + get(1, WAITS) + frame(h2.WINDOW_UPDATE, 0, 1, b"\0" * 5), FRAME_SIZE),
    ("6.9.1", "a window of 2^31 - 1", SETTINGS + window(0, 2**31 - 1 - 65_535) + get(1), Answered((1,))),
    ("6.9.1", "one more", SETTINGS + window(0, 2**31 - 65_535), FLOW_CONTROL),
    (
        "6.9.1",
        "on a stream",
        SETTINGS + get(1, WAITS) + window(1, 2**31 - 65_535),
        Reset(1, ErrorCode.FLOW_CONTROL_ERROR),
    ),
    (
        "6.9.1",
        "more DATA than a stream's window",
        SETTINGS + post(1, WAITS) + data_frame(1, b"x" * 16_384, False) * 17,
        FLOW_CONTROL,
    ),
    (
        "6.9.2",
        "a new initial window makes a stream's too large",
        SETTINGS + get(1, WAITS) + window(1, 2**31 - 1 - 65_535) + setting(h2.INITIAL_WINDOW_SIZE, 65_536),
        FLOW_CONTROL,
    ),
    (
        "6.9.2",
        "a window may become negative",
        SETTINGS + get(1) + b"|" + get(3, WAITS) + setting(h2.INITIAL_WINDOW_SIZE, 0) + rst(3),
        Answered((1,)),
    ),
    ("6.10", "CONTINUATION without HEADERS", SETTINGS + frame(h2.CONTINUATION, 4, 1, block()), PROTOCOL),
    ("6.10", "after a complete block", SETTINGS + post(1) + frame(h2.CONTINUATION, 4, 1, b""), PROTOCOL),
    ("6.10", "on stream 0", SETTINGS + frame(h2.HEADERS, 1, 1, block()) + frame(h2.CONTINUATION, 4, 0, b""), PROTOCOL),
    (
        "6.10",
        "several",
        SETTINGS
        + frame(h2.HEADERS, 1, 1, block()[:5])
        + frame(h2.CONTINUATION, 0, 1, block()[5:7])
        + frame(h2.CONTINUATION, 0, 1, b"")
        + frame(h2.CONTINUATION, 4, 1, block()[7:]),
        Answered((1,)),
    ),
    (
        "8.1",
        "trailers",
        SETTINGS + post(1) + data_frame(1, b"x", False) + headers_frames(1, TRAILERS, True),
        Answered((1,)),
    ),
    (
        "8.1",
        "trailers that don't end the request",
        SETTINGS + post(1) + headers_frames(1, TRAILERS, False),
        Reset(1, ErrorCode.PROTOCOL_ERROR),
    ),
    (
        "8.1",
        "a pseudo-header in trailers",
        SETTINGS + post(1) + headers_frames(1, block([(":method", "GET")]), True),
        Reset(1, ErrorCode.PROTOCOL_ERROR),
    ),
    (
        "8.2.1",
        "upper case in trailers",
        SETTINGS + post(1) + headers_frames(1, block([("A", "b")]), True),
        Reset(1, ErrorCode.PROTOCOL_ERROR),
    ),
    *(
        (section, text, SETTINGS + get(1, head) + get(3), Reset(1, ErrorCode.PROTOCOL_ERROR))
        for section, text, head in [
            ("8.2.1", "upper case in a name", [*HEAD, ("A", "b")]),
            ("8.2.1", "a space in a name", [*HEAD, ("a b", "c")]),
            ("8.2.1", "a colon in a name", [*HEAD, ("a:b", "c")]),
            ("8.2.1", "no name", [*HEAD, ("", "c")]),
            ("8.2.1", "NUL in a value", [*HEAD, ("a", "b\0c")]),
            ("8.2.1", "LF in a value", [*HEAD, ("a", "b\nc")]),
            ("8.2.1", "CR in a value", [*HEAD, ("a", "b\r")]),
            ("8.2.1", "a space before a value", [*HEAD, ("a", " b")]),
            ("8.2.1", "a tab behind a value", [*HEAD, ("a", "b\t")]),
            ("8.2.2", "Connection", [*HEAD, ("connection", "keep-alive")]),
            ("8.2.2", "Keep-Alive", [*HEAD, ("keep-alive", "1")]),
            ("8.2.2", "Proxy-Connection", [*HEAD, ("proxy-connection", "x")]),
            ("8.2.2", "Transfer-Encoding", [*HEAD, ("transfer-encoding", "chunked")]),
            ("8.2.2", "Upgrade", [*HEAD, ("upgrade", "h2c")]),
            ("8.2.2", "TE other than trailers", [*HEAD, ("te", "trailers, deflate")]),
            ("8.3", "an undefined pseudo-header", [*HEAD, (":a", "b")]),
            ("8.3", "one of responses", [*HEAD, (":status", "200")]),
            ("8.3", "one after other fields", [HEAD[0], ("a", "b"), *HEAD[1:]]),
            ("8.3.1", "no :method", HEAD[1:]),
            ("8.3.1", "no :scheme", [HEAD[0], *HEAD[2:]]),
            ("8.3.1", "no :path", HEAD[:3]),
            ("8.3.1", "an empty :path", [*HEAD[:3], (":path", "")]),
            ("8.3.1", "no authority at all", [*HEAD[:2], HEAD[3]]),
            ("8.3.1", "two :method", [*HEAD, (":method", "GET")]),
            ("8.3.1", "two :path", [*HEAD, (":path", "/")]),
            ("8.3.1", ":authority and Host differ", [*HEAD, ("host", "i")]),
            ("8.1.1", "content-length without a body", [*HEAD, ("content-length", "1")]),
            ("8441 4", "extended CONNECT, which wasn't announced", [*HEAD, (":protocol", "websocket")]),
        ]
    ),
    (
        "8.3.1",
        "no :path, after a request with the same fields besides",
        SETTINGS + get(1) + get(3, HEAD[:3]) + get(5),
        Reset(3, ErrorCode.PROTOCOL_ERROR),
    ),
    ("8.2.2", "TE: trailers", SETTINGS + get(1, [*HEAD, ("te", "trailers")]), Answered((1,))),
    ("8.3.1", "Host instead of :authority", SETTINGS + get(1, [*HEAD[:2], HEAD[3], ("host", "h")]), Answered((1,))),
    ("8.3.1", "the asterisk", SETTINGS + get(1, [(":method", "OPTIONS"), *HEAD[1:3], (":path", "*")]), Answered((1,))),
    *(
        (
            "8.1.1",
            text,
            SETTINGS + post(1, [*HEAD, ("content-length", "3")]) + body + get(3),
            Reset(1, ErrorCode.PROTOCOL_ERROR),
        )
        for text, body in [
            ("less DATA than content-length", data_frame(1, b"ab", True)),
            ("more", data_frame(1, b"abc", False) + data_frame(1, b"d", True)),
            ("more, at once", data_frame(1, b"abcd", False)),
            ("less, with trailers", data_frame(1, b"ab", False) + headers_frames(1, TRAILERS, True)),
        ]
    ),
    (
        "8.1.1",
        "as much",
        SETTINGS + post(1, [*HEAD, ("content-length", "3")]) + data_frame(1, b"abc", False) + data_frame(1, b"", True),
        Answered((1,)),
    ),
    ("7541 2.3.3", "an index beyond the tables", SETTINGS + frame(h2.HEADERS, 5, 1, block() + b"\xbe"), COMPRESSION),
    (
        "7541 4.2",
        "a size update first",
        SETTINGS + frame(h2.HEADERS, 5, 1, b"\x20\x3f\xe1\x1f" + block()),
        Answered((1,)),
    ),
    ("7541 4.2", "a size update after a field", SETTINGS + frame(h2.HEADERS, 5, 1, block() + b"\x20"), COMPRESSION),
    ("7541 5.1", "an integer that is cut off", SETTINGS + frame(h2.HEADERS, 5, 1, block() + b"\xff\x80"), COMPRESSION),
    (
        "7541 5.1",
        "one that is too long",
        SETTINGS + frame(h2.HEADERS, 5, 1, block() + b"\xff" * 9 + b"\1"),
        COMPRESSION,
    ),
    ("7541 5.2", "a name that is cut off", SETTINGS + frame(h2.HEADERS, 5, 1, block() + LITERAL[:2]), COMPRESSION),
    ("7541 5.2", "a value that is cut off", SETTINGS + frame(h2.HEADERS, 5, 1, block() + LITERAL[:4]), COMPRESSION),
    ("7541 5.2", "no value", SETTINGS + frame(h2.HEADERS, 5, 1, block() + LITERAL[:3]), COMPRESSION),
    (
        "7541 5.2",
        "a Huffman code with EOS",
        SETTINGS + frame(h2.HEADERS, 5, 1, b"\0\1a\x84" + b"\xff" * 4),
        COMPRESSION,
    ),
    ("7541 5.2", "8 bits of padding", SETTINGS + frame(h2.HEADERS, 5, 1, b"\0\1a\x82\x07\xff"), COMPRESSION),
    ("7541 6.1", "index 0", SETTINGS + frame(h2.HEADERS, 5, 1, block() + b"\x80"), COMPRESSION),
    ("7541 6.3", "a table larger than announced", SETTINGS + frame(h2.HEADERS, 5, 1, b"\x3f\xe2\x1f"), COMPRESSION),
]


async def handler(request: Request) -> Response:
    if request.path == "/waits":
        await asyncio.Event().wait()
    if request.path != "/unread":
        try:
            await request.read()
        except BrokenBody:
            return Response(400, [])
    return Response(200, [], request.path.encode())


def frames_of(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Type, flags, stream and payload of each frame."""
    found = []
    while data:
        size = int.from_bytes(data[:3], "big")
        found.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + size]))
        data = data[9 + size :]
    return found


def code_of(payload: bytes) -> int:
    return int.from_bytes(payload[-4:], "big")


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "bytewise"])
@pytest.mark.parametrize(("section", "text", "sent", "expected"), CASES, ids=[f"{row[0]} {row[1]}" for row in CASES])
def test_the_rules_of_http2(
    wire: Any, capfd: Any, section: str, text: str, sent: bytes, expected: Any, at_once: bool
) -> None:
    one = wire(handler, max_concurrent_streams=4)
    for piece in (h2.PREFACE + sent).split(b"|"):  # at a bar the answers are waited for
        for part in [piece] if at_once or len(piece) > 3000 else [bytes((byte,)) for byte in piece]:
            one.feed(part)
        one.settle()
    frames = frames_of(one.settle())
    goaways = [int.from_bytes(payload[4:8], "big") for kind, _, _, payload in frames if kind == h2.GOAWAY]
    resets = [(stream, code_of(payload)) for kind, _, stream, payload in frames if kind == h2.RST_STREAM]
    ended = {stream for kind, flags, stream, _ in frames if kind in (h2.DATA, h2.HEADERS) and flags & h2.END_STREAM}
    if isinstance(expected, Goaway):
        assert goaways == [expected.code]
        assert one.transport.closed
    else:
        assert goaways in ([], [ErrorCode.NO_ERROR])
        if isinstance(expected, Reset):
            assert (expected.stream, expected.code) in resets
            assert expected.stream not in ended
        else:
            assert ended >= set(expected.streams)
        if sent.endswith(get(3)):
            assert 3 in ended
    assert not one.problems
    assert "panicked" not in capfd.readouterr().err
    one.leave()


def test_6_5_3_settings_are_acknowledged_in_order_and_before_they_are_used(wire: Any) -> None:
    one = wire(handler)
    one.feed(h2.PREFACE + SETTINGS + setting(h2.INITIAL_WINDOW_SIZE, 0) + h2.ping_frame(b"between!"))
    one.feed(setting(h2.INITIAL_WINDOW_SIZE, 2) + get(1))
    kinds = [(kind, flags, payload) for kind, flags, stream, payload in frames_of(one.settle()) if stream == 0][1:]
    acknowledged = (h2.SETTINGS, h2.ACK, b"")
    assert [one for one in kinds if one[0] != h2.WINDOW_UPDATE] == [
        acknowledged,
        acknowledged,
        (h2.PING, h2.ACK, b"between!"),
        acknowledged,
    ]
    one.leave()


def test_6_9_a_window_of_zero_holds_data_back_but_not_headers_or_an_empty_end(wire: Any) -> None:
    one = wire(handler)
    one.feed(h2.PREFACE + setting(h2.INITIAL_WINDOW_SIZE, 0) + get(1) + get(3, [(":method", "HEAD"), *HEAD[1:]]))
    found = [(kind, flags, stream) for kind, flags, stream, _ in frames_of(one.settle()) if stream]
    assert found == [(h2.HEADERS, 4, 1), (h2.HEADERS, 5, 3)]
    one.feed(window(1, 1))
    assert frames_of(one.settle())[-1] == (h2.DATA, 1, 1, b"/")
    one.leave()


def test_6_9_the_window_of_the_connection_is_shared(wire: Any) -> None:
    async def large(request: Request) -> Response:
        return Response(200, [], b"x" * 40_000)

    def sizes() -> dict[int, int]:
        found: dict[int, int] = {}
        for kind, _, stream, payload in frames_of(one.settle()):
            if kind == h2.DATA:
                found[stream] = found.get(stream, 0) + len(payload)
        return found

    one = wire(large)
    one.feed(h2.PREFACE + SETTINGS + b"".join(get(stream) for stream in (1, 3, 5)))
    assert sum(sizes().values()) == 65_535
    one.feed(rst(1) + window(0, 100))
    assert sum(sizes().values()) == 65_635
    one.feed(window(0, 100_000))
    assert {stream: size for stream, size in sizes().items() if stream != 1} == {3: 40_000, 5: 40_000}
    assert not one.connection.out._blocked
    one.leave()


def test_6_8_a_goaway_names_the_last_stream_that_was_taken(wire: Any) -> None:
    one = wire(handler)
    one.feed(h2.PREFACE + SETTINGS + get(1) + get(5) + h2.ping_frame(b"x" * 8) + frame(h2.PING, 0, 0, b"") + get(7))
    (goaway,) = [payload for kind, _, _, payload in frames_of(one.settle()) if kind == h2.GOAWAY]
    assert int.from_bytes(goaway[:4], "big") == 5
    one.leave()


def test_6_8_streams_after_the_final_goaway_are_refused(wire: Any) -> None:
    one = wire(handler)
    one.feed(h2.PREFACE + SETTINGS + get(1, WAITS))
    one.connection.drain()
    one.feed(get(3) + h2.ping_frame(b"draining", True) + get(5))
    frames = frames_of(one.settle())
    lasts = [int.from_bytes(payload[:4], "big") for kind, _, _, payload in frames if kind == h2.GOAWAY]
    assert lasts == [2**31 - 1, 3]
    assert [(stream, code_of(payload)) for kind, _, stream, payload in frames if kind == h2.RST_STREAM] == [(5, 7)]
    one.leave()


def test_8_4_nothing_is_pushed_and_4_2_no_frame_is_too_long(wire: Any) -> None:
    async def long(request: Request) -> Response:
        return Response(200, [("x", "y" * 40_000)], b"x" * 40_000)

    one = wire(long)
    one.feed(h2.PREFACE + setting(h2.MAX_FRAME_SIZE, 2**24 - 1) + get(1))
    frames = frames_of(one.settle())
    assert {kind for kind, _, stream, _ in frames if stream} == {h2.HEADERS, h2.CONTINUATION, h2.DATA}
    assert max(len(payload) for _, _, _, payload in frames) == 16_384
    one.leave()


@pytest.mark.parametrize("size", [0, 100, 4096, 2**32 - 1])
def test_7541_the_table_of_responses_is_no_larger_than_the_client_allows(size: int) -> None:
    encoder, decoder = BlockEncoder(), Decoder()
    encoder.encode([(b"a", b"b", False)])
    decoder.decode(BlockEncoder().encode([(b"a", b"b", False)]))
    encoder.resize(size)
    decoder.max_allowed_table_size = min(size, 4096)
    for n in range(20):
        fields = [(b"x", b"%03d" % n * 20, False), (b"y", b"z", False)]
        found = decoder.decode(encoder.encode(fields), raw=True)
        assert [(bytes(name), bytes(value)) for name, value in found] == [(name, value) for name, value, _ in fields]
    assert decoder.header_table._current_size <= min(size, 4096)


PIECES = [b"\x82", b"\xbe", b"\x20", b"\x3f\xe1\x1f", LITERAL, b"\x40\1a\1b", b"\x7f\x80", b"\x10\1", b"\x0f\x2f\0"]
HUFFMAN = [b"\x04\x81\x63", b"\0\x81\x1f\x81\x1f", b"\x44\x84\xff\xff\xff\xff"]
MANY = examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])


@MANY
@example(b"\xff\xff\xff")
@example(b"\0")
@given(block=st.one_of(st.binary(max_size=40), st.lists(st.sampled_from(PIECES + HUFFMAN), max_size=12).map(b"".join)))
def test_no_header_block_makes_the_decoder_panic(capfd: Any, block: bytes) -> None:
    with contextlib.suppress(Http2Error):
        BlockDecoder(10_000, 100).decode(block)
    assert capfd.readouterr().err == ""


@MANY
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12), end=st.integers(0, 40))
def test_the_compiled_decoder_and_the_one_in_python_agree(pieces: list[bytes], end: int) -> None:
    found = []
    for decoder in (None, PythonDecoder()):
        try:
            fields, size = BlockDecoder(10_000, 100, decoder).decode(b"".join(pieces)[:end])
            found.append(([(bytes(name), bytes(value)) for name, value, _ in fields], size))
        except Http2Error as error:
            found.append(([], -error.code))
    assert found[0] == found[1]


def test_a_block_of_a_million_fields_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(Http2Error) as caught:
        check_block(b"\x82" * 1_000_000, 2000)
    assert caught.value.code == ErrorCode.ENHANCE_YOUR_CALM
    with pytest.raises(Http2Error) as caught:
        check_block(b"\x20" * 1_000_000, 2000)
    assert caught.value.code == ErrorCode.COMPRESSION_ERROR


async def last(request: Request) -> Response:
    return Response(200, [("connection", "close")], b"x")


@pytest.mark.parametrize("ends", ["after a second", "when the client goes", "when the server goes"])
def test_6_8_frames_are_answered_a_moment_longer_than_requests(wire: Any, ends: str) -> None:
    one = wire(last)
    one.feed(h2.PREFACE + SETTINGS + get(1))
    one.settle()
    one.feed(frame(h2.PRIORITY, 0, 1, WEIGHT) + h2.ping_frame(b"12345678"))
    assert one.settle().endswith(h2.ping_frame(b"12345678", True))
    one.connection.sweep(one.clock.seconds)
    assert not one.transport.closed
    if ends == "after a second":
        one.clock.seconds += 1
        one.connection.sweep(one.clock.seconds)
    elif ends == "when the client goes":
        one.feed(h2.goaway_frame(0, 0))
    else:
        one.connection.drain()
    one.settle()
    assert one.transport.closed
    one.leave()
