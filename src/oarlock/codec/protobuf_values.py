"""The fields of protobuf messages, their single values, and the messages of Kubernetes that are one value in JSON.

See also: `kubernetes_messages`, for messages that are objects.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from oarlock.codec import json as json_codec
from oarlock.codec.errors import DecodeError
from oarlock.codec.protowire import ProtobufError, fields_in, long_varint, tagged, varint
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.meta.times import parse_rfc3339, rfc3339

MAX_DEPTH = 100
"""How deep messages may be nested: JSONSchemaProps contain themselves."""

_WORD = 0xFFFF_FFFF_FFFF_FFFF


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _signed32(value: int) -> int:
    value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def _integer(value: Any) -> bytes:
    return varint(int(value) & _WORD)


def _unbase64(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except (binascii.Error, ValueError):
        return b""


def _number(data: bytes) -> float:
    value: float = struct.unpack("<d", data)[0]
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
    if data[0] == 8:
        seconds, at = long_varint(data, 1)
        seconds = _signed(seconds) if data[at:] in _NO_FRACTION else _whole_numbers(data).get(1, 0)
    else:
        seconds = _whole_numbers(data).get(1, 0)
    try:
        return rfc3339(seconds)
    except ValueError as error:
        raise ProtobufError(f"proto: {error}") from None


_NO_FRACTION = (b"", b"\x10\x00")


def _whole_numbers(data: bytes) -> dict[int, int]:
    return {number: _signed(value) for number, wire, value in fields_in(data) if wire == 0}


def _micro_time(value: str) -> bytes:
    seconds, micros = divmod(round(parse_rfc3339(value) * 1_000_000), 1_000_000)
    return b"\x08" + varint(seconds & _WORD) + b"\x10" + varint(micros * 1000)


def _read_micro_time(data: bytes) -> str | None:
    """A time with six digits of fraction; None for an empty message."""
    if not data:
        return None
    found = _whole_numbers(data)
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
    if data[:1] == b"\x0a" and data[1] == len(data) - 2:
        return data[2:].decode()
    text = "0"
    for number, wire, value in fields_in(data):
        if (number, wire) == (1, 2):
            text = value.decode()
    return text


def _int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01" + b"\x10\x00" + tagged(3, value.encode())
    return b"\x08\x00\x10" + varint(int(value) & _WORD) + tagged(3, b"")


def _read_int_or_string(data: bytes) -> int | str:
    if data[:3] == b"\x08\x00\x10":
        number, at = long_varint(data, 3)
        if data[at:] == b"\x1a\x00":
            return _signed32(number)
    elif data[:5] == b"\x08\x01\x10\x00\x1a" and data[5] == len(data) - 6:
        return data[6:].decode()
    is_text, whole, text = 0, 0, ""
    for number, wire, value in fields_in(data):
        if (number, wire) == (1, 0):
            is_text = value
        elif (number, wire) == (2, 0):
            whole = _signed32(value)
        elif (number, wire) == (3, 2):
            text = value.decode()
    return text if is_text else whole


class ValueKind(NamedTuple):
    """How a value of a tree is written and read. `wire` is its wire type, `zero` what an absent value of a map is.

    `read` takes an int for a varint, else bytes, and may raise UnicodeDecodeError. None says that there is nothing.
    """

    wire: int
    write: Callable[[Any], bytes]
    read: Callable[[Any], Any]
    zero: Any = None


VALUES: Mapping[str, ValueKind] = {
    "string": ValueKind(2, str.encode, bytes.decode, ""),
    "bytes": ValueKind(2, _unbase64, lambda data: base64.b64encode(data).decode(), ""),
    "int64": ValueKind(0, _integer, _signed, 0),
    "int32": ValueKind(0, _integer, _signed32, 0),
    "bool": ValueKind(0, lambda value: b"\x01" if value else b"\x00", bool, False),
    "double": ValueKind(1, lambda value: struct.pack("<d", value), _number, 0.0),
    "Time": ValueKind(2, _time, _read_time),
    "MicroTime": ValueKind(2, _micro_time, _read_micro_time),
    "JSON": ValueKind(2, _json, _read_json),
    "Quantity": ValueKind(2, _quantity, _read_quantity, "0"),
    "IntOrString": ValueKind(2, _int_or_string, _read_int_or_string, 0),
}
"""``JSON`` is a message whose field 1 is the text of any value, as FieldsV1 and RawExtension are."""


@dataclass(frozen=True, slots=True)
class MessageField:
    """A field of a message.

    `kind` is a key of `VALUES` or a message. `many`: the field is a list (``list``) or a map by name (``map``).
    `omitted`: Go writes the zero value when there is nothing, so it is left out when read. A message without a `name`
    is inlined: in JSON its fields are those of the message around it.
    """

    name: str
    number: int
    kind: str | MessageType = "string"
    many: str = ""
    omitted: bool = False


MessageFields = tuple[MessageField, ...]


class Form(NamedTuple):
    """How a message is another value than an object in JSON: made of its fields, and the fields of it."""

    value: Callable[[Tree], Any]
    fields: Callable[[Any], Any]


class MessageType:
    """What a message consists of. `fields` are made when first needed, `reader` and `writer` when first used."""

    __slots__ = ("_fields", "form", "name", "reader", "writer")

    def __init__(
        self, name: str, fields: MessageFields | Callable[[], MessageFields], form: Form | None = None
    ) -> None:
        self.name = name
        self.form = form
        self._fields = fields
        self.reader: Any = None
        self.writer: Any = None

    @property
    def fields(self) -> MessageFields:
        if callable(self._fields):
            self._fields = self._fields()
        return self._fields

    def __repr__(self) -> str:
        return f"Message({self.name})"
