"""Protobuf's wire format: numbers, lengths and tags.

Text that isn't UTF-8 and truncated input are refused. Must not know: messages. Source: protobuf encoding specification.
See also: `kubernetes_messages`, which reads and writes by tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oarlock.codec.errors import DecodeError

_WORD = 0xFFFF_FFFF_FFFF_FFFF
_GROUP_STARTS, _GROUP_ENDS = 3, 4
_FIXED = {1: 8, 5: 4}


class ProtobufError(DecodeError):
    """The bytes are not a valid message. `path` has the fields that lead to the error, outermost first."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.path: list[str] = []

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} in {'.'.join(self.path)}" if self.path else text


def varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


LENGTHS = tuple(varint(number) for number in range(1024))
"""The varints of the usual lengths."""


def at_length(payload: bytes) -> bytes:
    """`payload` after its length."""
    size = len(payload)
    return (LENGTHS[size] if size < 1024 else varint(size)) + payload


def tagged(number: int, payload: bytes) -> bytes:
    """`payload` as the length-delimited field `number`."""
    return varint(number << 3 | 2) + at_length(payload)


def long_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, modulo 2⁶⁴, and where it ends. Raises ProtobufError."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise ProtobufError("proto: unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _WORD, at
        shift += 7
        if shift >= 70:
            raise ProtobufError("proto: integer overflow")


def skip(data: bytes, at: int, end: int, tag: int) -> int:
    """Where the value behind `tag` ends: a group with all that is in it. Raises ProtobufError."""
    groups = 0
    while True:
        wire = tag & 7
        if not 0 < tag >> 3 < 1 << 29:
            raise ProtobufError(f"proto: illegal tag {tag >> 3} (wire type {wire})")
        if wire == 0:
            _, at = long_varint(data, at)
        elif wire == 2:
            size, at = long_varint(data, at)
            at += size
        elif wire in _FIXED:
            at += _FIXED[wire]
        elif wire == _GROUP_STARTS:
            groups += 1
        elif wire == _GROUP_ENDS and groups:
            groups -= 1
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if at > end or (groups and at == end):
            raise ProtobufError("proto: unexpected EOF")
        if not groups:
            return at
        tag, at = long_varint(data, at)


def fields_in(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Each field's number, wire type and value: an int for a varint, else bytes. Raises ProtobufError."""
    at, end = 0, len(data)
    while at < end:
        tag, at = long_varint(data, at)
        start, at = at, skip(data, at, end, tag)
        value: Any = data[start:at]
        if tag & 7 == 0:
            value, _ = long_varint(data, start)
        elif tag & 7 == 2:
            _, start = long_varint(data, start)
            value = data[start:at]
        yield tag >> 3, tag & 7, value
