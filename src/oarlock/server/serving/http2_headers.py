"""Header blocks of HTTP/2: HPACK (RFC 7541), and the rules for a request's fields (RFC 9113 §8.2, §8.3).

HPACK itself is jh2's. Its compiled classes are in ``jh2._hazmat``; ``jh2.hpack`` has the same in Python, for platforms
without them. See also: `http2_input`, which receives blocks; `http2_output`, which sends them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from oarlock.server.serving.header_names import LOWER_CASE
from oarlock.server.serving.http2_frames import ErrorCode, Http2Error

try:
    from jh2._hazmat import Decoder, Encoder
except ImportError:  # pragma: no cover - a platform without the compiled classes
    from jh2.hpack import Decoder, Encoder

__all__ = [
    "FORBIDDEN",
    "NAME",
    "TABLE_BYTES",
    "BlockDecoder",
    "BlockEncoder",
    "Fields",
    "MalformedRequest",
    "RequestHead",
    "check_block",
    "check_trailers",
    "request_head",
]

TABLE_BYTES = 4096  # of HPACK, both ways
FIELD_BYTES = 32  # what a field counts besides its name and value
# A block says each byte of a header itself, in five bits at least, or refers to the table. One that comes to more than
# this refers to the same again and again, which only an attack does.
DECODED_PER_BYTE = 4
DECODED_BYTES = 4 * TABLE_BYTES
LONGEST_INTEGER = 5  # bytes after the prefix: 32 bits and more
SIZE_UPDATES_BYTES = 16  # two updates are all that an encoder ever needs (RFC 7541 §4.2)

FORBIDDEN = frozenset(("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"))
NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")
TARGET = re.compile(rb"\*|/[!-~]*")
PSEUDO = frozenset((b":method", b":scheme", b":authority", b":path"))

Fields = Sequence[tuple[bytes, bytes, bool]]
"""Decoded fields: name, value, and whether it must never be indexed."""

RequestHead = tuple[str, str, dict[str, str], list[tuple[str, str]]]
"""Method, target, first value of each header, and all headers in order."""


class MalformedRequest(Exception):
    """RFC 9113 §8.1.1: the stream is reset with PROTOCOL_ERROR."""


class BlockDecoder:
    """Decodes the header blocks of one connection, each of at most `most_bytes` and `most_fields`."""

    __slots__ = ("_decoder", "_most_bytes", "_most_fields")

    def __init__(self, most_bytes: int, most_fields: int, decoder: Any = None) -> None:
        self._decoder = Decoder() if decoder is None else decoder
        self._decoder.max_allowed_table_size = TABLE_BYTES
        self._most_bytes = most_bytes
        self._most_fields = most_fields

    def decode(self, block: bytes) -> tuple[Fields, int]:
        """The fields of `block`, and their size as RFC 9113 counts it (§6.5.2). Raises `Http2Error`."""
        check_block(block, self._most_fields)
        self._decoder.max_header_list_size = min(self._most_bytes, DECODED_BYTES + DECODED_PER_BYTE * len(block))
        try:
            fields: Fields = self._decoder.decode(block, raw=True)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the compiled decoder's errors and panics have no common base
            if type(error).__name__ == "OversizedHeaderListError":
                raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "oversized header list") from error
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, f"header block: {error}") from error
        if not fields:
            return fields, 0
        if len(fields[0]) == 2:  # jh2's classes in Python
            fields = [(name, value, False) for name, value in fields]
        names, values, _ = zip(*fields, strict=True)
        return fields, sum(map(len, names)) + sum(map(len, values)) + FIELD_BYTES * len(fields)


def check_block(block: bytes, most: int) -> None:
    """Raise `Http2Error` if a block is cut off, has more than `most` fields, or a table size update in the middle.

    The compiled decoder accepts the last (RFC 7541 §4.2), and at the end of a block that is cut off it panics: it
    writes a stack trace to stderr, which any client could fill that way.
    """
    position, size = 0, len(block)
    try:
        if b"\x20" <= block[:1] < b"\x40":
            position = _after_size_updates(block)
        for _ in range(most + 1):
            if position >= size:
                break
            first = block[position]
            position += 1
            if first < 0x80:
                position = _after_literal(block, position, first)
            elif first == 0xFF:
                position = _after_integer(block, position)
        else:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "oversized header list")
    except IndexError:
        position = size + 1
    if position != size:
        raise Http2Error(ErrorCode.COMPRESSION_ERROR, "header block: cut off")


def _after_size_updates(block: bytes) -> int:
    """Where the fields begin. Raises IndexError."""
    position = 0
    while b"\x20" <= block[position : position + 1] < b"\x40" and position < SIZE_UPDATES_BYTES:
        position = _after_integer(block, position + 1) if block[position] == 0x3F else position + 1
    return position


def _after_literal(block: bytes, position: int, first: int) -> int:
    """Where a literal field ends whose `first` byte is before `position` (RFC 7541 §6.2). Raises IndexError."""
    if first >= 0x40:
        index = first & 0x3F
        if index == 0x3F:
            position = _after_integer(block, position)
    elif first >= 0x20:
        raise Http2Error(ErrorCode.COMPRESSION_ERROR, "header block: a table size update after a field")
    else:
        index = first & 0x0F
        if index == 0x0F:
            position = _after_integer(block, position)
    if not index:
        position = _after_string(block, position)
    return _after_string(block, position)


def _after_integer(block: bytes, position: int) -> int:
    """Where an integer ends that goes on at `position` (RFC 7541 §5.1). Raises IndexError."""
    for end in range(position, position + LONGEST_INTEGER):
        if block[end] < 0x80:
            return end + 1
    raise Http2Error(ErrorCode.COMPRESSION_ERROR, "header block: integer overflow")


def _after_string(block: bytes, position: int) -> int:
    """Where the string at `position` ends (RFC 7541 §5.2). Raises IndexError."""
    length = block[position] & 0x7F
    position += 1
    if length == 0x7F:
        start = position
        position = _after_integer(block, position)
        for shift, byte in enumerate(block[start:position]):
            length += (byte & 0x7F) << 7 * shift
    return position + length


class BlockEncoder:
    """Encodes the header blocks of one connection: each depends on those before it."""

    __slots__ = ("_encoder", "encode")

    def __init__(self) -> None:
        self._encoder = Encoder()
        self.encode = self._encoder.encode

    def resize(self, size: int) -> None:
        """The client's SETTINGS_HEADER_TABLE_SIZE. A larger one is an offer: what is sent would be kept for it."""
        self._encoder.header_table_size = min(size, TABLE_BYTES)


