"""Protobuf messages read to trees by compiled plans: a function of straight-line code for the fields of each message,
which is compiled when such a message is first read.

Unknown fields are skipped, groups too. A field of another wire type is refused, and nesting deeper than `MAX_DEPTH`.
What comes twice is merged as Go merges it: the later value counts, objects are united, lists are joined.
Must not know: kinds of objects. See also: `protobuf_writing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oarlock.codec.protobuf_values import MAX_DEPTH, VALUES, MessageField, MessageType
from oarlock.codec.protowire import ProtobufError, long_varint, skip
from oarlock.meta.json_trees import Tree

_Get = Callable[[bytes, str, int, int, Tree, int], Any]
"""Reads the message between two places of the bytes into a tree, at a depth. The text has a character for each byte."""


def read_message(message: MessageType, data: bytes) -> Any:
    """Decode a message to a tree, or the value that it is in JSON. Raises ProtobufError."""
    return _reader_of(message).get(data, data.decode("latin-1"), 0, len(data), {}, 0)


def _reader_of(message: MessageType) -> _MessageReader:
    """What reads this message."""
    reader: _MessageReader | None = message.reader
    if reader is None:
        reader = message.reader = _MessageReader(message)
    return reader


class _MessageReader:
    """Reads one message. `get` is compiled when first called."""

    __slots__ = ("_message", "_tags", "get")

    def __init__(self, message: MessageType) -> None:
        self._message = message
        self._tags: dict[int, str] = {}
        self.get: _Get = self._first

    def _first(self, data: bytes, text: str, at: int, end: int, tree: Tree, depth: int) -> Any:
        self._tags = {tag: field.name for field in self._message.fields for tag in _tags(field)}
        names = {**_GLOBALS, "refused": self._refused, "placed": self._placed, "deep": self._too_deep}
        exec(_source(self._message, names), names)
        self.get = names["get"]
        return self.get(data, text, at, end, tree, depth)

    def _refused(self, tag: int) -> None:
        """Refuse a tag that no field has, if it is none or that of a field with another wire type."""
        number, wire = tag >> 3, tag & 7
        for field in self._message.fields:
            if field.number == number:
                raise ProtobufError(f"proto: wrong wireType = {wire} for field {field.name} of {self._message.name}")
        if not 0 < number < 1 << 29:
            raise ProtobufError(f"proto: illegal tag {number} (wire type {wire})")

    def _placed(self, error: Exception, tag: int) -> ProtobufError:
        """An error with the name of the field in which it was met."""
        if not isinstance(error, ProtobufError):
            invalid = isinstance(error, UnicodeDecodeError)
            error = ProtobufError("proto: string field contains invalid UTF-8" if invalid else _ENDED)
        name = self._tags.get(tag)
        if name:
            error.path.insert(0, name)
        return error

    def _too_deep(self) -> ProtobufError:
        return ProtobufError(f"proto: {self._message.name} is nested deeper than {MAX_DEPTH} messages")


_ENDED = "proto: unexpected EOF"


def _wire(field: MessageField) -> int:
    return VALUES[field.kind].wire if isinstance(field.kind, str) and field.many != "map" else 2


def _tags(field: MessageField) -> set[int]:
    """The tags of a field: a list of numbers may be packed, too."""
    return {field.number << 3 | _wire(field), field.number << 3 | (2 if field.many else _wire(field))}


# What plans use -----------------------------------------------------------------------------------


def _utf8(text: str) -> str:
    return text.encode("latin-1").decode()


def _bounded(stop: int, end: int) -> None:
    if stop > end:
        raise ProtobufError(_ENDED)


def _packed(kind: str, data: bytes, at: int, stop: int, items: list[Any]) -> None:
    """Read all items of a list of numbers."""
    wire, _, read, _ = VALUES[kind]
    while at < stop:
        if wire == 1:
            _bounded(at + 8, stop)
            items.append(read(data[at : at + 8]))
            at += 8
        else:
            number, at = long_varint(data, at)
            items.append(read(number))
    _bounded(at, stop)


def _usual_entry(data: bytes, text: str, at: int, stop: int) -> tuple[str, int]:
    """The key of an entry of a map, and where its value begins; 0 if the entry isn't written as usual."""
    if stop - at < 4 or data[at] != 10 or data[at + 1] > 127:
        return "", 0
    value = at + 2 + data[at + 1]
    if value + 2 > stop or data[value] != 18 or data[value + 1] > 127 or value + 2 + data[value + 1] != stop:
        return "", 0
    key = text[at + 2 : value]
    return key if key.isascii() else _utf8(key), value + 2


