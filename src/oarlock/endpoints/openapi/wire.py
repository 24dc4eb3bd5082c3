"""Encodes JSON trees as protobuf messages, by tables of field numbers.

OpenAPI documents are only written, with a few fixed message types, so a table and six small writers are enough.
Must not know: OpenAPI. Source: protobuf encoding specification. See also: `protobuf`, the tables.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from oarlock.codec.protowire import tagged, varint

__all__ = [
    "FieldTable",
    "FieldWriter",
    "anything",
    "boolean",
    "double",
    "each",
    "framed",
    "integer",
    "members",
    "message",
    "named",
    "text",
    "wrapped",
]

FieldWriter = Callable[[int, Any], bytes]
"""Writes a value as the field with this number."""
FieldTable = dict[str, tuple[int, FieldWriter]]
"""The number and writer of each field of a message, by its name in JSON."""

_yaml = msgspec.json.Encoder().encode


def text(number: int, value: Any) -> bytes:
    return tagged(number, str(value).encode())


def boolean(number: int, value: Any) -> bytes:
    return varint(number << 3) + (b"\x01" if value else b"\x00")


def integer(number: int, value: Any) -> bytes:
    return varint(number << 3) + varint(int(value) & 0xFFFF_FFFF_FFFF_FFFF)


def double(number: int, value: Any) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def anything(number: int, value: Any) -> bytes:
    """Any JSON value: a message whose field 2 is its text, which clients parse as YAML."""
    return tagged(number, tagged(2, _yaml(value) + b"\n"))


def each(writer: FieldWriter) -> FieldWriter:
    """A list as a repeated field."""
    return lambda number, values: b"".join([writer(number, value) for value in values])


def named(writer: FieldWriter) -> FieldWriter:
    """A map as a message whose field 1 repeats (1: key, 2: value)."""

    return lambda number, values: tagged(number, b"".join(members(writer, values)))


def members(writer: FieldWriter, values: Mapping[str, Any], inner: int = 1) -> Iterator[bytes]:
    """The content of a map's message."""
    for key, value in values.items():
        yield tagged(inner, text(1, key) + writer(2, value))


def framed(number: int, pieces: Sequence[bytes]) -> list[bytes]:
    """A message of these `pieces`, as the field with this number."""
    return [varint(number << 3 | 2) + varint(sum(map(len, pieces))), *pieces]


def wrapped(writer: FieldWriter, *inner: int) -> FieldWriter:
    """A value inside nested messages that have no other field; `inner` are their field numbers, outermost first."""

    def write(number: int, value: Any) -> bytes:
        payload = writer(inner[-1], value)
        for field in reversed(inner[:-1]):
            payload = tagged(field, payload)
        return tagged(number, payload)

    return write


def message(fields: Callable[[], Mapping[str, tuple[int, FieldWriter]]], extensions: int) -> FieldWriter:
    """An object by its table; keys that begin with ``x-`` go to the field `extensions` as (name, any value).

    `fields` returns the table, which may so refer to itself. Keys that aren't in it are left out.
    """

    def write(number: int, tree: Any) -> bytes:
        table = fields()
        parts = []
        for key, value in tree.items():
            found = table.get(key)
            if found is not None:
                parts.append(found[1](found[0], value))
            elif key.startswith("x-") and extensions:
                parts.append(tagged(extensions, text(1, key) + anything(2, value)))
        return tagged(number, b"".join(parts))

    return write
