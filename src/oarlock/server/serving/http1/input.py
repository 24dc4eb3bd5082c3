"""`Http1Input`: the parsing half of an HTTP/1 connection, with httptools (llhttp in its strict mode).

Every request with complete headers becomes a `QueuedRequest` in a queue; `http1.connection` answers them. A malformed
request becomes the last one: it is unknown where the next message would begin (RFC 9112 §2.2, §11.2).
Must not know: handlers, answers, transports.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from oarlock.endpoints.http import BrokenBody, Request
from oarlock.meta.context import Peer
from oarlock.server.serving.header_names import ANY_CASE, FIELD_BYTES, Http1Head, header_name
from oarlock.server.serving.listener_state import ListenerState, Receiver
from oarlock.server.serving.request_body import RequestBody, no_body

__all__ = ["Http1Input", "QueuedRequest", "queued_request"]


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


SLICE = 8192  # bytes parsed at once: bounds the number of waiting requests of a pipeline

EMPTY_LINE = b"\r\n\r\n"

REQUEST_LINE = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE) (/[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~]*) HTTP/1\.1\r\n")
"""Of nearly all requests: no parser could understand it in another way."""

CONNECTION_HEADERS = frozenset(("expect", "transfer-encoding", "upgrade"))

OVERHEAD = 16  # bytes of chunk framing allowed per byte of body, besides the size of a header


class _Stop(Exception):
    """Stops the parser: no more requests are accepted."""


class Http1Input(Receiver):
    """`_take` parses; requests are put into `_queue`, and `_unparsed` is what there was no room for."""

    def __init__(self, listener: ListenerState, peer: Peer, now: float) -> None:
        self.listener = listener
        self._peer = peer
        self._parser = HttpRequestParser(self)
        self._monotonic = listener.monotonic
        # the message being parsed
        self._in_head = False
        self._head_since = self._now = self._idle_since = now
        self._head_bytes = self._slice_bytes = self._body_bytes = 0
        self._url = b""
        self._lines: list[tuple[bytes, bytes]] = []
        self._most_lines = listener.limits.max_headers
        self._head: list[bytes] = []  # the pieces its head is in
        self._tail = b""  # of what was parsed before
        self._receiving: QueuedRequest | None = None  # its body isn't complete
        self._input_ended = False
        self._first = True
        # what was parsed, and what waits for that
        self._queue: deque[QueuedRequest] = deque()
        self._current: QueuedRequest | None = None
        self._unparsed = b""
        self._upgrade_pending = False  # what follows a request to upgrade: HTTP or not?

    def _close(self, now: float) -> None:
        """Close after everything written was sent."""
        raise AssertionError("a connection says how it is closed")

    def _body_wanted(self) -> None:
        """Called when a reader waits for the rest of the body."""
        raise AssertionError("a connection says how more is read")

    # Parsing. The names are httptools'; an exception in one of them stops the parser.

    def _take(self, data: bytes) -> None:
        """Parse `data` in slices; hold it back while enough requests wait."""
        if len(data) <= SLICE:
            self._parse(data)
            return
        for start in range(0, len(data), SLICE):
            if len(self._queue) + (self._current is not None) > 1:
                self._unparsed = data[start:]
                return
            self._parse(data[start : start + SLICE])
            if self._upgrade_pending:
                self._unparsed += data[start + SLICE :]
                return
            if self._input_ended:
                return

    def _parse(self, data: bytes) -> None:
        """Parse `data` in pieces that don't cross the end of a message."""
        start, size = 0, len(data)
        if self._receiving is None and not self._in_head:
            self._tail = b""
            end = data.find(EMPTY_LINE) + len(EMPTY_LINE)
            if end >= len(EMPTY_LINE) and self._take_known(data, end):
                return
            if end == size:  # one head and nothing else, as most requests come
                self._parse_piece(data)
                return
        while not self._input_ended:
            end = self._end_of_piece(data, start)
            if end >= size:
                self._parse_piece(data[start:] if start else data)
                break
            self._parse_piece(data[start:end])
            if self._upgrade_pending:
                self._unparsed += data[end:]
                break
            start = end
        if self._in_head or self._receiving is not None:
            self._tail = (self._tail + data[-3:])[-3:]

    def _take_known(self, data: bytes, end: int) -> bool:
        """Queue the request in `data`, if it is one whole request, and its headers, up to `end`, came before."""
        line = REQUEST_LINE.match(data)
        if line is None or self._input_ended or end > self.listener.limits.max_header_bytes:
            return False
        known = self.listener.http1_heads.get(data[line.end() : end])
        if known is None or len(data) - end != known.length:
            return False
        method, target = line.groups()
        path, _, query = target.decode("ascii").partition("?")
        headers = known.headers.copy()
        request = Request(method.decode("ascii"), path, query, headers, known.lines, self._peer, no_body, self._now)
        queued = QueuedRequest(request)
        queued.head_only = method == b"HEAD"
        self._head_since = self._now
        self._first = False
        if known.length:
            limit = self.listener.limits.max_request_bytes
            queued.body = body = RequestBody(self.listener.loop, limit, self._body_wanted, known.length)
            request.read, request.piece = body.read, body.piece
            body.feed(data[end:])
            body.finish()
        self._queue.append(queued)
        return True

    def _remember(self, queued: QueuedRequest, request: Request) -> None:
        """Remember the headers of `request`, if its head came in one piece and says nothing of the connection."""
        line = REQUEST_LINE.match(self._head[0])
        if line is None or len(self._head) > 1 or queued.close or queued.upgrade or queued.expects:
            return
        headers = request.headers
        if CONNECTION_HEADERS.isdisjoint(headers):
            key = self._head[0][line.end() :]
            length = int(headers.get("content-length") or 0)
            lines = request.received_headers
            size = len(key) + FIELD_BYTES * len(lines)
            self.listener.http1_heads.put(key, Http1Head(headers.copy(), lines, length), size)

    def _end_of_piece(self, data: bytes, start: int) -> int:
        """Where the message at `start` may end: heads and chunked bodies end with an empty line."""
        body = self._receiving.body if self._receiving is not None else None
        if body is not None and body.length is not None:
            return start + body.length - body.received
        if not start and self._tail:
            found = (self._tail + data[:3]).find(EMPTY_LINE)
            if found >= 0:
                return found + len(EMPTY_LINE) - len(self._tail)
        found = data.find(EMPTY_LINE, start)
        return len(data) if found < 0 else found + len(EMPTY_LINE)

    def _parse_piece(self, data: bytes) -> None:
        self._slice_bytes = len(data)
        if self._in_head:
            self._head.append(data)
        else:
            self._head = [data]
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            # The parser stops behind such a request. Should we stay with HTTP, a new one goes on there.
            if self._input_ended:
                return
            self._upgrade_pending = True
            self._unparsed = data[upgrade.args[0] :]
            self._parser = HttpRequestParser(self)
            return
        except HttpParserError as error:
            if not self._input_ended:
                self._malformed(str(error))
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self.listener.limits.max_header_bytes:
                self._refuse(431, "")
            elif len(self._lines) > self._most_lines:  # a slice has no more than it has bytes
                self._refuse(431, "too many headers")
        elif self._receiving is not None and self._receiving.body is not None:
            self._body_bytes += len(data)
            allowed = OVERHEAD * self._receiving.body.received + self.listener.limits.max_header_bytes
            if self._body_bytes > allowed:
                self._malformed("too much framing for so little body")
            elif self._receiving.skip_limit is not None and self._receiving.body.received > self._receiving.skip_limit:
                self._close(self._now)

    def _malformed(self, why: str) -> None:
        queued = self._receiving
        if queued is not None and queued.skip_limit is not None:
            self._close(self._now)
        elif queued is not None and queued.body is not None:
            # The handler may be running: reading fails, and this is the answer unless it has answered.
            self._input_ended = True
            self._receiving = None
            queued.close = True
            queued.refusal = (400, why)
            queued.body.fail(BrokenBody(why))
        elif self._in_head:
            self._refuse(400, why)
        else:
            self._input_ended = True

    def _refuse(self, status: int, why: str) -> None:
        """Answer the message being parsed with `status`, after the requests before it."""
        self._input_ended = True
        self._in_head = False
        self._queue.append(QueuedRequest(None, (status, why)))

    def on_message_begin(self) -> None:
        if self._input_ended:
            raise _Stop
        self._in_head = True
        self._head_since = self._now
        self._head_bytes = 0
        self._url = b""
        self._lines = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # else it's a trailer, which is ignored
            self._lines.append((name, value))

    def on_headers_complete(self) -> None:
        if self._head_bytes + self._slice_bytes > self.listener.limits.max_header_bytes and self._too_long():
            self._refuse(431, "")
            raise _Stop
        if len(self._lines) > self._most_lines:
            self._refuse(431, "too many headers")
            raise _Stop
        self._in_head = False
        self._first = False
        problem = self._begin()
        if problem is not None:
            self._refuse(*problem)
            raise _Stop

    def _too_long(self) -> bool:
        size = len(self._url) + sum(len(name) + len(value) + 4 for name, value in self._lines)
        return size > self.listener.limits.max_header_bytes

    def _begin(self) -> tuple[int, str] | None:
        """Queue a request with the complete headers, or refuse them."""
        method = self._parser.get_method()
        line = b"%b %b HTTP/" % (method, self._url)
        if not self._head[0].startswith(line) and not self._is_http(line):
            return 400, "malformed request line"
        queued = queued_request(self._parser, method, self._url, self._lines, self._peer, self._now)
        if not isinstance(queued, QueuedRequest):
            return queued
        headers = queued.request.headers if queued.request is not None else {}
        if "content-length" in headers or "transfer-encoding" in headers:
            problem = self._expect_body(queued)
            if problem is not None:
                return problem
        if queued.request is not None:
            self._remember(queued, queued.request)
        self._queue.append(queued)
        return None

    def _is_http(self, line: bytes) -> bool:
        """Whether the head begins with `line`, to the letter: llhttp also takes RTSP, ICE, none, and more spaces."""
        return b"".join(self._head).lstrip(b"\r\n").startswith(line)

    def _expect_body(self, queued: QueuedRequest) -> tuple[int, str] | None:
        request = queued.request
        assert request is not None
        headers = request.headers
        length: int | None = None
        if "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked":
                return 501, "unsupported Transfer-Encoding"
        else:
            length = int(headers.get("content-length") or 0)
            if length == 0:
                return None
        if queued.upgrade:
            return 400, "an Upgrade with a body"  # the parser can't say where that body ends
        expected = headers.get("expect")
        if expected is not None and not queued.is_http10:
            if expected.lower() != "100-continue":
                return 417, expected
            queued.expects = True
        queued.body = RequestBody(self.listener.loop, self.listener.limits.max_request_bytes, self._body_wanted, length)
        request.read, request.piece = queued.body.read, queued.body.piece
        self._body_bytes = -self._slice_bytes  # what the headers took of this slice isn't counted
        self._receiving = queued
        return None

    def on_body(self, data: bytes) -> None:
        if self._receiving is not None and self._receiving.body is not None:
            self._receiving.body.feed(data)

    def on_message_complete(self) -> None:
        queued = self._receiving
        if queued is not None and queued.body is not None:
            queued.body.finish()
            self._receiving = None
