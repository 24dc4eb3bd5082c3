"""Protobuf messages written of JSON by compiled plans.

A plan is a class, to which the JSON of a message is decoded, and a function of straight-line code for its fields, which
is compiled when such a message is first written. Both see bytes as text: a byte is the character with its number
(Latin-1), so that the length of a text is the length of its bytes, and f-strings join what Python would otherwise
encode, measure and copy one by one.

A message that contains itself, or is another value in JSON, is left as JSON in the one around it, and has its turn
when it is met. So are messages in the items of lists, such as the environments, ports and resources of containers:
many objects have the same, which are written once and remembered by their JSON.
Must not know: kinds of objects. See also: `kubernetes_messages`.
"""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Callable
from functools import lru_cache
from types import GenericAlias
from typing import Any, NamedTuple

import msgspec

from oarlock.codec import json as json_codec
from oarlock.codec.protobuf_values import MAX_DEPTH, VALUES, MessageField, MessageType
from oarlock.codec.protowire import ProtobufError, varint
from oarlock.meta.memo import Memo

_WORD = 0xFFFF_FFFF_FFFF_FFFF

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_escaped = re.compile(rb"\\u(?!00[0-7])").search
"""Finds what may be an escaped character beyond ASCII, whose bytes JSON text doesn't show."""


def write_json(message: MessageType, data: bytes) -> bytes:
    """Encode a value in JSON. Fields that the message hasn't, and nulls, are left out. Raises ProtobufError."""
    if _escaped(data) is None:
        try:
            return _written(message, data)
        except (ValueError, TypeError, OverflowError, struct.error, RecursionError):
            pass  # it may be a number or text written otherwise than here
    try:
        return _written(message, _encode(json_codec.decode(data, whole_as_int=True)))
    except (ValueError, TypeError, OverflowError, struct.error, RecursionError) as error:
        if isinstance(error, ProtobufError):
            raise
        raise ProtobufError(f"proto: it can't be written as {message.name}: {error}") from None


def _written(message: MessageType, data: bytes) -> bytes:
    if not data.isascii():
        data = data.decode("latin-1").encode()
    return _writer_of(message).write(data, 0).encode("latin-1")


def _writer_of(message: MessageType, *, item: bool = False) -> _MessageWriter:
    """What writes this message; as an item of a list, it writes the messages in it by what is remembered."""
    writers: dict[bool, _MessageWriter] | None = message.writer
    if writers is None:
        writers = message.writer = {}
    writer = writers.get(item)
    if writer is None:
        writer = writers[item] = _MessageWriter(message, item=item)
    return writer


# The values ---------------------------------------------------------------------------------------

_SHORT = tuple(varint(number).decode("latin-1") for number in range(1024))
"""The varints of small numbers, and of most lengths."""


@lru_cache(4096)
def _number(number: int) -> str:
    return varint(number & _WORD).decode("latin-1")


def _int_or_string(value: int | str) -> str:
    if isinstance(value, str):
        return f"\x08\x01\x10\x00\x1a{_number(len(value))}{value}"
    return f"\x08\x00\x10{_number(value)}\x1a\x00"


def _as_text(kind: str) -> Callable[[Any], str]:
    write = VALUES[kind].write
    return lambda value: write(value).decode("latin-1")


@lru_cache(1024)
def _second(value: str) -> str:
    return VALUES["Time"].write(value).decode("latin-1")


def _time(value: str) -> str:
    return _second(value) if len(value) == _SECOND_CHARACTERS else VALUES["Time"].write(value).decode("latin-1")


_SECOND_CHARACTERS = len("2026-11-20T13:11:09Z")
_GLOBALS: dict[str, Any] = {
    "S": _SHORT,
    "N": _number,
    "write_Time": _time,
    "write_MicroTime": _as_text("MicroTime"),
    "write_IntOrString": _int_or_string,
    "write_double": _as_text("double"),
    "write_bytes": _as_text("bytes"),
}
"""What plans use."""

_NULL = msgspec.Raw(b"null")
_IN_JSON: dict[str, Any] = {
    "string": str,
    "bytes": str,
    "int32": int,
    "int64": int,
    "bool": bool,
    "double": float,
    "Time": str,
    "MicroTime": str,
    "JSON": msgspec.Raw,
    "Quantity": str | int | float,
    "IntOrString": int | str,
}
"""The types of values in JSON."""

# The plans ----------------------------------------------------------------------------------------

_LENGTH = "{S[n] if n < 1024 else N(n)}"
_making = threading.RLock()