_GLOBALS: dict[str, Any] = {
    "ProtobufError": ProtobufError,
    "ended": _ENDED,
    "long_varint": long_varint,
    "skip": skip,
    "utf8": _utf8,
    "bounded": _bounded,
    "packed": _packed,
    "usual_entry": _usual_entry,
    **{f"read_{kind}": value.read for kind, value in VALUES.items()},
}

# The source ---------------------------------------------------------------------------------------


def _number(name: str) -> list[str]:
    """Lines that read a number, or a length, into a variable, and go behind it."""
    return [
        f"{name} = data[at]",
        "at += 1",
        f"if {name} > 127:",
        " o = data[at]",
        " if o < 128:",
        f"  {name} += (o - 1) * 128",
        "  at += 1",
        " else:",
        f"  {name}, at = long_varint(data, at - 1)",
    ]


def _source(message: MessageType, names: dict[str, Any]) -> str:
    """The text of ``get``. What it calls is put into `names`."""
    sized = {field.number << 3 | 2: _sized(message, field, f"m{at}", names) for at, field in enumerate(message.fields)}
    others = {}
    for field in message.fields:
        if isinstance(field.kind, str) and _wire(field) != 2:
            others[field.number << 3 | _wire(field)] = _other(field, field.kind)
            if field.many:
                sized[field.number << 3 | 2] = [
                    *_items(field.name),
                    f"packed({field.kind!r}, data, at, stop, items)",
                ]
            else:
                del sized[field.number << 3 | 2]
    body = [
        *_number("tag"),
        "if tag & 7 == 2:",
        *_indented(_number("n")),
        " stop = at + n",
        " if stop > end:",
        "  raise ProtobufError(ended)",
        *_indented(_choice(sorted(sized.items()), ["refused(tag)"])),
        " at = stop",
        "else:",
        *_indented(_choice(sorted(others.items()), ["refused(tag)", "at = skip(data, at, end, tag)"])),
    ]
    names["form"] = message.form and message.form.value
    lines = [
        "def get(data, text, at, end, tree, depth):",
        f" if depth > {MAX_DEPTH}:",
        "  raise deep()",
        " tag = 0",
        " try:",
        "  while at < end:",
        *_indented(body, 3),
        "  if at > end:",
        "   raise ProtobufError(ended)",
        " except (ProtobufError, UnicodeDecodeError, IndexError) as error:",
        "  raise placed(error, tag) from None",
        " return tree" if message.form is None else " return form(tree)",
    ]
    return "\n".join(lines)


def _indented(lines: Sequence[str], by: int = 1) -> list[str]:
    return [" " * by + line for line in lines]


def _choice(cases: Sequence[tuple[int, list[str]]], otherwise: list[str]) -> list[str]:
    """Lines for a tag that is one of the cases: few comparisons, however many they are."""
    if not cases:
        return otherwise
    if len(cases) <= 2:
        lines = []
        for at, (tag, case) in enumerate(cases):
            lines += [f"{'elif' if at else 'if'} tag == {tag}:", *_indented(case)]
        return [*lines, "else:", *_indented(otherwise)]
    middle = len(cases) // 2
    return [
        f"if tag < {cases[middle][0]}:",
        *_indented(_choice(cases[:middle], otherwise)),
        "else:",
        *_indented(_choice(cases[middle:], otherwise)),
    ]


