"""`Http1PostConnection`: POSTs over HTTP/1.1, one at a time on a connection that is kept (RFC 9112).

See also: `server`.
"""

from __future__ import annotations

import asyncio
import select
from typing import cast

import httptools

from oarlock.client.posting.reply import PostAnswer, PostError, PostReply, PostRequest

__all__ = ["Http1PostConnection"]

MOST_HEAD = 64 * 1024
SPARE_BYTES = 512 * 1024
OVERHEAD = 8
"""An answer may be so many times as long on the wire as its body may be, and `SPARE_BYTES`: chunks of one byte are."""

IDLE_S = 60.0


class Http1PostConnection(asyncio.Protocol):
    """The methods named ``on_…`` are called by the parser."""

    __slots__ = (
        "_content_type",
        "_head_bytes",
        "_left",
        "_loop",
        "_parser",
        "_reply",
        "_transport",
        "_until_end",
        "closed",
        "idle_s",
        "reusable",
    )

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._reply: PostReply | None = None
        self._content_type = ""
        self._head_bytes = 0
        self._left = 0
        self._until_end = True
        self.closed = False
        self.reusable = True
        """Whether another request can follow."""
        self.idle_s = IDLE_S
        """How long the server keeps it, as far as it says so."""

    async def post(self, request: PostRequest) -> PostAnswer:
        """Send a request and wait for its answer. Raises `PostError`."""
        transport = self._transport
        if self.closed or transport is None or transport.is_closing() or self._reply is not None:
            raise PostError("http: server closed idle connection", unsent=True)
        reply = self._reply = PostReply(request.most_bytes)
        self._content_type, self._head_bytes, self._until_end = "", 0, True
        self._left = SPARE_BYTES + OVERHEAD * request.most_bytes
        transport.write(_encoded(request))
        try:
            return await reply.answer
        finally:
            self._reply = None
            if not reply.answer.done() or reply.answer.cancelled():
                self.abort()

    @property
    def silent(self) -> bool:
        """Whether nothing has come since the last answer: not even an end that the loop hasn't seen yet."""
        if self.closed or not self.reusable or self._transport is None or self._transport.is_closing():
            return False
        descriptor: int = self._transport.get_extra_info("socket").fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return descriptor >= 0 and not poll.poll(0)

    def abort(self) -> None:
        """Cut the connection."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's isn't derived of it

    def data_received(self, data: bytes) -> None:
        reply = self._reply
        self._left -= len(data)
        if reply is None or reply.answer.done():
            self.abort()  # a server that speaks without being asked
            return
        if self._left < 0:
            self._broken("the answer goes on and on")
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._broken("unexpected switch of protocols")
        except httptools.HttpParserError as error:
            self._broken(f"malformed HTTP response: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self.reusable = False
        reply = self._reply
        if reply is None:
            return
        if reply.status and self._until_end and error is None:
            reply.end()  # the end of the connection is the end of the answer (RFC 9112 §6.3)
        elif reply.status:
            reply.fail(PostError("unexpected EOF"))
        else:
            reply.fail(PostError("EOF" if error is None else "read: connection reset by peer"))

    # The parser

    def on_message_begin(self) -> None:
        if self._reply is None or self._reply.answer.done():
            self.abort()  # what comes after an answer would be taken for that to the next request

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MOST_HEAD:
            self._broken(f"server response headers exceeded {MOST_HEAD} bytes; aborted")
            return
        lower = name.lower()
        if lower == b"content-type":
            self._content_type = value.decode("latin-1")
        elif lower in (b"content-length", b"transfer-encoding"):
            self._until_end = False
        elif lower == b"keep-alive":
            self.idle_s = _told(value)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or self._reply is None:
            return
        self.reusable = self.reusable and self._parser.should_keep_alive()
        if status in (204, 304):
            self._until_end = False
        self._reply.begin(status, self._content_type)

    def on_body(self, body: bytes) -> None:
        if self._reply is not None and not self._reply.add(body):
            self.abort()

    def on_message_complete(self) -> None:
        if self._reply is not None and self._reply.status:
            self._reply.end()

    def _broken(self, why: str) -> None:
        if self._reply is not None:
            self._reply.fail(PostError(f"net/http: HTTP/1.x transport connection broken: {why}"))
        self.abort()


def _encoded(request: PostRequest) -> bytes:
    lines = [f"POST {request.path} HTTP/1.1", f"host: {request.host}", f"content-length: {len(request.body)}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body


def _told(value: bytes) -> float:
    """How long a server says that it keeps the connection: ``timeout=5``, and that less what a request may take."""
    for part in value.split(b","):
        name, _, number = part.strip().partition(b"=")
        if name.lower() == b"timeout" and number.isdigit() and len(number) < 6:
            return min(IDLE_S, max(0.0, int(number) - 1.0))
    return IDLE_S
