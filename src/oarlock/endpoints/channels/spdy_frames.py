"""`SpdyFrames`: the server's side of SPDY/3.1 without I/O. Received bytes become streams, their data and their ends.

Data isn't buffered but passed on in pieces. Windows are announced, and those of the client are ignored: Go's clients,
the only ones left, send no updates of windows and would wait for ever. Must not know: what streams are for, tunnels.
See also: `forwarded_ports`. Source: SPDY Protocol 3.1 (draft), moby/spdystream.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from oarlock.endpoints.channels.websocket_frames import Reply
from oarlock.meta.dataclass import dataclass

MOST_CONTROL_BYTES = 16 * 1024
"""The largest frame but those of data, and the largest header block when it is unpacked."""
PROTOCOL_ERROR, REFUSED_STREAM = 1, 3
"""Why a stream is reset."""

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _WINDOW_UPDATE = 1, 2, 3, 6, 9
_CONTROL, _LAST = 0x80030000, 1  # the version is 3
_ID = 0x7FFFFFFF

_WORDS = """
options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow
authorization cache-control connection content-base content-encoding content-language content-length content-location
content-md5 content-range content-type date etag expect expires from host if-match if-modified-since if-none-match
if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range
referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get
status 200|OK version HTTP/1.1 url public set-cookie keep-alive origin"""
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _counted(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


DICTIONARY: Final = b"".join(_counted(word.replace("|", " ").encode()) for word in _WORDS.split()) + _REST.encode()
"""What headers are packed with; the draft's section 2.6.10.1."""


class SpdyError(Exception):
    """The peer has broken the protocol; the connection can't go on."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The client has opened a stream; with `last` it sends no data."""

    stream: int
    headers: dict[str, str]
    last: bool


@dataclass(frozen=True, slots=True)
class StreamData:
    """Data of a stream; `last` ends it."""

    stream: int
    data: bytes
    last: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """The client has given up a stream."""

    stream: int


SpdyEvent = Opened | StreamData | Reset | Reply


class SpdyFrames:
    """The frames of one connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._unpack = zlib.decompressobj(zdict=DICTIONARY)
        self._pack = zlib.compressobj(zdict=DICTIONARY)
        self._newest = 0
        self._stream, self._left, self._last = 0, 0, False

    def feed(self, data: bytes) -> Iterator[SpdyEvent]:
        """The events in `data`. Consume them before feeding more. Raises SpdyError."""
        buffer = self._buffer
        buffer += data
        while (self._left and buffer) or len(buffer) >= 8:
            if self._left:
                yield self._piece()
                continue
            first, rest = struct.unpack_from(">II", buffer)
            size = rest & 0xFFFFFF
            if first & ~_ID:
                if size > MOST_CONTROL_BYTES:
                    raise SpdyError(f"a frame has at most {MOST_CONTROL_BYTES} bytes")
                if len(buffer) < 8 + size:
                    return
                body = bytes(buffer[8 : 8 + size])
                del buffer[: 8 + size]
                found = self._control(first, rest >> 24, body)
                if found is not None:
                    yield found
            else:
                del buffer[:8]
                self._stream, self._left, self._last = first, size, bool(rest >> 24 & _LAST)
                if not size:
                    yield StreamData(first, b"", self._last)

    def _piece(self) -> StreamData:
        data = bytes(self._buffer[: self._left])
        del self._buffer[: len(data)]
        self._left -= len(data)
        return StreamData(self._stream, data, self._last and not self._left)

    def _control(self, first: int, flags: int, body: bytes) -> SpdyEvent | None:
        """What a frame says; None where that is nothing to us, as settings, windows and farewells."""
        if first & 0xFFFF0000 != _CONTROL:
            raise SpdyError("this is no frame of SPDY/3.1")
        kind = first & 0xFFFF
        if kind == _SYN_STREAM and len(body) >= 10:
            stream = int.from_bytes(body[:4]) & _ID
            headers = self._headers(body[10:])
            if stream <= self._newest or not stream % 2:
                raise SpdyError(f"a stream can't have the number {stream}")
            self._newest = stream
            return Opened(stream, headers, bool(flags & _LAST))
        if kind == _RST_STREAM and len(body) == 8:
            return Reset(int.from_bytes(body[:4]) & _ID)
        if kind == _PING and len(body) == 4:
            return Reply(_frame(_PING, body)) if body[3] % 2 else None
        if kind in (_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING):
            raise SpdyError("a frame doesn't fit its kind")
        return None

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            block = self._unpack.decompress(packed, MOST_CONTROL_BYTES)
            if self._unpack.unconsumed_tail:
                raise SpdyError(f"headers have at most {MOST_CONTROL_BYTES} bytes")
            texts = _texts(block)
            (count,) = struct.unpack_from(">I", block)
        except (zlib.error, struct.error, UnicodeDecodeError):
            raise SpdyError("headers can't be unpacked") from None
        if len(texts) != 2 * count:
            raise SpdyError("headers don't have the number that is said")
        return dict(zip((name.lower() for name in texts[::2]), texts[1::2], strict=True))

    def accept(self, stream: int) -> bytes:
        """The frame that accepts a stream, without headers."""
        packed = self._pack.compress(bytes(4)) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        return _frame(_SYN_REPLY, struct.pack(">I", stream) + packed)


def data_frame(stream: int, data: bytes, *, last: bool = False) -> bytes:
    return struct.pack(">II", stream, last << 24 | len(data)) + data


def reset_frame(stream: int, why: int) -> bytes:
    return _frame(_RST_STREAM, struct.pack(">II", stream, why))


def window_frames(stream: int, size: int) -> bytes:
    """The frames that let the client send so many bytes more."""
    return b"".join(_frame(_WINDOW_UPDATE, struct.pack(">II", each, size)) for each in (0, stream))


def _frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">II", _CONTROL | kind, len(body)) + body


def _texts(block: bytes) -> list[str]:
    """The names and values after the number of a header block. Raises struct.error, UnicodeDecodeError."""
    texts, at = [], 4
    while at < len(block):
        (size,) = struct.unpack_from(">I", block, at)
        if at + 4 + size > len(block):
            raise struct.error
        texts.append(block[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return texts
