"""OpenAPI v2 as protobuf, which older clients request as ``…spec.v2…``.

Field numbers are those of gnostic's public ``openapi.v2`` messages. See also: `wire`, for the encoding of values.
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

__all__ = ["parameters_v2", "paths_v2", "schemas_v2", "whole_v2"]


def _schema(number: int, tree: Any) -> bytes:
    return _any_schema(number, tree)


def _additional(number: int, value: Any) -> bytes:
    return tagged(number, boolean(2, value) if isinstance(value, bool) else _schema(1, value))


_SCHEMA: FieldTable = {
    "$ref": (1, text),
    "format": (2, text),
    "title": (3, text),
    "description": (4, text),
    "default": (5, anything),
    "multipleOf": (6, double),
    "maximum": (7, double),
    "exclusiveMaximum": (8, boolean),
    "minimum": (9, double),
    "exclusiveMinimum": (10, boolean),
    "maxLength": (11, integer),
    "minLength": (12, integer),
    "pattern": (13, text),
    "maxItems": (14, integer),
    "minItems": (15, integer),
    "uniqueItems": (16, boolean),
    "maxProperties": (17, integer),
    "minProperties": (18, integer),
    "required": (19, each(text)),
    "enum": (20, each(anything)),
    "additionalProperties": (21, _additional),
    "type": (22, wrapped(text, 1)),
    "items": (23, wrapped(_schema, 1)),
    "allOf": (24, each(_schema)),
    "properties": (25, named(_schema)),
    "readOnly": (27, boolean),
    "example": (30, anything),
}
_any_schema = message(lambda: _SCHEMA, 31)

_BODY: FieldTable = {
    "description": (1, text),
    "name": (2, text),
    "in": (3, text),
    "required": (4, boolean),
    "schema": (5, _schema),
}
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
_PARAMETERS = {
    "body": wrapped(message(lambda: _BODY, 6), 1),
    "query": wrapped(message(lambda: _QUERY, 23), 2, 3),
    "path": wrapped(message(lambda: _IN_PATH, 22), 2, 4),
}


def _parameter(number: int, tree: Any) -> bytes:
    """``Parameter``: one of three kinds, each with its own messages."""
    return _PARAMETERS[tree["in"]](number, tree)


def _parameter_item(number: int, tree: Any) -> bytes:
    """``ParametersItem``: 1 a parameter, 2 a reference to one."""
    reference = tree.get("$ref")
    return tagged(number, _parameter(1, tree) if reference is None else tagged(2, text(1, reference)))


_RESPONSE: FieldTable = {"description": (1, text), "schema": (2, wrapped(_schema, 1))}
_OPERATION: FieldTable = {
    "tags": (1, each(text)),
    "description": (3, text),
    "operationId": (5, text),
    "produces": (6, each(text)),
    "consumes": (7, each(text)),
    "parameters": (8, each(_parameter_item)),
    "responses": (9, named(wrapped(message(lambda: _RESPONSE, 5), 1))),
    "schemes": (10, each(text)),
}
_operation = message(lambda: _OPERATION, 13)
_PATH: FieldTable = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "patch": (8, _operation),
    "parameters": (9, each(_parameter_item)),
}
_INFO: FieldTable = {"title": (1, text), "version": (2, text)}


_path = message(lambda: _PATH, 10)


def paths_v2(paths: dict[str, Any]) -> Iterator[bytes]:
    """The content of ``Paths`` in an ``openapi.v2.Document``."""
    return members(_path, paths, 2)


def schemas_v2(definitions: dict[str, Any]) -> Iterator[bytes]:
    """The content of its ``Definitions``."""
    return members(_schema, definitions)


def parameters_v2(parameters: dict[str, Any]) -> bytes:
    """Its field with the parameters that operations refer to."""
    return named(_parameter)(10, parameters)


def whole_v2(info: dict[str, Any], paths: Sequence[bytes], schemas: Sequence[bytes]) -> list[bytes]:
    """The bytes of an ``openapi.v2.Document``, in pieces."""
    head = text(1, "2.0") + message(lambda: _INFO, 7)(2, info)
    return [head, *framed(8, paths), *framed(9, schemas)]
