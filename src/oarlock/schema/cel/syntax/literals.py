"""Converts the text of a literal to its value.

Must not know: positions. See also: `parsing`, which reports the position of an error.
Source: cel-spec, "String and Bytes Values"; the messages are cel-go's.
"""

from __future__ import annotations

import math
import re

from oarlock.schema.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

_SIMPLE = {
    **dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)),
    **{char: char for char in "\\'\"`?"},
}
_ESCAPE = re.compile(r"\\(?:([0-3][0-7][0-7])|[xX](..)|(u....|U........)|(.))")


def int_value(text: str) -> int:
    """The value of ``12``, ``-12`` or ``0x1F``. ValueError beyond 64 bits."""
    value = _whole(text)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("invalid int literal")
    return value


def uint_value(text: str) -> UInt:
    """The value of ``12u`` or ``0x1Fu``. ValueError beyond 64 bits."""
    value = _whole(text[:-1])
    if value > UINT_MAX:
        raise ValueError("invalid uint literal")
    return UInt(value)


def _whole(text: str) -> int:
    """More digits than 64 bits need are out of range; this avoids converting very long ones."""
    digits = text.removeprefix("-")
    base = 16 if digits.startswith("0x") else 10
    digits = digits.removeprefix("0x").lstrip("0")
    value = int(digits or "0", base) if len(digits) <= 20 else UINT_MAX + 1
    return -value if text.startswith("-") else value


def double_value(text: str) -> float:
    """The value of ``1.5e3``. ValueError beyond the range of a double."""
    value = float(text)
    if math.isinf(value):
        raise ValueError("invalid double literal")
    return value


def _body(text: str) -> tuple[str, bool]:
    """The text between the quotes, and whether it is raw."""
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ("'''", '"""') else 1
    inside = text[quotes:-quotes]
    if "\r" in inside:
        inside = inside.replace("\r\n", "\n").replace("\r", "\n")
    return inside, raw or "\\" not in inside


def text_value(text: str) -> str:
    """The value of a string literal with its quotes. ValueError for an invalid escape."""
    inside, plain = _body(text)
    return inside if plain else _ESCAPE.sub(_character, inside)


def _character(match: re.Match[str]) -> str:
    octal, short, long, simple = match.groups()
    if simple is not None:
        return _SIMPLE[simple]
    point = int(octal, 8) if octal is not None else int(short if short is not None else long[1:], 16)
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(point)


def bytes_value(text: str) -> bytes:
    """The value of a bytes literal with its ``b`` and its quotes. ValueError for an invalid escape."""
    inside, plain = _body(text[1:])
    if plain:
        return inside.encode()
    result = bytearray()
    position = 0
    for match in _ESCAPE.finditer(inside):
        octal, short, long, simple = match.groups()
        if long is not None:
            raise ValueError("unable to unescape string")
        result += inside[position : match.start()].encode()
        if simple is not None:
            result += _SIMPLE[simple].encode()
        else:
            result.append(int(octal, 8) if octal is not None else int(short, 16))
        position = match.end()
    return bytes(result + inside[position:].encode())
