"""OpenAPI in protobuf, which clients request as ``…spec.v2…`` and ``…spec.v3…``: both versions by one table.

Documents are only written, with a few fixed message types, so a table and six small writers are enough. Field numbers
are those of gnostic's public ``openapi.v2`` and ``openapi.v3`` messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from oarlock.codec.protowire import tagged, varint

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


_Numbers = tuple[int, int]
"""The number of a field in version 2 and in version 3; 0 where it isn't there."""

_Fields = Mapping[str, tuple[_Numbers, FieldWriter]]

_SCALARS: _Fields = {
    "format": ((2, 35), text),
    "title": ((3, 9), text),
    "description": ((4, 34), text),
    "nullable": ((0, 1), boolean),
    "writeOnly": ((0, 4), boolean),
    "deprecated": ((0, 8), boolean),
    "multipleOf": ((6, 10), double),
    "maximum": ((7, 11), double),
    "exclusiveMaximum": ((8, 12), boolean),
    "minimum": ((9, 13), double),
    "exclusiveMinimum": ((10, 14), boolean),
    "maxLength": ((11, 15), integer),
    "minLength": ((12, 16), integer),
    "pattern": ((13, 17), text),
    "maxItems": ((14, 18), integer),
    "minItems": ((15, 19), integer),
    "uniqueItems": ((16, 20), boolean),
    "maxProperties": ((17, 21), integer),
    "minProperties": ((18, 22), integer),
    "required": ((19, 23), each(text)),
    "enum": ((20, 24), each(anything)),
    "readOnly": ((27, 3), boolean),
    "example": ((30, 7), anything),
}
"""Fields of schemas that are written alike in both versions."""

_COMMON: FieldTable = {"required": (1, boolean), "in": (2, text), "description": (3, text), "name": (4, text)}
_QUERY: FieldTable = {
    **_COMMON,
    "type": (6, text),
    "format": (7, text),
    "items": (8, message(lambda: {"type": (1, text)}, 18)),
    "collectionFormat": (9, text),
    "uniqueItems": (20, boolean),
}
_IN_PATH: FieldTable = {**_COMMON, "type": (5, text), "format": (6, text), "uniqueItems": (19, boolean)}
_query = wrapped(message(lambda: _QUERY, 23), 2, 3)
_in_path = wrapped(message(lambda: _IN_PATH, 22), 2, 4)


