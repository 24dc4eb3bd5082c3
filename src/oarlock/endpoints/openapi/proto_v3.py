"""OpenAPI v3 as protobuf, which clients request as ``…spec.v3…``.

Field numbers are those of gnostic's public ``openapi.v3`` messages. See also: `wire`, for the encoding of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from oarlock.codec.protowire import tagged
from oarlock.endpoints.openapi.wire import (
    FieldTable,
    anything,
    boolean,
    double,
    each,
    framed,
    integer,
    members,
    message,
    named,
    text,
    wrapped,
)

__all__ = ["paths_v3", "schemas_v3", "whole_v3"]


def _schema(number: int, tree: Any) -> bytes:
    """``SchemaOrReference``: 1 a schema, 2 a reference."""
    reference = tree.get("$ref")
    if reference is not None:
        return tagged(number, tagged(2, text(1, reference)))
    return tagged(number, _bare_schema(1, tree))


def _additional(number: int, value: Any) -> bytes:
    return tagged(number, boolean(2, value) if isinstance(value, bool) else _schema(1, value))


def _default(number: int, value: Any) -> bytes:
    """A default value: the message has only scalars."""
    if isinstance(value, bool):
        return tagged(number, boolean(2, value))
    if isinstance(value, int | float):
        return tagged(number, double(1, value))
    return tagged(number, text(3, value)) if isinstance(value, str) else b""


_SCHEMA: FieldTable = {
    "nullable": (1, boolean),
    "readOnly": (3, boolean),
    "writeOnly": (4, boolean),
    "example": (7, anything),
    "deprecated": (8, boolean),
    "title": (9, text),
    "multipleOf": (10, double),
    "maximum": (11, double),
    "exclusiveMaximum": (12, boolean),
    "minimum": (13, double),
    "exclusiveMinimum": (14, boolean),
    "maxLength": (15, integer),
    "minLength": (16, integer),
    "pattern": (17, text),
    "maxItems": (18, integer),
    "minItems": (19, integer),
    "uniqueItems": (20, boolean),
    "maxProperties": (21, integer),
    "minProperties": (22, integer),
    "required": (23, each(text)),
    "enum": (24, each(anything)),
    "type": (25, text),
    "allOf": (26, each(_schema)),
    "oneOf": (27, each(_schema)),
    "anyOf": (28, each(_schema)),
    "items": (30, wrapped(_schema, 1)),
    "properties": (31, named(_schema)),
    "additionalProperties": (32, _additional),
    "default": (33, _default),
    "description": (34, text),
    "format": (35, text),
}
_bare_schema = message(lambda: _SCHEMA, 36)
_SCHEMA["not"] = (29, _bare_schema)

_content = named(message(lambda: {"schema": (1, _schema)}, 5))
_PARAMETER: FieldTable = {
    "name": (1, text),
    "in": (2, text),
    "description": (3, text),
    "required": (4, boolean),
    "schema": (10, _schema),
}
_parameters = each(wrapped(message(lambda: _PARAMETER, 14), 1))
_REQUEST_BODY: FieldTable = {"description": (1, text), "content": (2, _content), "required": (3, boolean)}
_RESPONSE: FieldTable = {"description": (1, text), "content": (3, _content)}
_response = wrapped(message(lambda: _RESPONSE, 5), 1)


def _responses(number: int, values: Any) -> bytes:
    """``default`` has a field of its own: clients parse every other name as a status code."""
    default = values.get("default")
    first = b"" if default is None else _response(1, default)
    coded = b"".join(
        [tagged(2, text(1, code) + _response(2, value)) for code, value in values.items() if code != "default"]
    )
    return tagged(number, first + coded)


_OPERATION: FieldTable = {
    "tags": (1, each(text)),
    "description": (3, text),
    "operationId": (5, text),
    "parameters": (6, _parameters),
    "requestBody": (7, wrapped(message(lambda: _REQUEST_BODY, 4), 1)),
    "responses": (8, _responses),
    "deprecated": (10, boolean),
}
_operation = message(lambda: _OPERATION, 13)
_PATH: FieldTable = {
    "get": (4, _operation),
    "put": (5, _operation),
    "post": (6, _operation),
    "delete": (7, _operation),
    "patch": (10, _operation),
    "parameters": (13, _parameters),
}
_INFO: FieldTable = {"title": (1, text), "version": (6, text)}


_path = message(lambda: _PATH, 14)


def paths_v3(paths: dict[str, Any]) -> Iterator[bytes]:
    """The content of ``Paths`` in an ``openapi.v3.Document``."""
    return members(_path, paths)


def schemas_v3(schemas: dict[str, Any]) -> Iterator[bytes]:
    """The content of the schemas in its ``Components``."""
    return members(_schema, schemas)


def whole_v3(info: dict[str, Any], paths: Sequence[bytes], schemas: Sequence[bytes]) -> list[bytes]:
    """The bytes of an ``openapi.v3.Document``, in pieces."""
    head = text(1, "3.0.0") + message(lambda: _INFO, 7)(2, info)
    return [head, *framed(4, paths), *framed(5, framed(1, schemas))]
