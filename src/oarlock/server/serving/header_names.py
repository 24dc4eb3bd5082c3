"""Names of request headers: a fixed table of common ones; any other is decoded each time.

The table is fixed, because a client could fill a cache with names of its own. See also: `http1.request`,
`http2.headers`.
"""

from __future__ import annotations

__all__ = ["ANY_CASE", "LOWER_CASE", "header_name"]

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
