"""One element of a path to a field, as its text in FieldsV1.

``f:name`` is a field, ``k:{"name":"nginx"}`` the list item with these keys, ``v:"a"`` the member of a set,
``i:0`` the item at an index. Each element has exactly one text (`canonical` makes it), so elements are
compared and hashed as plain strings. A path is a tuple of elements.
Values are compared as server-side apply does: numbers by value whatever their type, and never bool with number.
Must not know: sets, schemas. See also: `fieldsets`.
Source: structured-merge-diff orders values number < string < boolean < list < map < null.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.go import gotext
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import same_json
from oarlock.patch.errors import FieldsError

_encode = msgspec.json.Encoder().encode


def equal(a: Any, b: Any) -> bool:
    """Whether these are the same JSON value. ``1`` and ``1.0`` are, ``1`` and ``true`` are not."""
    return a is b or (a == b and never_mixed(a, b))


def never_mixed(a: Any, b: Any) -> bool:
    """For values that are ``==``: whether that doesn't rest on Python's ``True == 1`` somewhere inside."""
    if type(a) is str:
        return True
    return _encode(a) == _encode(b) or same_json(a, b)  # equal bytes tell it cheaply


def value_order(value: Any) -> tuple[Any, ...]:
    """A sort key: a total order of all JSON values."""
    kind = type(value)
    if kind is int or kind is float:
        return (0, value)
    if kind is str:
        return (1, value)
    if kind is bool:
        return (2, value)
    if kind is list:
        return (3, tuple(map(value_order, value)))
    if kind is dict:
        return (4, tuple((key, value_order(value[key])) for key in sorted(value)))
    return (5,)


def value_text(value: Any) -> str:
    """A value as messages show it in paths: ``"nginx"``, ``80``, ``true``."""
    if type(value) is list:
        return f"[{','.join(map(value_text, value))}]"
    if type(value) is dict:
        return "".join(f"{key}={value_text(inner)}" for key, inner in value.items())
    return gotext.show(value)


ElementPath = tuple[str, ...]

_SHORT = 128
"""Texts of this many characters are not remembered, so that the memory of what is remembered has a bound."""

_REMEMBERED = 4096
_integer = re.compile(r"[+-]?[0-9]+").fullmatch


def field(name: str) -> str:
    """The field `name` of an object."""
    return "f:" + name


def index(position: int) -> str:
    """The item at `position` of a list."""
    return f"i:{position}"


def key(fields: Mapping[str, Any]) -> str:
    """The item of a list that has these key fields."""
    if len(fields) == 1:
        for name, only in fields.items():
            if type(only) is str and len(name) + len(only) < _SHORT:
                return _text_key(name, only)
    return "k:" + json.encode_canonical(dict(fields)).decode()


def value(item: Any) -> str:
    """The member `item` of a set."""
    if type(item) is str and len(item) < _SHORT:
        return _text_value(item)
    return "v:" + json.encode_canonical(item).decode()


@lru_cache(_REMEMBERED)
def _text_key(name: str, only: str) -> str:
    return "k:" + json.encode_canonical({name: only}).decode()


@lru_cache(_REMEMBERED)
def _text_value(item: str) -> str:
    return "v:" + json.encode_canonical(item).decode()


def canonical(path_element: str) -> str | None:
    """The canonical text of the element in `path_element`; None for an unknown kind of element.

    Raises FieldsError when it is malformed.
    """
    if path_element[:2] == "f:":
        return path_element
    return _canonical_short(path_element) if len(path_element) < _SHORT else _canonical(path_element)


def _canonical(path_element: str) -> str | None:
    kind, content = path_element[:2], path_element[2:]
    if len(kind) < 2:
        raise FieldsError("key must be 2 characters long:")
    if kind[1] != ":":
        raise FieldsError(f"missing colon: {path_element}")
    if kind == "i:":
        if not _integer(content) or len(content) > 18:
            raise FieldsError(f"not an index: {quote(content[:100])}")
        return index(int(content))
    if kind not in ("k:", "v:"):
        return None
    try:
        item = json.decode(content.encode(), whole_as_int=True)
    except (DecodeError, UnicodeEncodeError) as error:
        raise FieldsError(str(error)) from None
    if kind == "v:":
        return value(item)
    if type(item) is not dict and item is not None:
        raise FieldsError("the key of a list item is an object")
    return key(item or {})


_canonical_short = lru_cache(_REMEMBERED)(_canonical)


def order(element: str) -> tuple[Any, ...]:
    """A sort key: fields by name, then keys, values and indices, each by value."""
    kind, content = element[:2], element[2:]
    if kind == "f:":
        return (0, content)
    if kind == "i:":
        return (3, int(content))
    item = json.decode(content.encode())
    if kind == "k:":
        return (1, tuple((name, value_order(item[name])) for name in sorted(item)))
    return (2, value_order(item))


def text(element: str) -> str:
    """The element as messages show it: ``.spec``, ``[name="nginx"]``, ``[="a"]``, ``[0]``."""
    kind, content = element[:2], element[2:]
    if kind == "f:":
        return "." + content
    if kind == "i:":
        return f"[{content}]"
    item = json.decode(content.encode())
    if kind == "k:":
        return f"[{','.join(f'{name}={value_text(item[name])}' for name in sorted(item))}]"
    return f"[={value_text(item)}]"


_LONGEST = 1024
"""Characters of a path that are shown: its keys are a client's, and a thousand fields may be below one."""


def path_text(path: Iterable[str]) -> str:
    """``.spec.containers[name="nginx"].ports[containerPort=80,protocol="TCP"]``; cut after 1,024 characters."""
    result = ""
    for element in path:
        result += text(element if element[:2] != "f:" else element[: _LONGEST + 4])
        if len(result) > _LONGEST:
            return result[:_LONGEST] + "..."
    return result
