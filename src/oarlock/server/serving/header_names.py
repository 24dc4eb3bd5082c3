"""Request headers that are decoded once: common names, and the heads of requests that came before.

The table of names is fixed, because a client could fill a cache with names of its own. Most clients send the same
headers with every request, and only the path changes: a head is known by all its bytes beside the path, so what is
remembered is exactly what taking it apart again would give.
Must not know: HTTP/1, HTTP/2. See also: `http1.input`, `http2.heads`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.memo import Memo

__all__ = ["ANY_CASE", "FIELD_BYTES", "LOWER_CASE", "Http1Head", "Http2Head", "header_name", "known_heads"]

_USUAL = (
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "audit-id",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "dnt",
    "expect",
    "forwarded",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "impersonate-group",
    "impersonate-uid",
    "impersonate-user",
    "keep-alive",
    "kubectl-command",
    "kubectl-session",
    "origin",
    "pragma",
    "priority",
    "proxy-connection",
    "range",
    "referer",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-uri",
    "x-real-ip",
    "x-remote-group",
    "x-remote-user",
    "x-request-id",
    "x-stream-protocol-version",
)

LOWER_CASE = {name.encode(): name for name in _USUAL}
"""As in HTTP/2."""

ANY_CASE = LOWER_CASE | {name.title().encode(): name for name in _USUAL}
"""As most clients send them in HTTP/1.1; for others there is `header_name`."""


def header_name(raw: bytes) -> str:
    """The name of a header in lower case."""
    return ANY_CASE.get(raw) or raw.decode("latin-1").lower()


FIELD_BYTES = 32
"""What a field counts besides its name and value (RFC 9113 §6.5.2)."""


@dataclass(frozen=True, slots=True)
class Http1Head:
    """Headers of a request with the length of its body, 0 for none. Never changed, so headers are copied."""

    headers: dict[str, str]
    lines: Sequence[tuple[str, str]]
    length: int


@dataclass(frozen=True, slots=True)
class Http2Head:
    """Method and headers of a request; `pseudo` is the number of its pseudo-headers without ``:path``."""

    method: str
    headers: dict[str, str]
    lines: Sequence[tuple[str, str]]
    pseudo: int


def known_heads() -> Memo[Any, Any]:
    """The memory for the heads of one protocol, of all connections of a listener.

    A client that sends ever new heads costs others a parse now and then, nothing more.
    """
    heads: Memo[Any, Any] = Memo(1024 * 1024, entry_bytes=1024, per_byte=8, longest_bytes=4096)
    return heads
