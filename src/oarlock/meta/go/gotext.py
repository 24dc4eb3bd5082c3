"""Values printed as Go's ``%q`` and ``%v`` print them: Kubernetes' messages contain them.

Knows no errors. See also: `errors`, which uses it.
"""

from __future__ import annotations

import json
import re
from typing import Any

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


_END = "unexpected end of JSON input"
MAX_DEPTH = 10_000

_spaces = re.compile(rb"[ \t\r\n]*").match
_string = re.compile(rb'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*)*').match
_number = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").match
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_NUMBER_STARTS = frozenset(b"-0123456789")


class _Malformed(Exception):
    pass


def syntax_error(data: bytes) -> str:
    """Go's error message for `data`, or ``""`` when its syntax is valid JSON for Go. Linear in the size of `data`."""
    try:
        _Scanner(data).document()
    except _Malformed as error:
        return str(error)
    return ""


class _Scanner:
    """Scans the text once, with an explicit stack of open brackets."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def document(self) -> None:
        open_brackets = bytearray()
        while True:
            char = self.next("looking for beginning of value")
            if char in b"[{":
                if len(open_brackets) >= MAX_DEPTH:
                    raise self.invalid(self.position, "exceeded max depth")
                self.position += 1
                open_brackets.append(char)
                if not self.first(char):
                    continue
                open_brackets.pop()
            else:
                self.scalar(char)
            if not self.after_value(open_brackets):
                return

    def first(self, bracket: int) -> bool:
        """Skip the opening bracket, and the first key if there is one.

        Returns whether the container is closed already.
        """
        if bracket == ord("["):
            if self.next("looking for beginning of value") == ord("]"):
                self.position += 1
                return True
            return False
        if self.next("looking for beginning of object key string") == ord("}"):
            self.position += 1
            return True
        self.key()
        return False

    def after_value(self, open_brackets: bytearray) -> bool:
        """Skip commas and closing brackets up to the next value. Returns whether there is one."""
        while open_brackets:
            if open_brackets[-1] == ord("["):
                char = self.next("after array element", b",]")
                closed = char == ord("]")
            else:
                char = self.next("after object key:value pair", b",}")
                closed = char == ord("}")
            self.position += 1
            if not closed:
                if open_brackets[-1] == ord("{"):
                    self.key()
                return True
            open_brackets.pop()
        self.position = self.skipped()
        if self.position < len(self.data):
            raise self.invalid(self.position, "after top-level value")
        return False

    def skipped(self) -> int:
        match = _spaces(self.data, self.position)
        return match.end() if match else self.position

    def next(self, context: str, allowed: bytes = b"") -> int:
        """The next character that isn't a space; it must be in `allowed`, if given."""
        self.position = self.skipped()
        if self.position >= len(self.data):
            raise _Malformed(_END)
        char = self.data[self.position]
        if allowed and char not in allowed:
            raise self.invalid(self.position, context)
        return char

    def invalid(self, position: int, context: str) -> _Malformed:
        """The error message for the byte at `position`, or for the end of the input."""
        if position >= len(self.data):
            return _Malformed(_END)
        char = chr(self.data[position])
        text = {"'": "\\'", '"': '"'}.get(char) or quote(char)[1:-1]
        return _Malformed(f"invalid character '{text}' {context}")

    def key(self) -> None:
        self.next("looking for beginning of object key string", b'"')
        self.string()
        self.next("after object key", b":")
        self.position += 1

    def scalar(self, char: int) -> None:
        if char == ord('"'):
            self.string()
        elif char in _NUMBER_STARTS:
            self.number()
        elif char in _LITERALS:
            self.literal(_LITERALS[char])
        else:
            raise self.invalid(self.position, "looking for beginning of value")

    def literal(self, word: bytes) -> None:
        for i, expected in enumerate(word):
            at = self.position + i
            if at >= len(self.data) or self.data[at] != expected:
                raise self.invalid(at, f"in literal {word.decode()} (expecting '{chr(expected)}')")
        self.position += len(word)

    def string(self) -> None:
        match = _string(self.data, self.position)
        assert match is not None  # the caller has seen the opening quote
        end = match.end()
        if end < len(self.data) and self.data[end] == ord('"'):
            self.position = end + 1
            return
        if end >= len(self.data) or self.data[end] != ord("\\"):
            raise self.invalid(end, "in string literal")
        if self.data[end + 1 : end + 2] != b"u":
            raise self.invalid(end + 1, "in string escape code")
        at = end + 2
        while at < len(self.data) and chr(self.data[at]) in "0123456789abcdefABCDEF":
            at += 1
        raise self.invalid(at, "in \\u hexadecimal character escape")

    def number(self) -> None:
        match = _number(self.data, self.position)
        if match is None:
            raise self.invalid(self.position + 1, "in numeric literal")
        end = match.end()
        following = self.data[end : end + 1]
        text = match[0].lower()
        if following == b"." and b"." not in text and b"e" not in text:
            raise self.invalid(end + 1, "after decimal point in numeric literal")
        if following in (b"e", b"E") and b"e" not in text:
            signed = self.data[end + 1 : end + 2] in (b"+", b"-")
            raise self.invalid(end + 1 + signed, "in exponent of numeric literal")
        self.position = end
