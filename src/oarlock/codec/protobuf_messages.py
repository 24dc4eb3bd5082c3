"""Protobuf messages by tables: a `Message` has fields with names, numbers and kinds, and reads and writes trees.

Unknown fields are skipped, groups too. A field of another wire type is refused, and nesting deeper than `MAX_DEPTH`.
What comes twice is merged as Go merges it: the later value counts, objects are united, lists are joined.
Must not know: kinds of objects, envelopes. See also: `kubernetes_messages`, the table of Kubernetes' own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from oarlock.codec.protobuf_values import VALUES, ValueKind
from oarlock.codec.protowire import LENGTHS, ProtobufError, at_length, long_varint, skip, varint
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree

__all__ = ["MAX_DEPTH", "Form", "Message", "MessageField"]

MAX_DEPTH = 100
"""How deep messages may be nested: JSONSchemaProps contain themselves."""

_WHAT = {UnicodeDecodeError: "proto: string field contains invalid UTF-8", IndexError: "proto: unexpected EOF"}
_FieldReader = Callable[[bytes, int, int, Tree, int], int]
"""Reads a field's value, which begins at a place of the bytes and must end before another, into a tree at a depth; the
result is where it ends."""
_FieldWriter = Callable[[Any, int], bytes]
"""Writes a field with its tag; the depth is its message's."""


@dataclass(frozen=True, slots=True)
class MessageField:
    """A field of a message.

    `kind` is a key of `VALUES` or a Message. `many`: the field is a list (``list``) or a map by name (``map``).
    `omitted`: Go writes the zero value when there is nothing, so it is left out when read. A message without a `name`
    is inlined: in JSON its fields are those of the message around it.
    """

    name: str
    number: int
    kind: str | Message = "string"
    many: str = ""
    omitted: bool = False


MessageFields = tuple[MessageField, ...]


class Form(NamedTuple):
    """How a message is another value than an object in JSON: made of its fields, and the fields of it."""

    value: Callable[[Tree], Any]
    fields: Callable[[Any], Any]


class Message:
    """A protobuf message for a JSON object, or another value by its `form`. `fields` are made when first needed."""

    __slots__ = ("_fields", "_inlined", "_readers", "_writers", "form", "name")

    def __init__(
        self, name: str, fields: MessageFields | Callable[[], MessageFields], form: Form | None = None
    ) -> None:
        self.name = name
        self.form = form
        self._fields = fields
        self._readers: dict[int, _FieldReader] | None = None
        self._writers: dict[str, tuple[MessageField, _FieldWriter]] = {}
        self._inlined: list[tuple[int, Message]] = []

    @property
    def fields(self) -> tuple[MessageField, ...]:
        if callable(self._fields):
            self._fields = self._fields()
        return self._fields

    def __repr__(self) -> str:
        return f"Message({self.name})"

    def write(self, tree: Any, depth: int = 0) -> bytes:
        """Encode a tree. Keys without a field, and nulls, are left out. Raises ProtobufError."""
        if self._readers is None:
            self._readers = self._compiled()
        if self.form is not None:
            tree = self.form.fields(tree)
        if not isinstance(tree, dict):
            raise ProtobufError(f"proto: a {type(tree).__name__} can't be written as {self.name}")
        if depth > MAX_DEPTH:
            raise ProtobufError(f"proto: {self.name} is nested deeper than {MAX_DEPTH} messages")
        parts = []
        known = self._writers.get
        for name, value in tree.items():
            if value is not None and (found := known(name)) is not None:
                try:
                    parts.append(found[1](value, depth))
                except (AttributeError, TypeError, ValueError, OverflowError, struct.error) as error:
                    if isinstance(error, ProtobufError):
                        raise
                    raise _unfit(self, found[0], value) from None
        for number, message in self._inlined:
            parts += (varint(number << 3 | 2), at_length(message.write(tree, depth)))
        return b"".join(parts)

    def read(self, data: bytes) -> Any:
        """Decode a message to a tree. Raises ProtobufError."""
        return self.read_at(data, 0, len(data), {}, 0)

    def read_at(self, data: bytes, at: int, end: int, tree: Tree, depth: int) -> Any:
        """Decode the message between two places of the bytes, into a tree. Raises ProtobufError."""
        if self._readers is None:
            self._readers = self._compiled()
        if depth > MAX_DEPTH:
            raise ProtobufError(f"proto: {self.name} is nested deeper than {MAX_DEPTH} messages")
        known = self._readers.get
        tag, reader = 0, None
        try:
            while at < end:
                tag = data[at]
                at += 1
                if tag >= 0x80:
                    reader = None
                    if data[at] < 0x80:
                        tag += (data[at] - 1) * 0x80
                        at += 1
                    else:
                        tag, at = long_varint(data, at - 1)
                reader = known(tag)
                if reader is not None:
                    at = reader(data, at, end, tree, depth)
                else:
                    self._check_wire(tag)
                    at = skip(data, at, end, tag)
            if at > end:
                raise ProtobufError("proto: unexpected EOF")
        except (ProtobufError, UnicodeDecodeError, IndexError) as wrong:
            error = wrong if isinstance(wrong, ProtobufError) else ProtobufError(_WHAT[type(wrong)])
            if reader is not None:
                error.path[:0] = [field.name for field in self.fields if field.number == tag >> 3 and field.name]
            raise error from None
        return tree if self.form is None else self.form.value(tree)

    def _check_wire(self, tag: int) -> None:
        for field in self.fields:
            if field.number == tag >> 3:
                raise ProtobufError(f"proto: wrong wireType = {tag & 7} for field {field.name} of {self.name}")

    def _compiled(self) -> dict[int, _FieldReader]:
        """The readers by tag. Fills in what is needed for writing, too."""
        readers: dict[int, _FieldReader] = {}
        for field in self.fields:
            wire = VALUES[field.kind].wire if isinstance(field.kind, str) and field.many != "map" else 2
            readers[field.number << 3 | wire] = _reader(self, field)
            if field.many == "list" and isinstance(field.kind, str) and wire != 2:
                readers[field.number << 3 | 2] = _packed_reader(field.name, VALUES[field.kind])
            if field.name:
                self._writers[field.name] = field, _writer(field)
            elif isinstance(field.kind, Message):
                self._inlined.append((field.number, field.kind))
        return readers