class _Planned(NamedTuple):
    """A field, and what it is in the class of its message: `attribute`, which is JSON still if it is `raw`.

    The fields of a message that is inlined are in `inlined`; the class has them. A `remembered` field is JSON as a
    whole.
    """

    field: MessageField
    attribute: str
    raw: bool
    inlined: tuple[_Planned, ...] | None = None
    remembered: bool = False


class _MessageWriter:
    """Writes one message. `put` writes an object of its class, at a depth, and is compiled when first called."""

    __slots__ = ("_decode", "_item", "_message", "_plan", "_shape", "put")

    def __init__(self, message: MessageType, *, item: bool) -> None:
        self._message = message
        self._item = item
        self._shape: Any = None
        self._plan: tuple[_Planned, ...] = ()
        self._decode: Callable[[bytes], Any] | None = None
        self.put: Callable[[Any, int], str] = self._first

    def write(self, data: bytes | msgspec.Raw, depth: int) -> str:
        """Encode a value in JSON."""
        if depth > MAX_DEPTH:
            raise ProtobufError(f"proto: {self._message.name} is nested deeper than {MAX_DEPTH} messages")
        data, form = bytes(data), self._message.form
        if form is not None:
            data = _encode(form.fields(_decode(data)))
        if self._decode is None:
            with _making:
                self._decode = msgspec.json.Decoder(self.shape(set())).decode
        return self.put(self._decode(data), depth)

    def shape(self, within: set[_MessageWriter]) -> Any:
        """The class of the message; JSON for one that is being made, as it contains itself."""
        if self in within:
            return msgspec.Raw
        if self._shape is None:
            within.add(self)
            members: list[tuple[str, Any, Any]] = []
            self._plan = _planned(self._message, members, within, item=self._item)
            self._shape = msgspec.defstruct("Shape", members, gc=False)
            within.discard(self)
        return self._shape

    def _first(self, value: Any, depth: int) -> str:
        names = dict(_GLOBALS)
        exec(_source(self._plan, names), names)
        self.put = names["put"]
        return self.put(value, depth)


_REMEMBERED_BYTES = 4 * 1024 * 1024
_LONGEST_REMEMBERED = 4096
_remembered: Memo[tuple[_RememberedField, bytes], str] = Memo(
    _REMEMBERED_BYTES, entry_bytes=400, per_byte=2, longest_bytes=_LONGEST_REMEMBERED
)
"""Fields of items of lists as they were written, by their JSON."""


class _RememberedField:
    """Writes a field of items of lists, a message or a list of messages, of its JSON.

    A value that rarely repeats, such as the state of a container, is no longer looked up.
    """

    __slots__ = ("_decode", "_field", "_hits", "_misses", "_tag", "_writer")

    def __init__(self, field: MessageField, message: MessageType) -> None:
        self._field = field
        self._writer = _writer_of(message, item=field.many == "list")
        self._tag = varint(field.number << 3 | 2).decode("latin-1")
        self._decode: Callable[[bytes], Any] | None = None
        self._hits = self._misses = 0

    def __call__(self, value: msgspec.Raw, depth: int) -> str:
        text = bytes(value)
        if len(text) > _LONGEST_REMEMBERED or self._misses > _TRIED + self._hits:
            return self._written(text, depth)
        key = self, text
        found = _remembered.get(key)
        if found is not None:
            self._hits += 1
            return found
        self._misses += 1
        found = self._written(text, depth)
        with _making:  # large objects are written in threads
            _remembered.put(key, found, len(text))
        return found

    def _written(self, text: bytes, depth: int) -> str:
        if text == b"null":
            return ""
        if depth > MAX_DEPTH:
            raise ProtobufError(f"proto: {self._field.name} is nested deeper than {MAX_DEPTH} messages")
        many = self._field.many == "list"
        if self._decode is None:
            with _making:
                shape = self._writer.shape(set())
                self._decode = msgspec.json.Decoder(GenericAlias(list, (shape,)) if many else shape).decode
        value, tag, put = self._decode(text), self._tag, self._writer.put
        messages = [put(item, depth) for item in value] if many else [put(value, depth)]
        return "".join([f"{tag}{_number(len(message))}{message}" for message in messages])


_TRIED = 200
"""How often a field is looked up before it is known whether it is often the same."""


