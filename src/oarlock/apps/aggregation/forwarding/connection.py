"""`ServerConnection`: one connection to a backend, which carries one request at a time.

An answer is read only as fast as its reader takes it. After an answer with status 101 the connection carries raw bytes
both ways. Must not know: where backends are, who asks. See also: `pool`, which keeps connections.
Source: RFC 9112.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import field
from typing import cast

import httptools

from oarlock.meta.dataclass import dataclass

__all__ = ["AnswerHead", "BackendError", "ServerConnection", "connect"]

MOST_BUFFERED = 256 * 1024
"""How many bytes of an answer are held for a reader that is slower than the backend."""

MOST_HEAD = 64 * 1024
CONNECT_S = 10.0


class BackendError(ConnectionError):
    """The backend didn't answer, or not with HTTP. `unsent` is whether it can't have acted on the request."""

    def __init__(self, why: str, *, unsent: bool = False) -> None:
        super().__init__(why)
        self.unsent = unsent


@dataclass(slots=True)
class AnswerHead:
    """The status and the header lines of an answer; names are lower case."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)


async def connect(host: str, port: int, tls: ssl.SSLContext, server_name: str) -> ServerConnection:
    """A new connection. Raises `BackendError`."""
    loop = asyncio.get_running_loop()
    connection = ServerConnection()
    try:
        async with asyncio.timeout(CONNECT_S):
            await loop.create_connection(lambda: connection, host, port, ssl=tls, server_hostname=server_name)
    except asyncio.CancelledError:
        connection.abort()  # a handshake that goes on all the same ends with it
        raise
    except TimeoutError:
        connection.abort()
        raise BackendError(f"no connection to {host}:{port} within {CONNECT_S:g} s", unsent=True) from None
    except (OSError, ssl.SSLError, ssl.CertificateError) as error:
        raise BackendError(f"no connection to {host}:{port}: {error}", unsent=True) from None
    return connection