def _unfit(message: Message, field: MessageField, value: Any) -> ProtobufError:
    many = {"list": list, "map": dict}.get(field.many)
    if many is not None and not isinstance(value, many):
        return ProtobufError(f"proto: {field.name} of {message.name} isn't a {field.many}")
    kind = field.kind if isinstance(field.kind, str) else field.kind.name
    what = f"a {type(value).__name__}" if many is None else "its value"
    return ProtobufError(f"proto: {what} can't be written as {kind} in {field.name} of {message.name}")


# Writing ------------------------------------------------------------------------------------------


def _writer(field: MessageField) -> _FieldWriter:
    if field.many == "map":
        return _map_writer(field)
    single = _single_writer(field.number, field.kind)
    if not field.many:
        return single

    def write_list(value: Any, depth: int) -> bytes:
        if not isinstance(value, list):
            raise TypeError
        return b"".join([single(item, depth) for item in value])

    return write_list


def _single_writer(number: int, kind: str | Message) -> _FieldWriter:
    if isinstance(kind, Message):
        tag, write_message = varint(number << 3 | 2), kind.write
        return lambda value, depth: tag + at_length(write_message(value, depth + 1))
    wire, write = VALUES[kind][:2]
    tag = varint(number << 3 | wire)
    if wire != 2:
        return lambda value, depth: tag + write(value)

    def write_bytes(value: Any, depth: int) -> bytes:
        payload = write(value)
        size = len(payload)
        return tag + (LENGTHS[size] if size < 1024 else varint(size)) + payload

    return write_bytes


def _map_writer(field: MessageField) -> _FieldWriter:
    tag, write_value = varint(field.number << 3 | 2), _single_writer(2, field.kind)

    def write_map(value: Any, depth: int) -> bytes:
        if not isinstance(value, dict):
            raise TypeError
        entries = [b"\x0a" + at_length(key.encode()) + write_value(value[key], depth) for key in sorted(value)]
        return b"".join([tag + at_length(entry) for entry in entries])

    return write_map


# Reading ------------------------------------------------------------------------------------------


def _reader(message: Message, field: MessageField) -> _FieldReader:
    if field.many == "map":
        return _map_reader(message, field)
    if isinstance(field.kind, Message):
        if field.many:
            return _message_list_reader(field.name, field.kind)
        return _message_reader(field.name, field.kind) if field.name else _inlined_reader(field.kind)
    value = VALUES[field.kind]
    if field.many:
        return _list_reader(field.name, value)
    if value.wire == 2:
        return _bytes_reader(field, value.read)
    take, name, omitted = _taker(value), field.name, field.omitted

    def read_value(data: bytes, at: int, end: int, tree: Tree, depth: int) -> int:
        found, at = take(data, at, end)
        if found is None or (omitted and not found):
            tree.pop(name, None)
        else:
            tree[name] = found
        return at

    return read_value


