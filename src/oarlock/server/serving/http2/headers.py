"""The rules for the fields of a request (RFC 9113 §8.2, §8.3).

See also: `http2.input`, which receives header blocks; `oarlock.http2.header_blocks`, which decodes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from oarlock.http2.header_blocks import HeaderFields
from oarlock.meta.memo import Memo
from oarlock.server.serving.header_names import LOWER_CASE
from oarlock.server.serving.known_heads import Http2Head

__all__ = [
    "FORBIDDEN",
    "NAME",
    "MalformedRequest",
    "RequestHead",
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