class OpenAPIMessages:
    """Writes the parts of a document of OpenAPI 2 or 3."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._column = version - 2
        several = each(self._schema)
        fields: _Fields = {
            **_SCALARS,
            "$ref": ((1, 0), text),
            "default": ((5, 33), anything if version == 2 else _default),
            "additionalProperties": ((21, 32), self._additional),
            "type": ((22, 25), wrapped(text, 1) if version == 2 else text),
            "items": ((23, 30), wrapped(self._schema, 1)),
            "allOf": ((24, 26), several),
            "properties": ((25, 31), named(self._schema)),
            "oneOf": ((0, 27), several),
            "anyOf": ((0, 28), several),
            "not": ((0, 29), self._inline_schema),
        }
        self._schema_message = self._message(fields, (31, 36))
        self._parameter = self._parameter_message()
        self._path = self._path_message()

    def paths(self, paths: Mapping[str, Any]) -> Iterator[bytes]:
        """The content of the ``Paths`` of a document."""
        return members(self._path, paths, 2 if self._version == 2 else 1)

    def schemas(self, schemas: Mapping[str, Any]) -> Iterator[bytes]:
        """The content of the ``Definitions`` of version 2, of the schemas in the ``Components`` of version 3."""
        return members(self._schema, schemas)

    def parameters(self, parameters: Mapping[str, Any]) -> bytes:
        """The field of a document of version 2 with the parameters that operations refer to."""
        return named(self._parameter)(10, parameters)

    def whole(self, info: Mapping[str, Any], paths: Sequence[bytes], schemas: Sequence[bytes]) -> list[bytes]:
        """The bytes of a ``Document``, in pieces."""
        about = self._message({"title": ((1, 1), text), "version": ((2, 6), text)}, (7, 7))(2, info)
        if self._version == 2:
            return [text(1, "2.0") + about, *framed(8, paths), *framed(9, schemas)]
        return [text(1, "3.0.0") + about, *framed(4, paths), *framed(5, framed(1, schemas))]

    def _message(self, fields: _Fields, extensions: _Numbers) -> FieldWriter:
        numbered = {
            name: (numbers[self._column], writer) for name, (numbers, writer) in fields.items() if numbers[self._column]
        }
        return message(lambda: numbered, extensions[self._column])

    def _inline_schema(self, number: int, tree: Any) -> bytes:
        return self._schema_message(number, tree)

    def _schema(self, number: int, tree: Any) -> bytes:
        """A schema; of version 3 a ``SchemaOrReference``: 1 a schema, 2 a reference."""
        if self._version == 2:
            return self._schema_message(number, tree)
        reference = tree.get("$ref")
        return tagged(number, self._schema_message(1, tree) if reference is None else tagged(2, text(1, reference)))

    def _additional(self, number: int, value: Any) -> bytes:
        return tagged(number, boolean(2, value) if isinstance(value, bool) else self._schema(1, value))

    def _path_message(self) -> FieldWriter:
        media = named(self._message({"schema": ((0, 1), self._schema)}, (0, 5)))
        body = self._message(
            {"description": ((0, 1), text), "content": ((0, 2), media), "required": ((0, 3), boolean)}, (0, 4)
        )
        parameters = each(self._parameter_item)
        response = wrapped(
            self._message(
                {
                    "description": ((1, 1), text),
                    "schema": ((2, 0), wrapped(self._schema, 1)),
                    "content": ((0, 3), media),
                },
                (5, 5),
            ),
            1,
        )
        operation = self._message(
            {
                "tags": ((1, 1), each(text)),
                "description": ((3, 3), text),
                "operationId": ((5, 5), text),
                "produces": ((6, 0), each(text)),
                "consumes": ((7, 0), each(text)),
                "parameters": ((8, 6), parameters),
                "requestBody": ((0, 7), wrapped(body, 1)),
                "responses": ((9, 8), named(response) if self._version == 2 else _responses(response)),
                "schemes": ((10, 0), each(text)),
                "deprecated": ((0, 10), boolean),
            },
            (13, 13),
        )
        verbs = {"get": (2, 4), "put": (3, 5), "post": (4, 6), "delete": (5, 7), "patch": (8, 10)}
        fields: _Fields = {verb: (numbers, operation) for verb, numbers in verbs.items()}
        return self._message({**fields, "parameters": ((9, 13), parameters)}, (10, 14))

    def _parameter_message(self) -> FieldWriter:
        """A ``Parameter``: in version 2 one of three kinds, each with its own messages."""
        described = self._message(
            {
                "name": ((2, 1), text),
                "in": ((3, 2), text),
                "description": ((1, 3), text),
                "required": ((4, 4), boolean),
                "schema": ((5, 10), self._schema),
            },
            (6, 14),
        )
        if self._version == 3:
            return described
        kinds = {"body": wrapped(described, 1), "query": _query, "path": _in_path}
        return lambda number, tree: kinds[tree["in"]](number, tree)

    def _parameter_item(self, number: int, tree: Any) -> bytes:
        """A parameter of an operation or path: 1 a parameter, 2 a reference to one."""
        reference = tree.get("$ref")
        return tagged(number, self._parameter(1, tree) if reference is None else tagged(2, text(1, reference)))


def _default(number: int, value: Any) -> bytes:
    """A default value of version 3: the message has only scalars."""
    if isinstance(value, bool):
        return tagged(number, boolean(2, value))
    if isinstance(value, int | float):
        return tagged(number, double(1, value))
    return tagged(number, text(3, value)) if isinstance(value, str) else b""


def _responses(response: FieldWriter) -> FieldWriter:
    """Those of version 3: ``default`` has a field of its own, since clients parse every other name as a status code."""

    def write(number: int, values: Any) -> bytes:
        default = values.get("default")
        first = b"" if default is None else response(1, default)
        coded = b"".join(
            [tagged(2, text(1, code) + response(2, value)) for code, value in values.items() if code != "default"]
        )
        return tagged(number, first + coded)

    return write


OPENAPI_V2, OPENAPI_V3 = OpenAPIMessages(2), OpenAPIMessages(3)
