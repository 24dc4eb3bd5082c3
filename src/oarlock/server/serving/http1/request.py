"""`QueuedRequest` and `queued_request`: a request from the headers of an HTTP/1 message.

See also: `http1.connection`.
"""

from __future__ import annotations

from collections.abc import Sequence

from httptools import HttpRequestParser

from oarlock.endpoints.http import Request
from oarlock.meta.peer import Peer
from oarlock.server.serving.header_names import ANY_CASE, header_name
from oarlock.server.serving.request_body import RequestBody, no_body

__all__ = ["QueuedRequest", "queued_request"]


class QueuedRequest:
    """One request of a pipeline, and how it is to be answered."""

    __slots__ = (
        "body",
        "close",
        "continued",
        "expects",
        "head_only",
        "is_http10",
        "refusal",
        "request",
        "skip_limit",
        "upgrade",
    )

    def __init__(self, request: Request | None, refusal: tuple[int, str] | None = None) -> None:
        self.request = request
        self.refusal = refusal
        self.body: RequestBody | None = None
        self.close = refusal is not None
        self.expects = False  # the client waits for "100 Continue"
        self.continued = False
        self.head_only = False
        self.is_http10 = False
        self.upgrade = False
        self.skip_limit: int | None = None  # answered; how much of its body is still to be skipped


def queued_request(
    parser: HttpRequestParser,
    raw_method: bytes,
    url: bytes,
    raw: Sequence[tuple[bytes, bytes]],
    peer: Peer,
    now: float,
) -> QueuedRequest | tuple[int, str]:
    """The request for the headers `raw`, without its body; or status and reason of a refusal."""
    lines = [(ANY_CASE.get(name) or header_name(name), value.decode("latin-1").strip(" \t")) for name, value in raw]
    headers = dict(reversed(lines))  # the first value of each name
    version = parser.get_http_version()
    if version != "1.1":
        if version != "1.0":
            return 505, "unsupported protocol version"
        if "transfer-encoding" in headers:
            return 400, "Transfer-Encoding needs HTTP/1.1"
        if "upgrade" in headers:  # to be ignored in HTTP/1.0 (RFC 9110 §7.8)
            del headers["upgrade"]
            lines = [line for line in lines if line[0] != "upgrade"]
    elif "host" not in headers:
        return 400, "missing required Host header"
    if len(lines) != len(headers) and sum(name == "host" for name, _ in lines) > 1:
        return 400, "too many Host headers"
    method = raw_method.decode("ascii")
    target = _target(url.decode("latin-1"))
    if target is None:
        return (405, "CONNECT") if method == "CONNECT" else (400, "malformed request target")
    path, _, query = target.partition("?")
    queued = QueuedRequest(Request(method, path, query, headers, lines, peer, no_body, now))
    queued.head_only = method == "HEAD"
    queued.is_http10 = version != "1.1"
    queued.close = not parser.should_keep_alive()
    queued.upgrade = parser.should_upgrade()
    return queued


def _target(target: str) -> str | None:
    """Path and query of a request target in origin, absolute or asterisk form (RFC 9112 §3.2)."""
    if target.startswith("/") or target == "*":
        return target
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return None
    authority = rest.partition("?")[0].partition("/")[0]
    found = rest[len(authority) :]
    return found if found.startswith("/") else "/" + found