def _planned(
    message: MessageType, members: list[tuple[str, Any, Any]], within: set[_MessageWriter], *, item: bool
) -> tuple[_Planned, ...]:
    plan = []
    for field in message.fields:
        is_message = not isinstance(field.kind, str)
        if not field.name and not isinstance(field.kind, str):
            plan.append(_Planned(field, "", False, _planned(field.kind, members, within, item=item)))
            continue
        made: Any = _IN_JSON[field.kind] if isinstance(field.kind, str) else msgspec.Raw
        remembered = item and is_message and field.many != "map"
        if not isinstance(field.kind, str) and field.kind.form is not None:
            remembered = False
        elif not isinstance(field.kind, str) and not remembered:
            made = _writer_of(field.kind, item=field.many == "list").shape(within)
        raw = made is msgspec.Raw
        if field.many == "list" and not remembered:
            made = list[made]
        elif field.many == "map":
            made = dict[str, made]
        attribute = f"f{len(members)}"
        members.append(
            (attribute, made if made is msgspec.Raw else made | None, msgspec.field(name=field.name, default=None))
        )
        plan.append(_Planned(field, attribute, raw, remembered=remembered))
    return tuple(plan)


def _source(plan: tuple[_Planned, ...], names: dict[str, Any]) -> str:
    """The text of ``put``. What it calls is put into `names`."""
    lines = ["def put(o, d):"]
    _fields_source(plan, names, lines)
    lines.append(" return r")
    return "\n".join(lines)


def _fields_source(plan: tuple[_Planned, ...], names: dict[str, Any], lines: list[str]) -> None:
    """Lines that write fields into ``r``."""
    inlined = []
    for planned in plan:
        if planned.inlined is not None:
            _fields_source(planned.inlined, names, lines)
            inlined.append((planned.field.number, f"i{len(lines)}"))
            lines.append(f" i{len(lines)} = r")
    lines.append(" r = ''")
    for planned in plan:
        if planned.inlined is not None:
            continue
        single = planned.raw and not planned.field.many and not planned.remembered
        lines.append(f" if (v := o.{planned.attribute}) is not None{' and v != null' if single else ''}:")
        if planned.remembered and not isinstance(planned.field.kind, str):
            names[f"m{planned.attribute}"] = _RememberedField(planned.field, planned.field.kind)
            lines.append(f"  r += m{planned.attribute}(v, d + 1)")
        elif not planned.field.many:
            lines.append("  " + _value_source(planned, planned.field.number, "v", names))
        elif planned.field.many == "list":
            lines += ["  for x in v:", "   " + _value_source(planned, planned.field.number, "x", names)]
        else:
            lines += [
                "  q = r",
                "  for k, x in sorted(v.items()):",
                f"   n = len(k); r = f'\\x0a{_LENGTH}{{k}}'",
                "   " + _value_source(planned, 2, "x", names),
                f"   n = len(r); q += f'{_tag(planned.field.number, 2)}{_LENGTH}{{r}}'",
                "  r = q",
            ]
    names["null"] = _NULL
    lines += [f" n = len({name}); r += f'{_tag(number, 2)}{_LENGTH}{{{name}}}'" for number, name in inlined]


def _value_source(planned: _Planned, number: int, value: str, names: dict[str, Any]) -> str:
    """A line that adds the value in a variable to ``r``, as the field `number`."""
    kind = planned.field.kind
    put = f"n = len(w); r += f'{_tag(number, 2)}{_LENGTH}{{w}}'"
    if not isinstance(kind, str):
        writer = f"m{planned.attribute}"
        names[writer] = _writer_of(kind, item=planned.field.many == "list")
        call = f"{writer}.write({value}, d + 1)" if planned.raw else f"{writer}.put({value}, d)"
        return f"w = {call}; {put}"
    if kind == "string":
        return f"n = len({value}); r += f'{_tag(number, 2)}{_LENGTH}{{{value}}}'"
    if kind in ("int32", "int64"):
        return f"r += f'{_tag(number, 0)}{{S[{value}] if 0 <= {value} < 1024 else N({value})}}'"
    if kind == "bool":
        return f"r += '{_tag(number, 0)}\\x01' if {value} else '{_tag(number, 0)}\\x00'"
    if kind == "double":
        return f"r += f'{_tag(number, 1)}{{write_double({value})}}'"
    if kind in ("Quantity", "JSON"):  # messages whose field 1 is the text
        text = f"str({value})" if kind == "Quantity" else f"str({value}, 'utf-8')"
        return f"w = {text}; n = len(w); w = f'\\x0a{_LENGTH}{{w}}'; {put}"
    return f"w = write_{kind}({value}); {put}"


def _tag(number: int, wire: int) -> str:
    """The escapes of a field's tag, for a text in a source."""
    return "".join(f"\\x{byte:02x}" for byte in varint(number << 3 | wire))