class ServerConnection(asyncio.Protocol):
    """The methods named ``on_…`` are called by the parser."""

    __slots__ = (
        "_buffered",
        "_complete",
        "_error",
        "_head",
        "_head_bytes",
        "_head_waiter",
        "_interim",
        "_parser",
        "_paused",
        "_pieces",
        "_raw",
        "_reader",
        "_surplus",
        "_transport",
        "_whole",
        "_without_body",
        "_writable",
        "closed",
        "reusable",
        "used",
    )

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._head = AnswerHead()
        self._head_waiter: asyncio.Future[AnswerHead] | None = None
        self._head_bytes = 0
        self._interim = False
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._reader: asyncio.Future[None] | None = None
        self._paused = False
        self._writable: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._whole = True
        self._complete = True
        self._without_body = False
        self._surplus = False
        self._raw = False
        self.closed = False
        self.used = False
        """Whether it has carried a request before."""
        self.reusable = True
        """Whether another request can follow, once the answer is whole."""

    # The answer to one request

    async def ask(self, head: bytes, *, without_body: bool = False) -> AnswerHead:
        """Send the head of a request, and its body if that is part of it; wait for the head of the answer.

        `without_body` is for HEAD, whose answer has none. Raises `BackendError`.
        """
        if self.closed or self._transport is None:
            raise BackendError("the backend has closed the connection", unsent=True)
        self._parser = httptools.HttpResponseParser(self)
        self._head, self._head_bytes, self._whole, self._error = AnswerHead(), 0, without_body, None
        self._complete, self._without_body = False, without_body
        self.used = True
        waiter: asyncio.Future[AnswerHead] = asyncio.get_running_loop().create_future()
        self._head_waiter = waiter
        self._transport.write(head)
        try:
            return await waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._head_waiter = None
            if without_body:
                self._whole = True

    async def write(self, data: bytes) -> None:
        """Send more of the request's body, or raw bytes; waits while the backend takes none. Raises `BackendError`."""
        if self.closed or self._transport is None:
            raise BackendError("the backend has closed the connection")
        self._transport.write(data)
        if self._writable is not None:
            await asyncio.shield(self._writable)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body of the answer, or raw bytes after an upgrade, as they come. Raises `BackendError` if it is cut."""
        while True:
            if self._pieces:
                piece = b"".join(self._pieces) if len(self._pieces) > 1 else self._pieces[0]
                self._pieces.clear()
                self._buffered = 0
                if self._paused and self._transport is not None and not self.closed:
                    self._paused = False
                    self._transport.resume_reading()
                yield piece
                continue
            if self._whole:
                return
            if self._error is not None:
                raise BackendError(f"the backend's answer broke off: {self._error}")
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None

    def taken(self) -> bytes | None:
        """The whole body, if it is here already; else None."""
        if not self._whole or self._error is not None:
            return None
        body = b"".join(self._pieces)
        self._pieces.clear()
        self._buffered = 0
        return body

    @property
    def idle(self) -> bool:
        """Whether another request may be sent."""
        return self._whole and self.reusable and not self.closed and not self._pieces and not self._raw

    def abort(self) -> None:
        """Cut the connection, also one that is yet to be made."""
        self.closed, self.reusable = True, False
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's isn't derived of it
        if self.closed:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._raw:
            self._add(data)
            return
        if self._parser is None or self._complete:
            self.abort()  # a backend that speaks without being asked
            return
        if self._head_waiter is not None and not self._head_waiter.done():
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD + MOST_BUFFERED:
                self._fail(ValueError("the head of the answer is too large"))
                return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            offset = upgrade.args[0] if upgrade.args else len(data)
            if self._raw and offset < len(data):
                self._add(data[offset:])
        except httptools.HttpParserError as error:
            if not self._complete:
                self._fail(error)
            self._surplus = True
        if self._surplus:
            self.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self.reusable = False
        if self._raw:
            self._whole = True
        elif not self._whole:
            if not self._ends_by_closing():
                self._error = error or ConnectionResetError("the connection was closed")
            self._whole = self._error is None
        if self._head_waiter is not None and not self._head_waiter.done():
            why = f"the backend closed the connection without an answer: {error or 'end'}"
            self._head_waiter.set_exception(BackendError(why, unsent=self._head_bytes == 0))
        self._wake()
        self._resume_writer()

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        self._resume_writer()

    # The parser

    def on_message_begin(self) -> None:
        if self._complete:
            self._surplus = True  # an answer to nothing: it is dropped, and the connection with it
            return
        self._head = AnswerHead()
        self._interim = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head.status or self._complete:
            return  # a trailer: there may be any number of them
        self._head.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        parser, waiter = self._parser, self._head_waiter
        if self._complete:
            return
        assert parser is not None
        self._head.status = parser.get_status_code()
        if 100 <= self._head.status < 200 and self._head.status != 101:
            self._interim = True  # the answer comes after it
            return
        self.reusable = self.reusable and parser.should_keep_alive()
        if self._head.status == 101:
            self._raw, self.reusable = True, False
        if waiter is None or waiter.done():
            self._fail(ValueError("an answer that nobody asked for"))
            return
        waiter.set_result(self._head)

    def on_body(self, body: bytes) -> None:
        if self._complete or self._without_body:
            self._surplus = True
        else:
            self._add(body)

    def on_message_complete(self) -> None:
        if not self._interim and not self._raw:
            self._whole = self._complete = True
            self._wake()

    # Inside

    def _ends_by_closing(self) -> bool:
        """Whether the end of the connection is the end of the answer (RFC 9112 §6.3)."""
        names = {name for name, _ in self._head.headers}
        return self._head.status != 0 and "content-length" not in names and "transfer-encoding" not in names

    def _add(self, data: bytes) -> None:
        self._pieces.append(data)
        self._buffered += len(data)
        if self._buffered > MOST_BUFFERED and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _resume_writer(self) -> None:
        waiter, self._writable = self._writable, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._error = error
        if self._head_waiter is not None and not self._head_waiter.done():
            self._head_waiter.set_exception(BackendError(f"the backend doesn't answer with HTTP: {error}"))
        self._wake()
        self.abort()
