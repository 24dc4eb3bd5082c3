"""`AnswerBlocks`: encodes the header blocks of answers (RFC 7541), without a dynamic table.

So a block depends on nothing that was sent before, and every connection of a listener shares what is remembered: of
each header the value it had last, encoded. Most headers have the same value in every answer. See also: `http2.output`.
"""

from __future__ import annotations

from collections.abc import Sequence

from oarlock.server.serving.http2.headers import FORBIDDEN, NAME

__all__ = ["TABLE_IS_EMPTY", "AnswerBlocks"]

TABLE_IS_EMPTY = b"\x20"
"""Begins a block: the dynamic table has no room from here on (RFC 7541 §6.3)."""
MOST_NAMES = 128
MOST_BYTES = 1024
"""Of a value that is remembered."""

# Indices of the static table (RFC 7541, appendix A).
STATUS = {200: b"\x88", 204: b"\x89", 206: b"\x8a", 304: b"\x8b", 400: b"\x8c", 404: b"\x8d", 500: b"\x8e"}
NAMES = {
    "accept-ranges": 18,
    "age": 21,
    "allow": 22,
    "cache-control": 24,
    "content-encoding": 26,
    "content-length": 28,
    "content-type": 31,
    "date": 33,
    "etag": 34,
    "expires": 36,
    "last-modified": 44,
    "link": 45,
    "location": 46,
    "retry-after": 53,
    "server": 54,
    "set-cookie": 55,
    "strict-transport-security": 56,
    "vary": 59,
    "www-authenticate": 61,
}


def _integer(value: int, bits: int) -> bytes:
    """`value` with a prefix of so many bits, those before it 0 (RFC 7541 §5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((value,))
    value -= most
    encoded = bytearray((most,))
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


LENGTHS = [_integer(length, 7) for length in range(256)]


def _string(raw: bytes) -> bytes:
    size = len(raw)
    return (LENGTHS[size] if size < len(LENGTHS) else _integer(size, 7)) + raw


CONTENT_LENGTH = _integer(NAMES["content-length"], 4)
DATE = _integer(NAMES["date"], 4)


class AnswerBlocks:
    """Encodes the blocks of one listener's answers."""

    __slots__ = ("_date", "_date_field", "_names", "_values", "asked_to_close")

    def __init__(self) -> None:
        self._names: dict[str, bytes] = {}
        self._values: dict[str, tuple[str, bytes]] = {}  # by name: the last value, and both encoded
        self._date = ""
        self._date_field = b""
        self.asked_to_close = False
        """Whether the block encoded last had ``connection: close``."""

    def encode(self, status: int, headers: Sequence[tuple[str, str]], date: str, length: int | None) -> bytes:
        """The header block of an answer. Raises ValueError for an invalid header.

        Connection and framing headers and the date are left out of `headers`.
        """
        self.asked_to_close = False
        if date != self._date:
            self._date_field = DATE + _string(date.encode())
            self._date = date
        parts = [STATUS.get(status) or b"\x08\x03%d" % status, self._date_field]
        values = self._values
        for name, value in headers:
            known = values.get(name)
            parts.append(known[1] if known is not None and known[0] == value else self._field(name, value))
        if length is not None:
            parts.append(CONTENT_LENGTH + _string(b"%d" % length))
        return b"".join(parts)

    @staticmethod
    def encode_continue() -> bytes:
        """The header block of a 100."""
        return b"\x08\x03100"

    def _field(self, name: str, value: str) -> bytes:
        if "\n" in value or "\r" in value or "\0" in value:
            raise ValueError("a header contains a line break")
        if name == "connection" and value.lower() == "close":
            self.asked_to_close = True
            return b""
        before = self._names.get(name)
        if before is None:
            before = self._name(name)
        field = before + _string(value.encode()) if before else b""
        if len(field) <= MOST_BYTES and name in self._names:
            self._values[name] = (value, field)
        return field

    def _name(self, name: str) -> bytes:
        """What is before the value of such a header; nothing if it is left out."""
        lower = name.lower()
        if lower in FORBIDDEN or lower in ("date", "content-length"):
            before = b""
        else:
            raw = lower.encode()
            if NAME.fullmatch(raw) is None:
                raise ValueError(f"{name!r} can't be the name of a header")
            before = _integer(NAMES[lower], 4) if lower in NAMES else b"\0" + _string(raw)
        if len(self._names) < MOST_NAMES and len(before) <= MOST_BYTES:
            self._names[name] = before
        return before
