"""Writes values into the text of a statement, as bytes: the driver sends texts only.

Two rules make it safe, and `connection` sees to both. The session's ``sql_mode`` has no NO_BACKSLASH_ESCAPES, so a
backslash escapes; and its character set is UTF-8, in which no byte of a longer character is a quote or a backslash
(in GBK or Shift-JIS some are). `probe` asks the server whether it reads all bytes as they were meant.

Must not know: connections, tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

__all__ = ["PROBE", "literal", "probe", "render", "size_of"]

PROBE = bytes(range(256)) + "\u0800é\U0001f600".encode() + b"\\'\"\0\x1a\xbf\\\xbf'"
"""Every byte, and what character sets and escapes have been confused by."""


def literal(value: object) -> bytes:
    """`value` as a literal of SQL. Text is written as its bytes in UTF-8, as the tables have it."""
    if type(value) is int:
        return b"%d" % value
    if type(value) is str:
        value = value.encode()
    if type(value) is bytes:
        return b"_binary'" + value.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
    if value is None:
        return b"NULL"
    if isinstance(value, int):
        return b"%d" % int(value)
    raise TypeError(f"no literal for a value of type {type(value).__name__}")


def size_of(value: object) -> int:
    """How many bytes the literal has at most."""
    if type(value) is bytes:
        return 2 * len(value) + 16
    if type(value) is str:
        return 8 * len(value) + 16
    return 24


def render(text: str, values: Sequence[object] = ()) -> bytes:
    """`text` with a literal in the place of each ``?``."""
    pieces = _pieces(text)
    if len(pieces) != len(values) + 1:
        raise TypeError(f"{len(values)} values for {len(pieces) - 1} placeholders")
    parts: list[bytes] = [b""] * (2 * len(values) + 1)
    parts[::2] = pieces
    parts[1::2] = [literal(value) for value in values]
    return b"".join(parts)


def probe() -> bytes:
    """A query whose one value is the hexadecimal form of `PROBE`, if the server reads literals as they are meant."""
    return b"SELECT HEX(" + literal(PROBE) + b")"


@lru_cache(maxsize=1024)
def _pieces(text: str) -> list[bytes]:
    return text.encode().split(b"?")
