"""Encodes HTTP/1.1: the head of an answer, and the plain-text answers of the serving layer itself.

Pure functions. See also: `http1.connection`.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

__all__ = ["CONTINUE", "UnsendableHeader", "head", "refusal", "switch"]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
REASONS = {status.value: status.phrase for status in HTTPStatus}
FRAMING = frozenset(
    ("connection", "content-length", "date", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
)


class UnsendableHeader(ValueError):
    """A header of an answer contains a line break or other invalid characters."""


def head(status: int, headers: Iterable[tuple[str, str]], framing: str, date: str) -> bytes:
    """The head of an answer, in UTF-8.

    `framing` are the serving layer's own header lines, each ended by CRLF; connection and framing headers and the date
    in `headers` are left out. Raises `UnsendableHeader` for a header with a line break.
    """
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, '')}", f"date: {date}"]
    lines += [f"{name}: {value}" for name, value in headers if name not in FRAMING]
    text = "".join(lines)
    if "\n" in text or "\r" in text:
        raise UnsendableHeader("a header contains a line break")
    head = "\r\n".join(lines)
    return f"{head}\r\n{framing}\r\n".encode()


def switch(headers: Iterable[tuple[str, str]], date: str) -> bytes:
    """The head of a 101, to the protocol in the header ``upgrade``. Raises `UnsendableHeader`."""
    lines = list(headers)
    protocol = next((value for name, value in lines if name == "upgrade"), "")
    if not protocol or not protocol.isprintable():
        raise UnsendableHeader("a 101 says with upgrade what comes next")
    return head(101, lines, f"connection: Upgrade\r\nupgrade: {protocol}\r\n", date)


def refusal(status: int, detail: str, date: str) -> bytes:
    """A complete answer that ends the connection, for a request that never reached a handler."""
    text = f"{status} {REASONS[status]}" + (f": {detail}" if detail else "")
    body = text.encode("utf-8", "replace")
    return (
        f"HTTP/1.1 {status} {REASONS[status]}\r\ndate: {date}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    ).encode() + body
