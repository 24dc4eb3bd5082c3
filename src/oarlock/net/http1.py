"""`Http1ClientConnection`: the client's side of an HTTP/1.1 connection, one request at a time (RFC 9112).

A response is read only as fast as its reader takes it. After one with status 101 the connection carries raw bytes both
ways. Must not know: where servers are, who asks. See also: `pool`, which keeps connections.
"""

from __future__ import annotations

import asyncio
import select
from typing import cast

import httptools

from oarlock.net.futures import shared
from oarlock.net.http2 import Upload, in_pieces
from oarlock.net.messages import MOST_BUFFERED, Header, HttpError, HttpRequest, HttpResponse

MOST_HEAD = 64 * 1024
SPARE_BYTES = 512 * 1024
OVERHEAD = 8
"""A response may be so many times as long on the wire as its body, and `SPARE_BYTES`: chunks of one byte are."""

MOST_AT_ONCE = 256 * 1024
"""A longer body of a request is sent in pieces."""

IDLE_S = 60.0


class Http1ClientConnection(asyncio.Protocol):
    """An `Exchange`. The methods named ``on_…`` are called by the parser.

    `absolute` is for requests that a proxy carries out: they name the whole URL, and have these lines.
    """

    __slots__ = (
        "_absolute",
        "_body_bytes",
        "_chunked",
        "_complete",
        "_head_bytes",
        "_headers",
        "_parser",
        "_paused",
        "_raw",
        "_response",
        "_surplus",
        "_transport",
        "_until_end",
        "_upload",
        "_wire_bytes",
        "_without_body",
        "_writable",
        "closed",
        "idle_s",
        "reusable",
    )

    def __init__(self, absolute: tuple[Header, ...] | None = None) -> None:
        self._absolute = absolute
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._response: HttpResponse | None = None
        self._upload: Upload | None = None
        self._writable: asyncio.Future[None] | None = None
        self._paused = self._raw = self._surplus = False
        self._begin_response(without_body=False)
        self.closed = False
        self.reusable = True
        """Whether another request can follow."""
        self.idle_s = IDLE_S
        """How long the server keeps it, as far as it says so."""

    def _begin_response(self, *, without_body: bool) -> None:
        self._headers: list[Header] = []
        self._head_bytes = self._body_bytes = self._wire_bytes = 0
        self._complete = False
        self._until_end = True
        self._without_body = without_body

    async def ask(self, request: HttpRequest) -> HttpResponse:
        """Send a request and wait for the head of the response. Raises `HttpError`, and what its body raises."""
        transport = self._transport
        if self.closed or transport is None or transport.is_closing() or self._response is not None:
            raise HttpError("http: server closed idle connection", unsent=True)
        head = _encoded(request, self._absolute)
        self._begin_response(without_body=request.method == "HEAD")
        self._parser = httptools.HttpResponseParser(self)
        self._chunked = request.body_length is None
        response = self._response = HttpResponse(self)
        body = request.body
        if isinstance(body, bytes) and len(body) <= MOST_AT_ONCE:
            transport.write(head + body)
        else:
            transport.write(head)
            self._upload = Upload(in_pieces(body) if isinstance(body, bytes) else body, self, response)
        try:
            await response.head
        except BaseException:
            self.cut()
            raise
        return response

    @property
    def silent(self) -> bool:
        """Whether nothing has come since the last response: not even an end that the loop hasn't seen yet."""
        if self.closed or not self.reusable or self._transport is None or self._transport.is_closing():
            return False
        descriptor: int = self._transport.get_extra_info("socket").fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return descriptor >= 0 and not poll.poll(0)

    def cut(self) -> None:
        """End the connection."""
        self.reusable = False
        self._stop_upload()
        if self._transport is not None:
            self._transport.abort()

    # What is sent

    async def write_body(self, data: bytes) -> None:
        await self.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def end_body(self) -> None:
        if self._chunked:
            await self.write(b"0\r\n\r\n")

    async def write(self, data: bytes) -> None:
        if self.closed or self._transport is None:
            raise HttpError("the connection was closed")
        self._transport.write(data)
        if self._writable is not None:
            await shared(self._writable)

    def _stop_upload(self) -> None:
        if self._upload is not None:
            self._upload.cancel()
            self._upload = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's isn't derived of it

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None or self._parser is None:
            self.cut()  # a server that speaks without being asked
        elif self._raw:
            self._add(data)
        else:
            self._wire_bytes += len(data)
            self._parse(self._parser, data)

    def _parse(self, parser: httptools.HttpResponseParser, data: bytes) -> None:
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            offset = upgrade.args[0] if upgrade.args else len(data)
            if self._raw and offset < len(data):
                self._add(data[offset:])
        except httptools.HttpParserError as error:
            if self._complete:
                self._surplus = True
            else:
                self._broken(f"malformed HTTP response: {error}")
        response = self._response
        if response is None:
            return
        if self._complete:
            self._finish(response)
        elif not self._raw and self._wire_bytes > SPARE_BYTES + OVERHEAD * self._body_bytes:
            self._broken("the answer goes on and on")

    def _finish(self, response: HttpResponse) -> None:
        """The response is whole. What follows it in one piece would be taken for that to the next request."""
        self._response = self._parser = None
        if self._surplus or (self._upload is not None and not self._upload.done):
            self.cut()
        self._upload = None
        self._resume()
        response.end()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self.reusable = False
        self._transport = None
        self._stop_upload()
        self.resume_writing()
        response, self._response = self._response, None
        if response is None:
            return
        if self._raw or (response.status and self._until_end and error is None):
            response.end()  # the end of the connection is the end of the response (RFC 9112 §6.3)
        elif response.status:
            response.fail(HttpError("unexpected EOF"))
        else:
            why = "EOF" if error is None else "read: connection reset by peer"
            response.fail(HttpError(why, unanswered=not self._wire_bytes))

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        waiter, self._writable = self._writable, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # The parser

    def on_message_begin(self) -> None:
        if self._complete:
            self._surplus = True
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is None or self._response.status:
            return  # a trailer
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MOST_HEAD:
            self._broken(f"server response headers exceeded {MOST_HEAD} bytes; aborted")
        else:
            self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        parser, response = self._parser, self._response
        if parser is None or response is None or self._complete:
            return
        status = parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            return  # the response comes after it
        self._raw = status == 101
        self.reusable = self.reusable and not self._raw and parser.should_keep_alive()
        self._complete = self._without_body
        for name, value in self._headers:
            if name in ("content-length", "transfer-encoding"):
                self._until_end = False
            elif name == "keep-alive":
                self.idle_s = _kept_alive_s(value)
        response.begin(status, self._headers)

    def on_body(self, body: bytes) -> None:
        if self._complete:
            self._surplus = True
        else:
            self._body_bytes += len(body)
            self._add(body)

    def on_message_complete(self) -> None:
        if self._response is not None and self._response.status and not self._raw:
            self._complete = True

    # How fast it is read

    def _add(self, data: bytes) -> None:
        response = self._response
        if response is not None:
            response.add(data)
            if response.buffered > MOST_BUFFERED and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()

    def on_taken(self) -> None:
        self._resume()

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def _broken(self, why: str) -> None:
        self.cut()
        if self._response is not None:
            self._response.fail(HttpError(f"net/http: HTTP/1.x transport connection broken: {why}"))


def _encoded(request: HttpRequest, absolute: tuple[Header, ...] | None) -> bytes:
    """The head of a request. Raises `HttpError` for what would begin another line."""
    target = request.target if absolute is None else f"http://{request.host}{request.target}"
    lines = [f"{request.method} {target} HTTP/1.1", f"host: {request.host}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    lines += [f"{name}: {value}" for name, value in absolute or ()]
    length = request.body_length
    if length is None:
        lines.append("transfer-encoding: chunked")
    elif request.says_length:
        lines.append(f"content-length: {length}")
    head = "\r\n".join([*lines, "", ""])
    if head.count("\r") != len(lines) + 1 or head.count("\n") != len(lines) + 1 or "\0" in head:
        raise HttpError("net/http: a header has a line break in it", unsent=True)
    return head.encode("latin-1")


def _kept_alive_s(value: str) -> float:
    """How long a server says that it keeps the connection: ``timeout=5``, and that less what a request may take."""
    for part in value.split(","):
        name, _, number = part.strip().partition("=")
        if name.lower() == "timeout" and number.isascii() and number.isdigit() and len(number) < 6:
            return min(IDLE_S, max(0.0, int(number) - 1.0))
    return IDLE_S