def request_head(fields: Fields) -> RequestHead:
    """The head of a request, from its decoded fields.

    ``:authority`` becomes ``host``; several cookies are joined to one, at the end (§8.2.3). Raises `MalformedRequest`
    (§8.2, §8.3).
    """
    pseudo: dict[bytes, bytes] = {}
    for name, value, _ in fields:
        if name not in PSEUDO:
            break  # other pseudo-headers, and repeated ones, are invalid header names below
        pseudo[name] = value
    _check_values([value for _, value, _ in fields])
    method, path = pseudo.get(b":method"), pseudo.get(b":path")
    if not method or not path or not pseudo.get(b":scheme"):
        raise MalformedRequest("missing pseudo-header")
    if METHOD.fullmatch(method) is None or TARGET.fullmatch(path) is None:
        raise MalformedRequest("method or path")
    lines = [(LOWER_CASE.get(name) or _name(name), value.decode("latin-1")) for name, value, _ in fields[len(pseudo) :]]
    first = dict(reversed(lines))
    if "te" in first and any(name == "te" and value != "trailers" for name, value in lines):
        raise MalformedRequest("connection-specific header")
    if not FORBIDDEN.isdisjoint(first):
        raise MalformedRequest("connection-specific header")
    authority = pseudo.get(b":authority")
    if authority is not None:
        host = authority.decode("latin-1")
        if "host" in first:
            if any(name == "host" and value != host for name, value in lines):
                raise MalformedRequest("two hosts")
            lines = [line for line in lines if line[0] != "host"]
        lines.insert(0, ("host", host))
        first["host"] = host
    elif "host" not in first:
        raise MalformedRequest("no authority")
    elif [name for name, _ in lines].count("host") > 1:
        lines = _one_host(lines, first["host"])
    if "cookie" in first:
        first["cookie"] = cookie = "; ".join([value for name, value in lines if name == "cookie"])
        lines = [line for line in lines if line[0] != "cookie"]
        lines.append(("cookie", cookie))
    return method.decode("latin-1"), path.decode("latin-1"), first, lines


def check_trailers(fields: Fields) -> None:
    """Raise `MalformedRequest` for a trailer section that RFC 9113 forbids (§8.1, §8.2)."""
    _check_values([value for _, value, _ in fields])
    for name, _, _ in fields:
        if _name(name) in FORBIDDEN:
            raise MalformedRequest("connection-specific header")


def _check_values(values: list[bytes]) -> None:
    """No NUL, CR or LF in a value, and no space around it.

    All are looked at together, for substrings: ten times as fast as a pattern.
    """
    joined = b"\n%b\n" % b"\n".join(values)
    if joined.count(b"\n") != len(values) + 1 or b"\r" in joined or b"\0" in joined:
        raise MalformedRequest("line break in a value")
    if b"\n " in joined or b" \n" in joined or b"\n\t" in joined or b"\t\n" in joined:
        raise MalformedRequest("space around a value")


def _one_host(lines: list[tuple[str, str]], host: str) -> list[tuple[str, str]]:
    """Several equal ``host`` headers count as one."""
    if any(name == "host" and value != host for name, value in lines):
        raise MalformedRequest("two hosts")
    position = [name for name, _ in lines].index("host")
    return [line for at, line in enumerate(lines) if at == position or line[0] != "host"]


def _name(name: bytes) -> str:
    if NAME.fullmatch(name) is None:
        raise MalformedRequest("header name")
    return name.decode("ascii")