def _bytes_reader(field: MessageField, read: Callable[[bytes], Any]) -> _FieldReader:
    """As `read_value`, without its calls: most fields are texts."""
    name, omitted = field.name, field.omitted

    def read_bytes(data: bytes, at: int, end: int, tree: Tree, depth: int) -> int:
        size = data[at]
        at += 1
        if size >= 0x80:
            size, at = long_varint(data, at - 1)
        stop = at + size
        if stop > end:
            raise ProtobufError("proto: unexpected EOF")
        found = read(data[at:stop])
        if found is None or (omitted and not found):
            tree.pop(name, None)
        else:
            tree[name] = found
        return stop

    return read_bytes


def _stop(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the bytes behind the length at `at` begin and end. Raises ProtobufError."""
    size = data[at]
    at += 1
    if size >= 0x80:
        size, at = long_varint(data, at - 1)
    if at + size > end:
        raise ProtobufError("proto: unexpected EOF")
    return at, at + size


def _taker(value: ValueKind) -> Callable[[bytes, int, int], tuple[Any, int]]:
    """Reads one value of this kind, and tells where it ends."""
    read = value.read
    if value.wire == 0:

        def take_varint(data: bytes, at: int, end: int) -> tuple[Any, int]:
            if at < end and data[at] < 0x80:
                return read(data[at]), at + 1
            number, at = long_varint(data, at)
            return read(number), at

        return take_varint
    if value.wire == 1:

        def take_fixed(data: bytes, at: int, end: int) -> tuple[Any, int]:
            if at + 8 > end:
                raise ProtobufError("proto: unexpected EOF")
            return read(data[at : at + 8]), at + 8

        return take_fixed

    def take_bytes(data: bytes, at: int, end: int) -> tuple[Any, int]:
        at, stop = _stop(data, at, end)
        return read(data[at:stop]), stop

    return take_bytes


def _list_reader(name: str, value: ValueKind) -> _FieldReader:
    take = _taker(value)

    def read_item(data: bytes, at: int, end: int, tree: Tree, depth: int) -> int:
        item, at = take(data, at, end)
        items = tree.get(name)
        if items is None:
            items = tree[name] = []
        items.append(item)
        return at

    return read_item


def _packed_reader(name: str, value: ValueKind) -> _FieldReader:
    """Reads all items of a list of numbers at once."""
    take = _taker(value)

    def read_packed(data: bytes, at: int, end: int, tree: Tree, depth: int) -> int:
        at, stop = _stop(data, at, end)
        items = tree.setdefault(name, [])
        while at < stop:
            item, at = take(data, at, stop)
            items.append(item)
        if at > stop:
            raise ProtobufError("proto: unexpected EOF")
        return at

    return read_packed


def _message_reader(name: str, kind: Message) -> _FieldReader:
    read_at, is_object = kind.read_at, kind.form is None

    def read_message(data: bytes, at: int, end: int, tree: Tree, depth: int) -> int:
        at, stop = _stop(data, at, end)
        earlier = tree.get(name) if is_object else None
        found = read_at(data, at, stop, {} if earlier is None else earlier, depth + 1)
        if found is None:
            tree.pop(name, None)
        else:
            tree[name] = found
        return stop

    return read_message


def _inlined_reader(kind: Message) -> _FieldReader:
    def read_inlined(data: bytes, at: int, end: int, tree: Tree, depth: int) -> int:
        at, stop = _stop(data, at, end)
        kind.read_at(data, at, stop, tree, depth)
        return stop

    return read_inlined


def _message_list_reader(name: str, kind: Message) -> _FieldReader:
    read_at = kind.read_at

    def read_item(data: bytes, at: int, end: int, tree: Tree, depth: int) -> int:
        at, stop = _stop(data, at, end)
        items = tree.get(name)
        if items is None:
            items = tree[name] = []
        items.append(read_at(data, at, stop, {}, depth + 1))
        return stop

    return read_item


def _map_reader(message: Message, field: MessageField) -> _FieldReader:
    """Reads one entry of a map, which is a message with the key in field 1 and the value in field 2."""
    entry = Message(message.name, (MessageField("key", 1), MessageField("value", 2, field.kind)))
    name, kind = field.name, field.kind

    def read_entry(data: bytes, at: int, end: int, tree: Tree, depth: int) -> int:
        at, stop = _stop(data, at, end)
        found = entry.read_at(data, at, stop, {}, depth)
        value = found.get("value")
        if value is None:
            value = kind.read(b"") if isinstance(kind, Message) else VALUES[kind].zero
        tree.setdefault(name, {})[found.get("key", "")] = value
        return stop

    return read_entry
