"""The part of protobuf's wire format that KMS v2 needs: fields of bytes, text, small numbers, and maps of bytes.

Must not know: messages. See also: `messages`, `envelope`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ["MalformedMessage", "bytes_field", "fields_of", "map_field", "map_of", "number_field", "text_of"]

_MAX_VARINT_BYTES = 10
_WIDTHS = {1: 8, 5: 4}


class MalformedMessage(ValueError):
    """The bytes are not a valid message."""


def bytes_field(number: int, value: bytes) -> bytes:
    """The field; nothing for an empty value, as proto3 has it."""
    return b"".join((_varint(number << 3 | 2), _varint(len(value)), value)) if value else b""


def number_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value) if value else b""


def map_field(number: int, values: Mapping[str, bytes]) -> bytes:
    entries = (bytes_field(1, key.encode()) + bytes_field(2, value) for key, value in sorted(values.items()))
    return b"".join(_varint(number << 3 | 2) + _varint(len(entry)) + entry for entry in entries)


def fields_of(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message in order: bytes, or a number. Raises `MalformedMessage`."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint_at(data, at)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise MalformedMessage("a field has the number 0")
        if kind == 0:
            value, at = _varint_at(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint_at(data, at)
        elif kind in _WIDTHS:
            size = _WIDTHS[kind]
        else:
            raise MalformedMessage(f"field {number} has the wire type {kind}")
        if size > end - at:
            raise MalformedMessage(f"field {number} is cut off")
        yield number, data[at : at + size]
        at += size


def map_of(entry: bytes | int, values: dict[str, bytes]) -> None:
    """Add an entry of a map field to `values`. Raises `MalformedMessage`."""
    key, value = "", b""
    for number, part in fields_of(_bytes(entry)):
        if number == 1:
            key = text_of(part)
        elif number == 2:
            value = _bytes(part)
    values[key] = value


def text_of(value: bytes | int) -> str:
    """Raises `MalformedMessage`."""
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise MalformedMessage("a text is not UTF-8") from None


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise MalformedMessage("there is a number in place of bytes")
    return value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MAX_VARINT_BYTES):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, at
    raise MalformedMessage("a number is cut off or too large")
