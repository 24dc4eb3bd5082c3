"""Header blocks of HTTP/2: requests' are checked and decoded (`ReceivedBlocks`), answers' are encoded (`AnswerBlocks`).

Clients say the same request in the same bytes, as long as HPACK's dynamic table stays as it is: such a block is decoded
and checked once. Answers are encoded without a dynamic table, so that a block depends on nothing that was sent before,
and every connection of a listener shares what is remembered: of each header the value it had last, encoded. Source: RFC
9113 §8.2, §8.3; RFC 7541. See also: `http2.input`, `http2.output`; `oarlock.http2.header_blocks`, which decodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from oarlock.http2.header_blocks import BlockDecoder, HeaderFields
from oarlock.meta.memo import Memo
from oarlock.server.serving.header_names import LOWER_CASE, Http2Head

__all__ = [
    "FORBIDDEN",
    "NAME",
    "TABLE_IS_EMPTY",
    "AnswerBlocks",
    "MalformedRequest",
    "ReceivedBlock",
    "ReceivedBlocks",
    "RequestHead",
    "StreamHead",
    "check_trailers",
    "known_request_head",
    "request_head",
]

FORBIDDEN = frozenset(("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"))

NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")

METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")

TARGET = re.compile(rb"\*|/[!-~]*")

PSEUDO = frozenset((b":method", b":scheme", b":authority", b":path"))

RequestHead = tuple[str, str, dict[str, str], Sequence[tuple[str, str]]]
"""Method, target, first value of each header, and all headers in order."""


class MalformedRequest(Exception):
    """RFC 9113 §8.1.1: the stream is reset with PROTOCOL_ERROR."""


def known_request_head(fields: HeaderFields, size: int, known: Memo[HeaderFields, Http2Head]) -> RequestHead:
    """`request_head`, taken apart only if no request came before with the same fields besides ``:path``.

    `size` is that of the fields in bytes.
    """
    at = next((at for at, field in enumerate(fields) if field[0] == b":path"), len(fields))
    others = (*fields[:at], *fields[at + 1 :])
    head = known.get(others)
    if head is not None and at <= head.pseudo and at < len(fields):
        path = fields[at][1]
        if TARGET.fullmatch(path) is not None:
            return head.method, path.decode("latin-1"), head.headers.copy(), head.lines
    method, target, headers, lines = request_head(fields)
    pseudo = sum(name in PSEUDO for name, _, _ in others)
    known.put(others, Http2Head(method, headers.copy(), lines, pseudo), size)
    return method, target, headers, lines


def request_head(fields: HeaderFields) -> RequestHead:
    """The head of a request, from its decoded fields.

    ``:authority`` becomes ``host``; several cookies are joined to one, at the end (§8.2.3). Raises `MalformedRequest`
    (§8.2, §8.3).
    """
    pseudo: dict[bytes, bytes] = {}
    for name, value, _ in fields:
        if name not in PSEUDO:
            break  # other pseudo-headers, and repeated ones, are invalid header names below
        pseudo[name] = value
    _check_values([value for _, value, _ in fields])
    method, path = pseudo.get(b":method"), pseudo.get(b":path")
    if not method or not path or not pseudo.get(b":scheme"):
        raise MalformedRequest("missing pseudo-header")
    if METHOD.fullmatch(method) is None or TARGET.fullmatch(path) is None:
        raise MalformedRequest("method or path")
    lines = [(LOWER_CASE.get(name) or _name(name), value.decode("latin-1")) for name, value, _ in fields[len(pseudo) :]]
    first = dict(reversed(lines))
    if "te" in first and any(name == "te" and value != "trailers" for name, value in lines):
        raise MalformedRequest("connection-specific header")
    if not FORBIDDEN.isdisjoint(first):
        raise MalformedRequest("connection-specific header")
    authority = pseudo.get(b":authority")
    if authority is not None:
        host = authority.decode("latin-1")
        if "host" in first:
            if any(name == "host" and value != host for name, value in lines):
                raise MalformedRequest("two hosts")
            lines = [line for line in lines if line[0] != "host"]
        lines.insert(0, ("host", host))
        first["host"] = host
    elif "host" not in first:
        raise MalformedRequest("no authority")
    elif [name for name, _ in lines].count("host") > 1:
        lines = _one_host(lines, first["host"])
    if "cookie" in first:
        first["cookie"] = cookie = "; ".join([value for name, value in lines if name == "cookie"])
        lines = [line for line in lines if line[0] != "cookie"]
        lines.append(("cookie", cookie))
    return method.decode("latin-1"), path.decode("latin-1"), first, lines


def check_trailers(fields: HeaderFields) -> None:
    """Raise `MalformedRequest` for a trailer section that RFC 9113 forbids (§8.1, §8.2)."""
    _check_values([value for _, value, _ in fields])
    for name, _, _ in fields:
        if _name(name) in FORBIDDEN:
            raise MalformedRequest("connection-specific header")


def _check_values(values: list[bytes]) -> None:
    """No NUL, CR or LF in a value, and no space around it.

    All are looked at together, for substrings: ten times as fast as a pattern.
    """
    joined = b"\n%b\n" % b"\n".join(values)
    if joined.count(b"\n") != len(values) + 1 or b"\r" in joined or b"\0" in joined:
        raise MalformedRequest("line break in a value")
    if b"\n " in joined or b" \n" in joined or b"\n\t" in joined or b"\t\n" in joined:
        raise MalformedRequest("space around a value")


def _one_host(lines: list[tuple[str, str]], host: str) -> list[tuple[str, str]]:
    """Several equal ``host`` headers count as one."""
    if any(name == "host" and value != host for name, value in lines):
        raise MalformedRequest("two hosts")
    position = [name for name, _ in lines].index("host")
    return [line for at, line in enumerate(lines) if at == position or line[0] != "host"]


def _name(name: bytes) -> str:
    if NAME.fullmatch(name) is None:
        raise MalformedRequest("header name")
    return name.decode("ascii")


REMEMBERED_BYTES = 16 * 1024
"""Of memory for one connection."""

FIELD_MEMORY = 320
"""Bytes of memory for a field, besides its name and value."""

LENGTH_DIGITS = 19


class StreamHead:
    """The head of a request. `headers` is to be copied for each request, since filters remove headers."""

    __slots__ = ("expects", "headers", "length", "lines", "method", "path", "query")

    def __init__(self, fields: HeaderFields, size: int, known: Memo[HeaderFields, Http2Head]) -> None:
        """Raises `MalformedRequest`."""
        self.method, target, self.headers, self.lines = known_request_head(fields, size, known)
        self.path, _, self.query = target.partition("?")
        self.length: int | None = None  # as announced
        if "content-length" in self.headers:
            declared = self.headers["content-length"]
            if not (declared.isascii() and declared.isdigit() and len(declared) <= LENGTH_DIGITS):
                raise MalformedRequest("content-length")
            self.length = int(declared)
        self.expects = self.headers.get("expect", "").lower() == "100-continue"


class ReceivedBlock:
    """The unchecked fields of a header block, and their `size` as RFC 9113 counts it."""

    __slots__ = ("_head", "fields", "size")

    def __init__(self, fields: HeaderFields, size: int) -> None:
        self.fields = fields
        self.size = size
        self._head: StreamHead | None = None

    def head(self, known: Memo[HeaderFields, Http2Head]) -> StreamHead:
        """The fields as the head of a request, made once. Raises `MalformedRequest`."""
        head = self._head
        if head is None:
            head = self._head = StreamHead(self.fields, self.size, known)
        return head


class ReceivedBlocks:
    """Decodes blocks of at most `most_bytes` and `most_fields`.

    What is remembered is forgotten when a block changes the dynamic table: the same bytes may then say something else.
    """

    __slots__ = ("_decoder", "_remembered")

    def __init__(self, most_bytes: int, most_fields: int) -> None:
        self._decoder = BlockDecoder(most_bytes, most_fields)
        self._remembered: Memo[bytes, ReceivedBlock] = Memo(
            REMEMBERED_BYTES, entry_bytes=512, longest_bytes=REMEMBERED_BYTES // 2
        )

    def decode(self, data: bytes) -> ReceivedBlock:
        """The block `data`. Raises `Http2Error`."""
        found = self._remembered.get(data)
        if found is not None:
            return found
        fields, size = self._decoder.decode(data)
        block = ReceivedBlock(fields, size)
        if not self._decoder.changed_table:
            self._remembered.put(data, block, len(data) + 2 * size + FIELD_MEMORY * len(fields))
        elif self._remembered.held_bytes:
            self._remembered.drop(lambda block: True)
        return block


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
