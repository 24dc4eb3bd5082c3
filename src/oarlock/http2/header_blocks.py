"""HTTP/2 header blocks: HPACK (RFC 7541), within limits.

HPACK itself is jh2's. Its compiled classes are in ``jh2._hazmat``; ``jh2.hpack`` has the same in Python, for platforms
without them. See also: `frames`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oarlock.http2.frames import ErrorCode, Http2Error

try:
    from jh2._hazmat import Decoder, Encoder
except ImportError:  # pragma: no cover - a platform without the compiled classes
    from jh2.hpack import Decoder, Encoder

__all__ = ["TABLE_BYTES", "BlockDecoder", "BlockEncoder", "HeaderFields", "check_block"]

TABLE_BYTES = 4096  # of HPACK, both ways
FIELD_BYTES = 32  # what a field counts besides its name and value
# A block says each byte of a header itself, in five bits at least, or refers to the table. One that comes to more than
# this refers to the same again and again, which only an attack does.
DECODED_PER_BYTE = 4
DECODED_BYTES = 4 * TABLE_BYTES
LONGEST_INTEGER = 5  # bytes after the prefix: 32 bits and more
SIZE_UPDATES_BYTES = 16  # two updates are all that an encoder ever needs (RFC 7541 §4.2)

HeaderFields = Sequence[tuple[bytes, bytes, bool]]
"""Decoded fields: name, value, and whether it must never be indexed."""


class BlockDecoder:
    """Decodes the header blocks of one connection, each of at most `most_bytes` and `most_fields`."""

    __slots__ = ("_decoder", "_most_bytes", "_most_fields", "changed_table")

    def __init__(self, most_bytes: int, most_fields: int, decoder: Any = None) -> None:
        self._decoder = Decoder() if decoder is None else decoder
        self._decoder.max_allowed_table_size = TABLE_BYTES
        self._most_bytes = most_bytes
        self._most_fields = most_fields
        self.changed_table = False
        """Whether the block decoded last changed the dynamic table: then equal blocks may no longer say the same."""

    def decode(self, block: bytes) -> tuple[HeaderFields, int]:
        """The fields of `block`, and their size as RFC 9113 counts it (§6.5.2). Raises `Http2Error`."""
        self.changed_table = check_block(block, self._most_fields)
        self._decoder.max_header_list_size = min(self._most_bytes, DECODED_BYTES + DECODED_PER_BYTE * len(block))
        try:
            fields: HeaderFields = self._decoder.decode(block, raw=True)
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


def check_block(block: bytes, most: int) -> bool:
    """Whether a block changes the dynamic table.

    Raises `Http2Error` if it is cut off, has more than `most` fields, or a table size update in the middle. The
    compiled decoder accepts the last (RFC 7541 §4.2), and at the end of a block that is cut off it panics: it writes a
    stack trace to stderr, which any client could fill that way.
    """
    position, size, changes = 0, len(block), False
    try:
        if b"\x20" <= block[:1] < b"\x40":
            position, changes = _after_size_updates(block), True
        for _ in range(most + 1):
            if position >= size:
                break
            first = block[position]
            position += 1
            if first < 0x80:
                changes |= first >= 0x40
                position = _after_literal(block, position, first)
            elif first == 0xFF:
                position = _after_integer(block, position)
        else:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "oversized header list")
    except IndexError:
        position = size + 1
    if position != size:
        raise Http2Error(ErrorCode.COMPRESSION_ERROR, "header block: cut off")
    return changes


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
