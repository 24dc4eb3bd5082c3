"""Encodes HTTP/2 frames, and decodes a client's header list (RFC 9113).

Pure functions. Received frames are parsed by `machine`. See also: `http2`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from oarlock.server.serving.header_names import LOWER_CASE

__all__ = [
    "END_STREAM",
    "ENHANCE_YOUR_CALM",
    "FORBIDDEN",
    "INTERNAL_ERROR",
    "LAST_STREAM",
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "REFUSED_STREAM",
    "MalformedRequest",
    "data",
    "frame",
    "goaway",
    "headers",
    "ping",
    "request_head",
    "reset",
    "window_update",
]

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM, ENHANCE_YOUR_CALM = 0, 1, 2, 7, 11
END_STREAM, END_HEADERS = 0x1, 0x4
DATA, HEADERS, RST_STREAM, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 6, 7, 8, 9
LAST_STREAM = 2**31 - 1

FORBIDDEN = frozenset(("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"))
NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")
TARGET = re.compile(rb"\*|/[!-~]*")
BREAKS = re.compile(rb"[\0\r\n]")
PSEUDO = frozenset((b":method", b":scheme", b":authority", b":path"))


class MalformedRequest(Exception):
    """RFC 9113 §8.1.1: the stream is reset with PROTOCOL_ERROR."""


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big") + payload


def data(stream_id: int, payload: bytes, end: bool) -> bytes:
    return frame(DATA, END_STREAM if end else 0, stream_id, payload)


def headers(stream_id: int, block: bytes, end: bool, max_frame: int) -> bytes:
    """A header block, in as many frames as it needs."""
    flags = END_STREAM if end else 0
    if len(block) <= max_frame:
        return frame(HEADERS, flags | END_HEADERS, stream_id, block)
    pieces = [block[start : start + max_frame] for start in range(0, len(block), max_frame)]
    frames = [frame(HEADERS, flags, stream_id, pieces[0])]
    frames += [frame(CONTINUATION, 0, stream_id, piece) for piece in pieces[1:-1]]
    frames.append(frame(CONTINUATION, END_HEADERS, stream_id, pieces[-1]))
    return b"".join(frames)


def reset(stream_id: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream_id, code.to_bytes(4, "big"))


def goaway(last_stream_id: int, code: int, why: str = "") -> bytes:
    payload = last_stream_id.to_bytes(4, "big") + code.to_bytes(4, "big") + why.encode("ascii", "replace")
    return frame(GOAWAY, 0, 0, payload)


def ping(payload: bytes) -> bytes:
    return frame(PING, 0, 0, payload)


def window_update(stream_id: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, increment.to_bytes(4, "big"))


Head = tuple[str, str, dict[str, str], list[tuple[str, str]]]


def request_head(raw: Sequence[tuple[bytes, bytes, bool]]) -> Head:
    """Method, target, first value of each header, and all headers in order, of a decoded header list.

    ``:authority`` becomes ``host``; several cookies are joined to one, at the end (§8.2.3). Raises `MalformedRequest`
    (§8.2, §8.3).
    """
    pseudo: dict[bytes, bytes] = {}
    for name, value, _ in raw:
        if name not in PSEUDO:
            break  # other pseudo-headers, and repeated ones, are invalid header names below
        pseudo[name] = value
    values = b"".join([value for _, value, _ in raw])
    if b"\n" in values or b"\r" in values or b"\0" in values:  # ten times as fast as `BREAKS`, in a megabyte
        raise MalformedRequest("line break in a value")
    method, path = pseudo.get(b":method"), pseudo.get(b":path")
    if not method or not path or not pseudo.get(b":scheme"):
        raise MalformedRequest("missing pseudo-header")
    if METHOD.fullmatch(method) is None or TARGET.fullmatch(path) is None:
        raise MalformedRequest("method or path")
    lines: list[tuple[str, str]] = []
    first: dict[str, str] = {}
    cookies: list[bytes] = []
    if b":authority" in pseudo:
        first["host"] = authority = pseudo[b":authority"].decode("latin-1")
        lines.append(("host", authority))
    for name, value, _ in raw[len(pseudo) :]:
        text = LOWER_CASE.get(name) or _name(name)
        if value != value.strip(b" \t"):
            raise MalformedRequest("space around a value")
        if text == "cookie":
            cookies.append(value)
            continue
        if text in FORBIDDEN or (text == "te" and value != b"trailers"):
            raise MalformedRequest("connection-specific header")
        content = value.decode("latin-1")
        if text == "host" and "host" in first:
            if content != first["host"]:
                raise MalformedRequest("two hosts")
            continue
        lines.append((text, content))
        first.setdefault(text, content)
    if cookies:
        first["cookie"] = cookie = b"; ".join(cookies).decode("latin-1")
        lines.append(("cookie", cookie))
    if "host" not in first:
        raise MalformedRequest("no authority")
    return method.decode("latin-1"), path.decode("latin-1"), first, lines


def _name(name: bytes) -> str:
    if NAME.fullmatch(name) is None:
        raise MalformedRequest("header name")
    return name.decode("ascii")
