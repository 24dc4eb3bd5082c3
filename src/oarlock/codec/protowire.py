"""Protobuf's wire format, driven by tables: a `Message` has fields with names, numbers and kinds.

There is no generated code and no library: the messages used here are few and not recursive, so the tables bound the
nesting. Unknown fields are skipped; text that isn't UTF-8, a field of another wire type and truncated input are
refused. Must not know: kinds of objects, envelopes. Source: protobuf encoding specification. See also: `protobuf_meta`.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from oarlock.codec import json as json_codec
from oarlock.codec.errors import DecodeError
from oarlock.meta.times import parse_rfc3339, rfc3339

__all__ = ["Message", "MessageField", "ProtobufError", "fields_in", "tagged", "varint"]

_WORD = 0xFFFF_FFFF_FFFF_FFFF


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
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def tagged(number: int, payload: bytes) -> bytes:
    """`payload` as the length-delimited field `number`."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
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


def fields_in(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Each field's number, wire type and value: an int for a varint, else bytes. Raises ProtobufError."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint_at(data, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise ProtobufError(f"proto: illegal tag {number} (wire type {wire})")
        if wire == 0:
            value, at = _varint_at(data, at)
            yield number, wire, value
            continue
        if wire == 2:
            size, at = _varint_at(data, at)
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if size > end - at:
            raise ProtobufError("proto: unexpected EOF")
        yield number, wire, data[at : at + size]
        at += size


_FIXED = {1: 8, 5: 4}

# What single values look like ---------------------------------------------------------------------


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ProtobufError("proto: string field contains invalid UTF-8") from None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _signed32(value: int) -> int:
    value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def _unbase64(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except (binascii.Error, ValueError):
        return b""


def _number(value: float) -> float:
    if value - value != 0.0:
        raise ProtobufError(f"proto: {value} is no number that an object can have")
    return value


def _time(value: str) -> bytes:
    try:
        seconds = int(datetime.fromisoformat(value).timestamp() // 1)
    except ValueError:
        seconds = int(parse_rfc3339(value) // 1)
    return b"\x08" + varint(seconds & _WORD) + b"\x10\x00"


def _read_time(data: bytes) -> str | None:
    """A time; None for an empty message. Fractions are cut off, as everywhere else."""
    if not data:
        return None
    seconds = 0
    for number, wire, value in fields_in(data):
        if (number, wire) == (1, 0):
            seconds = _signed(value)
    try:
        return rfc3339(seconds)
    except ValueError as error:
        raise ProtobufError(f"proto: {error}") from None


def _micro_time(value: str) -> bytes:
    seconds, micros = divmod(round(parse_rfc3339(value) * 1_000_000), 1_000_000)
    return b"\x08" + varint(seconds & _WORD) + b"\x10" + varint(micros * 1000)


def _read_micro_time(data: bytes) -> str | None:
    """A time with six digits of fraction; None for an empty message."""
    if not data:
        return None
    found = {number: _signed(value) for number, wire, value in fields_in(data) if wire == 0}
    try:
        return f"{rfc3339(found.get(1, 0))[:-1]}.{found.get(2, 0) // 1000 % 1_000_000:06d}Z"
    except ValueError as error:
        raise ProtobufError(f"proto: {error}") from None


def _json(value: Any) -> bytes:
    return tagged(1, json_codec.encode(value))


def _read_json(data: bytes) -> Any:
    for number, wire, value in fields_in(data):
        if (number, wire) == (1, 2) and value:
            try:
                return json_codec.decode(value)
            except DecodeError as error:
                raise ProtobufError(f"proto: {error}") from None
    return None


def _quantity(value: Any) -> bytes:
    if not isinstance(value, (str, int, float)):
        raise TypeError("a quantity is text or a number")
    return tagged(1, str(value).encode())


def _read_quantity(data: bytes) -> str:
    for number, wire, value in fields_in(data):
        if (number, wire) == (1, 2):
            return _utf8(value)
    return "0"


def _int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01" + b"\x10\x00" + tagged(3, value.encode())
    return b"\x08\x00\x10" + varint(int(value) & _WORD) + tagged(3, b"")


def _read_int_or_string(data: bytes) -> int | str:
    is_text, whole, text = 0, 0, ""
    for number, wire, value in fields_in(data):
        if (number, wire) == (1, 0):
            is_text = value
        elif (number, wire) == (2, 0):
            whole = _signed32(value)
        elif (number, wire) == (3, 2):
            text = _utf8(value)
    return text if is_text else whole


_SCALARS: Mapping[str, tuple[int, Callable[[Any], bytes], Callable[[Any], Any]]] = {
    "string": (2, str.encode, _utf8),
    "bytes": (2, _unbase64, lambda data: base64.b64encode(data).decode()),
    "int64": (0, lambda value: varint(int(value) & _WORD), _signed),
    "int32": (0, lambda value: varint(int(value) & _WORD), _signed32),
    "bool": (0, lambda value: b"\x01" if value else b"\x00", bool),
    "double": (1, lambda value: struct.pack("<d", value), lambda data: _number(struct.unpack("<d", data)[0])),
    "Time": (2, _time, _read_time),
    "MicroTime": (2, _micro_time, _read_micro_time),
    "JSON": (2, _json, _read_json),
    "Quantity": (2, _quantity, _read_quantity),
    "IntOrString": (2, _int_or_string, _read_int_or_string),
}
"""Kind → its wire type, and how a value of a tree is written and read. ``JSON`` is a message whose field 1 is the
text of any value, as FieldsV1 and RawExtension are."""


@dataclass(frozen=True, slots=True)
class MessageField:
    """A field of a message.

    `kind` is a key of `_SCALARS` or a Message. `many`: the field is a list (``list``) or a map by name (``map``).
    `omitted`: Go writes the zero value when there is nothing, so it is left out when read.
    """

    name: str
    number: int
    kind: str | Message = "string"
    many: str = ""
    omitted: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """A protobuf message for a JSON object. `wrapped`: the message has one list field and stands for the list."""

    name: str
    fields: tuple[MessageField, ...]
    wrapped: bool = False
    _numbers: dict[int, MessageField] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._numbers.update({one.number: one for one in self.fields})

    def write(self, tree: Any) -> bytes:
        """Encode a tree. Keys without a field, and nulls, are left out. Raises ProtobufError."""
        if self.wrapped:
            tree = {self.fields[0].name: tree}
        if not isinstance(tree, dict):
            raise ProtobufError(f"proto: a {type(tree).__name__} can't be written as {self.name}")
        parts = []
        for one in self.fields:
            value = tree.get(one.name)
            if value is None:
                continue
            if one.many and not isinstance(value, list if one.many == "list" else dict):
                raise ProtobufError(f"proto: {one.name} of {self.name} isn't a {one.many}")
            if not one.many:
                parts.append(_put(one.number, one.kind, value))
            elif one.many == "list":
                parts += [_put(one.number, one.kind, item) for item in value]
            else:
                parts += [
                    tagged(one.number, tagged(1, key.encode()) + _put(2, one.kind, value[key])) for key in sorted(value)
                ]
        return b"".join(parts)

    def read(self, data: bytes) -> Any:
        """Decode a message to a tree. Raises ProtobufError."""
        tree: dict[str, Any] = {}
        for number, wire, value in fields_in(data):
            one = self._numbers.get(number)
            if one is not None:
                try:
                    self._read(one, wire, value, tree)
                except ProtobufError as error:
                    error.path.insert(0, one.name)
                    raise
        return tree.get(self.fields[0].name, []) if self.wrapped else tree

    def _read(self, one: MessageField, wire: int, value: Any, tree: dict[str, Any]) -> None:
        if one.many == "map":
            if wire != 2:
                raise _wrong_wire(self, one, wire)
            key, inner = _entry(self, one, value)
            tree.setdefault(one.name, {})[key] = inner
        elif one.many:
            tree.setdefault(one.name, []).extend(_items(self, one, wire, value))
        else:
            reading = _take(self, one, wire, value)
            if reading is None or (one.omitted and not reading):
                tree.pop(one.name, None)
            else:
                tree[one.name] = reading


def _put(number: int, kind: str | Message, value: Any) -> bytes:
    if isinstance(kind, Message):
        return tagged(number, kind.write(value))
    wire, write, _ = _SCALARS[kind]
    try:
        payload = write(value)
    except (TypeError, ValueError, OverflowError, struct.error):
        raise ProtobufError(f"proto: a {type(value).__name__} can't be written as {kind}") from None
    return tagged(number, payload) if wire == 2 else varint(number << 3 | wire) + payload


def _take(message: Message, one: MessageField, wire: int, value: Any) -> Any:
    if isinstance(one.kind, Message):
        if wire != 2:
            raise _wrong_wire(message, one, wire)
        return one.kind.read(value)
    expected, _, read = _SCALARS[one.kind]
    if wire != expected:
        raise _wrong_wire(message, one, wire)
    return read(value)


def _items(message: Message, one: MessageField, wire: int, value: Any) -> list[Any]:
    """One item, or all items of a packed list of numbers."""
    if wire == 2 and isinstance(one.kind, str) and (expected := _SCALARS[one.kind][0]) != 2:
        items, at = [], 0
        while at < len(value):
            item: Any
            if expected == 0:
                item, at = _varint_at(value, at)
            else:
                item, at = value[at : at + 8], at + 8
                if len(item) < 8:
                    raise ProtobufError("proto: unexpected EOF")
            items.append(_SCALARS[one.kind][2](item))
        return items
    return [_take(message, one, wire, value)]


def _entry(message: Message, one: MessageField, data: bytes) -> tuple[str, Any]:
    key, inner = "", None
    for number, wire, value in fields_in(data):
        if (number, wire) == (1, 2):
            key = _utf8(value)
        elif number == 2:
            inner = _take(message, one, wire, value)
    if inner is None:
        inner = one.kind.read(b"") if isinstance(one.kind, Message) else _ZERO.get(one.kind)
    return key, inner


_ZERO: Mapping[str, Any] = {"string": "", "bytes": "", "int64": 0, "int32": 0, "bool": False, "double": 0.0}


def _wrong_wire(message: Message, one: MessageField, wire: int) -> ProtobufError:
    return ProtobufError(f"proto: wrong wireType = {wire} for field {one.name} of {message.name}")
