"""Values printed as Go's ``%q`` and ``%v`` print them: Kubernetes' messages contain them.

Knows no errors. See also: `errors`, which uses it.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["html_escape", "plain", "quote", "show"]

_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def quote(text: str) -> str:
    """The text in double quotes with Go's escapes (``strconv.Quote``)."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(char: str) -> str:
    code = ord(char)
    if code in _ESCAPES:
        return _ESCAPES[code]
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def show(value: Any) -> str:
    """A value as field errors show it: strings quoted, scalars unquoted, the rest as compact JSON as Go writes it."""
    if isinstance(value, str):
        return quote(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def html_escape(text: str) -> str:
    """``&<>`` as HTML entities, as Kubernetes escapes the message of a 403 response."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain(value: Any, limit: int = 1024) -> str:
    """A tree as Go's ``%v`` prints it: ``map[a:1 b:[x y]]``. Cut to `limit` characters with ``...``."""
    parts: list[str] = []
    _plain(value, parts, limit)
    text = "".join(parts)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _plain(value: Any, parts: list[str], limit: int) -> int:
    """Append the text of a value; returns how many characters are left."""
    if limit <= 0:
        return 0
    if isinstance(value, dict):
        limit = _part("map[", parts, limit)
        for i, key in enumerate(sorted(value)):
            limit = _plain(value[key], parts, _part(f"{' ' if i else ''}{key}:", parts, limit))
            if limit <= 0:
                break
        return _part("]", parts, limit)
    if isinstance(value, list):
        limit = _part("[", parts, limit)
        for i, item in enumerate(value):
            limit = _plain(item, parts, _part(" ", parts, limit) if i else limit)
            if limit <= 0:
                break
        return _part("]", parts, limit)
    if value is None or isinstance(value, str):
        return _part("<nil>" if value is None else value, parts, limit)
    if isinstance(value, float):
        return _part(show(value), parts, limit)
    return _part(str(value).lower(), parts, limit)


def _part(text: str, parts: list[str], limit: int) -> int:
    parts.append(text)
    return limit - len(text)
