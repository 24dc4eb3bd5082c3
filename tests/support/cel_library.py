"""cel-expr-python as the other opinion on syntax: its parser's tree, as one of ours.

The library gives a serialized ``cel.expr.ParsedExpr``, which is read here by hand: six messages of protobuf.
"""

from __future__ import annotations

import importlib
import struct
from functools import lru_cache
from typing import Any

from oarlock.schema.cel.syntax.ast import Call, Const, Expr, Fold, Ident, ListOf, MapOf, Select
from oarlock.schema.cel.values import UInt

__all__ = ["EXTENSIONS", "Refused", "library_tree"]

EXTENSIONS = "extensions:\n" + "".join(
    f"- name: {name}\n" for name in ("lists", "two-var-comprehensions", "optional", "strings", "sets")
)

_Fields = dict[int, list[Any]]


class Refused(Exception):
    """The library can't parse it."""


@lru_cache(maxsize=1)
def _environment() -> Any:
    cel = importlib.import_module("cel_expr_python.cel")
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(EXTENSIONS))


def library_tree(source: str) -> Expr:
    """The tree of an expression, macros expanded. Refused with the library's message."""
    try:
        data = _environment().compile(source, disable_check=True).serialize()
    except (RuntimeError, UnicodeError) as error:
        raise Refused(str(error)) from error
    parsed = _fields(_fields(data)[2][0])
    info = _fields(parsed[3][0]) if 3 in parsed else {}
    offsets = {}
    for entry in info.get(4, ()):
        pair = _fields(entry)
        offsets[pair.get(1, [0])[0]] = pair.get(2, [0])[0]
    return _Reader(offsets).expr(parsed[2][0])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> _Fields:
    found: _Fields = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: Any
        if tag & 7 == 0:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if tag & 7 == 2 else (8 if tag & 7 == 1 else 4, at)
            value = data[at : at + size]
            at += size
        found.setdefault(tag >> 3, []).append(value)
    return found


def _packed(chunks: list[Any]) -> list[int]:
    values: list[int] = []
    for chunk in chunks:
        if isinstance(chunk, int):
            values.append(chunk)
            continue
        at = 0
        while at < len(chunk):
            value, at = _varint(chunk, at)
            values.append(value)
    return values


def _text(fields: _Fields, number: int) -> str:
    return fields[number][0].decode("utf-8", "surrogatepass") if number in fields else ""


class _Reader:
    def __init__(self, offsets: dict[int, int]) -> None:
        self._offsets = offsets

    def expr(self, data: bytes) -> Expr:
        fields = _fields(data)
        offset = self._offsets.get(fields.get(2, [0])[0], 0)
        if 3 in fields:
            return Const(offset, _constant(_fields(fields[3][0])))
        if 4 in fields:
            return Ident(offset, _text(_fields(fields[4][0]), 1))
        if 5 in fields:
            select = _fields(fields[5][0])
            return Select(offset, self.expr(select[1][0]), _text(select, 2), bool(select.get(3, [0])[0]))
        if 6 in fields:
            call = _fields(fields[6][0])
            target = self.expr(call[1][0]) if 1 in call else None
            return Call(offset, _text(call, 2), target, [self.expr(arg) for arg in call.get(3, ())])
        if 7 in fields:
            items = _fields(fields[7][0])
            return ListOf(offset, [self.expr(item) for item in items.get(1, ())], frozenset(_packed(items.get(2, []))))
        if 8 in fields:
            return self._struct(offset, _fields(fields[8][0]))
        return self._fold(offset, _fields(fields[9][0]))

    def _struct(self, offset: int, fields: _Fields) -> MapOf:
        entries = []
        for data in fields.get(2, ()):
            entry = _fields(data)
            key = self.expr(entry[3][0]) if 3 in entry else Const(offset, _text(entry, 2))
            entries.append((key, self.expr(entry[4][0]), bool(entry.get(5, [0])[0])))
        return MapOf(offset, entries, _text(fields, 1))

    def _fold(self, offset: int, fields: _Fields) -> Fold:
        over, start, condition, step, result = (self.expr(fields[number][0]) for number in (2, 4, 5, 6, 7))
        names = _text(fields, 1), _text(fields, 8), _text(fields, 3)
        return Fold(offset, over, *names, start, condition, step, result)


def _constant(fields: _Fields) -> object:
    number, value = next(((number, found[0]) for number, found in fields.items()), (1, None))
    if number == 2:
        return bool(value)
    if number == 3:
        return value - (1 << 64) if value >= 1 << 63 else value
    if number == 4:
        return UInt(value)
    if number == 5:
        return struct.unpack("<d", value)[0]
    if number == 6:
        return value.decode("utf-8", "surrogatepass")
    return bytes(value) if number == 7 else None
