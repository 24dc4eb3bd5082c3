"""Lays out Python expressions as ``ruff format`` does, so that what is generated needs no formatter.

An `Expression` that fits its line is written on it; otherwise each part gets a line and a comma behind it, which
formatters keep at any line length. Must not know: schemas.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oarlock.meta.dataclass import dataclass

WIDTH = 88
"""What formatters allow unless told otherwise; a project that allows more keeps what is here."""

INDENT = "    "

LONGEST_LINE = 120
"""A text that is longer is written in pieces: no formatter joins them."""

PIECE = 70


@dataclass(frozen=True, slots=True)
class Bracketed:
    """Something in brackets: ``Annotated[…]``, ``Rule(…)``, a list, a dict."""

    opening: str
    parts: Sequence[Expression]
    closing: str
    comma: bool = True
    """Whether a comma follows the last part where each has its line."""
    one_text: bool = False
    """The parts are one text, written in pieces."""


Expression = str | Bracketed | tuple[str, "Bracketed"]
"""A name or literal, something in brackets, or that with a name and ``=`` or ``:`` before it."""


def call(name: str, *parts: Expression, **named: Expression) -> Bracketed:
    """``name(part, key=part)``."""
    return Bracketed(f"{name}(", (*parts, *(_with_key(f"{key}=", part) for key, part in named.items())), ")")


def subscript(name: str, *parts: Expression) -> Bracketed:
    """``name[part, part]``."""
    return Bracketed(f"{name}[", parts, "]", comma=len(parts) > 1)


def _with_key(key: str, part: Expression) -> Expression:
    if isinstance(part, str):
        return key + part
    if isinstance(part, tuple):
        return (key + part[0], part[1])
    return (key, part)


def literal(value: Any) -> Expression:
    """JSON as Python writes it."""
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, Mapping):
        return Bracketed("{", [_with_key(f"{text_of(key)}: ", literal(item)) for key, item in value.items()], "}")
    if isinstance(value, list | tuple):
        return Bracketed("[", [literal(item) for item in value], "]")
    return repr(value)


def text_of(text: str) -> str:
    """A string literal with the quotes that a formatter would choose; raw where that saves backslashes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    if "\\" in text and text.isprintable() and quote not in text and not text.endswith("\\"):
        return f"r{quote}{text}{quote}"
    return _quoted(text, quote)


def _quoted(text: str, quote: str = "") -> str:
    quote = quote or ("'" if text.count('"') > text.count("'") else '"')
    return quote + "".join(_escaped(char, quote) for char in text) + quote


def long_text(name: str, text: str) -> Bracketed:
    """``name("text")``, in pieces if it is too long for any line."""
    if len(text) <= LONGEST_LINE:
        return call(name, text_of(text))
    pieces: list[str] = []
    for line in text.splitlines(keepends=True):
        words = re.findall(r"\S*\s*", line)
        piece = ""
        for word in words:
            if piece and len(piece) + len(word) > PIECE:
                pieces.append(piece)
                piece = ""
            piece += word
        pieces += [piece] if piece else []
    return Bracketed(f"{name}(", [_quoted(piece) for piece in pieces], ")", one_text=len(pieces) > 1)


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escaped(char: str, quote: str) -> str:
    if char == quote:
        return "\\" + char
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char.isprintable() else repr(char)[1:-1]


def statement(before: str, expression: Expression, after: str = "", depth: int = 0) -> Iterator[str]:
    """The lines of ``before expression after``, `depth` levels in."""
    key, bracket = expression if isinstance(expression, tuple) else ("", expression)
    start, flat = INDENT * depth + before + key, flat_of(bracket)
    if isinstance(bracket, str) or not bracket.parts or (len(start + flat + after) <= WIDTH and not bracket.one_text):
        yield start + flat + after
        return
    yield start + bracket.opening
    for i, part in enumerate(bracket.parts, 1):
        comma = i == len(bracket.parts) if bracket.one_text else bracket.comma
        yield from statement("", part, "," if comma else "", depth + 1)
    yield INDENT * depth + bracket.closing + after


def flat_of(expression: Expression) -> str:
    """The expression on one line."""
    if isinstance(expression, str):
        return expression
    if isinstance(expression, tuple):
        return expression[0] + flat_of(expression[1])
    return expression.opening + ", ".join(map(flat_of, expression.parts)) + expression.closing


def docstring(text: str, depth: int) -> Iterator[str] | None:
    """The lines of a docstring that says `text`; None if no docstring can say exactly that."""
    lines = text.split("\n")
    plain = all(char.isprintable() or char == "\n" for char in text) and "\\" not in text and '"""' not in text
    if not plain or inspect.cleandoc(text) != text or any(line != line.rstrip() for line in lines) or not text:
        return None
    if len(lines) == 1 and (text.endswith('"') or text.startswith('"')):
        return None
    if text.startswith('"'):
        return None
    return _docstring(lines, depth)


def _docstring(lines: Sequence[str], depth: int) -> Iterator[str]:
    indent = INDENT * depth
    if len(lines) == 1:
        yield f'{indent}"""{lines[0]}"""'
        return
    yield f'{indent}"""{lines[0]}'
    yield from textwrap.indent("\n".join(lines[1:]), indent).split("\n")
    yield f'{indent}"""'
