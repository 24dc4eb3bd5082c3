"""The ``fieldPath`` of a rule: the field that its error is reported for.

``.a['b.c'].d`` relative to the rule; every step must be a field or a key in the schema. No list items.
See also: `rules`. Source: CustomResourceDefinition x-kubernetes-validations fieldPath.
"""

from __future__ import annotations

import re

from oarlock.schema.structural.nodes import Node


class FieldPathError(ValueError):
    """The path is malformed or isn't in the schema; the message is that of Kubernetes."""


_token = re.compile(r"'(?:[^\\']|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"'}
_escape = re.compile(r"\\(.)", re.DOTALL)
_NOWHERE = "does not refer to a valid field"


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise FieldPathError("invalid string literal: invalid syntax")
        return _ESCAPES[match[1]]

    return _escape.sub(one, text)


def _quoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {token}")
    return _unescaped(token[1:-1])


def normalized(path: str, node: Node) -> str:
    """The path as field errors show it: ``a.b.c``, ``labels[app]``. FieldPathError when it isn't in the schema."""
    tokens = iter(_token.findall(path))
    result = ""
    here: Node | None = node
    for token in tokens:
        if token not in (".", "["):
            raise FieldPathError(f"expected [ or . but got: {token}")
        name = next(tokens, None)
        if name is None:
            raise FieldPathError("unexpected end of JSON path")
        if token == "[":
            name = _quoted(name)
        result, here = _step(result, here, name)
        if token == "[":
            closing = next(tokens, None)
            if closing is None:
                raise FieldPathError("unexpected end of JSON path")
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
    return result


def _step(path: str, here: Node | None, name: str) -> tuple[str, Node]:
    if here is not None and here.properties:
        if name not in here.properties:
            raise FieldPathError(_NOWHERE)
        return (f"{path}.{name}" if path else name), here.properties[name]
    if here is None or not isinstance(here.additional, Node):
        raise FieldPathError(_NOWHERE)
    return f"{path}[{name}]", here.additional
