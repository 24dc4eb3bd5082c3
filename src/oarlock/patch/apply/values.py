"""Compares JSON values as server-side apply does: numbers by value whatever their type, and never bool with number.

Must not know: schemas, paths. See also: `elements`.
Source: structured-merge-diff orders values number < string < boolean < list < map < null.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oarlock.meta.go import gotext

_encode = msgspec.json.Encoder().encode


def equal(a: Any, b: Any) -> bool:
    """Whether these are the same JSON value. ``1`` and ``1.0`` are, ``1`` and ``true`` are not."""
    return a is b or (a == b and never_mixed(a, b))


def never_mixed(a: Any, b: Any) -> bool:
    """For values that are ``==``: whether that doesn't rest on Python's ``True == 1`` somewhere inside."""
    if type(a) is str:
        return True
    return _encode(a) == _encode(b) or _equal(a, b)  # equal bytes tell it cheaply


def _equal(a: Any, b: Any) -> bool:
    if type(a) is dict:
        return type(b) is dict and a.keys() == b.keys() and all(_equal(value, b[key]) for key, value in a.items())
    if type(a) is list:
        return type(b) is list and len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b) and (type(a) is bool) == (type(b) is bool)


def order(value: Any) -> tuple[Any, ...]:
    """A sort key: a total order of all JSON values."""
    kind = type(value)
    if kind is int or kind is float:
        return (0, value)
    if kind is str:
        return (1, value)
    if kind is bool:
        return (2, value)
    if kind is list:
        return (3, tuple(map(order, value)))
    if kind is dict:
        return (4, tuple((key, order(value[key])) for key in sorted(value)))
    return (5,)


def text(value: Any) -> str:
    """A value as messages show it in paths: ``"nginx"``, ``80``, ``true``."""
    if type(value) is list:
        return f"[{','.join(map(text, value))}]"
    if type(value) is dict:
        return "".join(f"{key}={text(inner)}" for key, inner in value.items())
    return gotext.show(value)