def _kept(field: MessageField, *, empty: str) -> list[str]:
    """Lines that put ``v`` into the tree, unless it is `empty`."""
    name = repr(field.name)
    return [f"if {empty}:", f" tree.pop({name}, None)", "else:", f" tree[{name}] = v"]


def _items(name: str) -> list[str]:
    return [f"items = tree.get({name!r})", "if items is None:", f" items = tree[{name!r}] = []"]


def _sized(message: MessageType, field: MessageField, other: str, names: dict[str, Any]) -> list[str]:
    """Lines that read a field whose length is given, from ``at`` to ``stop``. `other` is a name for what reads it."""
    kind, name = field.kind, repr(field.name)
    if field.many == "map":
        return _entry(message, field, other, names)
    if not isinstance(kind, str):
        names[other] = _reader_of(kind)
        if not field.name:
            return [f"{other}.get(data, text, at, stop, tree, depth)"]
        if field.many:
            return [*_items(field.name), f"items.append({other}.get(data, text, at, stop, {{}}, depth + 1))"]
        if kind.form is None:
            return [f"tree[{name}] = {other}.get(data, text, at, stop, tree.get({name}) or {{}}, depth + 1)"]
        return [f"v = {other}.get(data, text, at, stop, {{}}, depth + 1)", *_kept(field, empty="v is None")]
    value = _value(kind, "at")
    if field.many:
        return [*value, *_items(field.name), "items.append(v)"]
    if kind == "string" and not field.omitted:
        return [*value, f"tree[{name}] = v"]
    return [*value, *_kept(field, empty="not v" if field.omitted else "v is None")]


def _value(kind: str, start: str) -> list[str]:
    """Lines that read a value from ``start`` to ``stop`` into ``v``."""
    if kind == "string":
        return [f"v = text[{start}:stop]", "if not v.isascii():", " v = utf8(v)"]
    return [f"v = read_{kind}(data[{start}:stop])"]


def _entry(message: MessageType, field: MessageField, other: str, names: dict[str, Any]) -> list[str]:
    """Lines that read an entry of a map, a message with the key in field 1 and the value in field 2."""
    kind = field.kind
    entry = MessageType(message.name, (MessageField("key", 1), MessageField("value", 2, kind)))
    reader = _reader_of(entry)

    def read_entry(data: bytes, text: str, at: int, stop: int, depth: int) -> tuple[str, Any]:
        found = reader.get(data, text, at, stop, {}, depth)
        value = found.get("value")
        if value is None:
            value = VALUES[kind].zero if isinstance(kind, str) else read_message(kind, b"")
        return found.get("key", ""), value

    names[other] = read_entry
    lines = [f"k, v = {other}(data, text, at, stop, depth)"]
    if kind in ("string", "Quantity"):
        lines = [
            "k, p = usual_entry(data, text, at, stop)",
            "if p:",
            *_indented(_value(kind, "p")),
            "else:",
            " " + lines[0],
        ]
    return [
        *lines,
        f"items = tree.get({field.name!r})",
        "if items is None:",
        f" items = tree[{field.name!r}] = {{}}",
        "items[k] = v",
    ]


def _other(field: MessageField, kind: str) -> list[str]:
    """Lines that read a number."""
    if VALUES[kind].wire == 1:
        value = ["bounded(at + 8, end)", f"v = read_{kind}(data[at : at + 8])", "at += 8"]
    else:
        value = [*_number("n"), "v = n if n < 0x80000000 else read_" + kind + "(n)"]
        if kind == "bool":
            value[-1] = "v = n != 0"
    if field.many:
        return [*value, *_items(field.name), "items.append(v)"]
    if field.omitted:
        return [*value, *_kept(field, empty="not v")]
    return [*value, f"tree[{field.name!r}] = v"]
