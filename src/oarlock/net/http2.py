"""`ask_over_http2`: a request on a connection of HTTP/2, beside others (RFC 9113 §8).

A response is read only as fast as its reader takes it; others on the connection go on meanwhile. An `Upload` sends the
body of a request as fast as the server takes it; a response may come before all is sent.
See also: `http2_connection`; `http1`, the same over HTTP/1.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from oarlock.net.http2_connection import ClientStream, Http2ClientConnection, StreamFailure
from oarlock.net.messages import MOST_BUFFERED, Header, HttpError, HttpRequest, HttpResponse

PIECE_BYTES = 64 * 1024


class _BodyWriter(Protocol):
    """How a connection sends a body."""

    async def write_body(self, data: bytes) -> None: ...

    async def end_body(self) -> None: ...

    def cut(self) -> None: ...


class Upload:
    """A body that breaks off ends the request: `response` fails with what the body raised."""

    def __init__(self, body: AsyncIterator[bytes], connection: _BodyWriter, response: HttpResponse) -> None:
        self._response = response
        self._connection = connection
        self._task = asyncio.ensure_future(self._run(body))

    @property
    def done(self) -> bool:
        return self._task.done()

    def cancel(self) -> None:
        """Send no more of it."""
        self._task.cancel()

    async def _run(self, body: AsyncIterator[bytes]) -> None:
        try:
            async for piece in body:
                await self._connection.write_body(piece)
            await self._connection.end_body()
        except HttpError:
            pass  # the response tells, or there is none
        except Exception as error:
            began = self._response.head.done()
            self._connection.cut()
            self._response.fail(HttpError("the body of the request broke off") if began else error)


async def in_pieces(data: bytes) -> AsyncIterator[bytes]:
    """A long body, so that others have their turn while it is sent."""
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]


_SECRET = "authorization"


async def ask_over_http2(connection: Http2ClientConnection, request: HttpRequest) -> HttpResponse:
    """Send a request and wait for the head of the response. Raises `HttpError`, and what its body raises."""
    stream = _RequestStream(connection)
    begun = asyncio.get_running_loop().time()
    body = request.body
    if isinstance(body, bytes):
        connection.begin(stream, _fields(request), body, end=True)
    else:
        connection.begin(stream, _fields(request), b"", end=False)
        stream.upload = Upload(body, stream, stream.response)
    try:
        await stream.response.head
    except asyncio.CancelledError:
        stream.response.close()
        if connection.heard < begun:
            connection.retire()  # nothing at all came: it may be dead
        raise
    return stream.response


class _RequestStream(ClientStream):
    """An `Exchange`."""

    __slots__ = ("_connection", "_drained", "response", "upload")

    def __init__(self, connection: Http2ClientConnection) -> None:
        super().__init__()
        self._connection = connection
        self._drained: asyncio.Future[None] | None = None
        self.response = HttpResponse(self)
        self.upload: Upload | None = None

    # What comes

    @property
    def hungry(self) -> bool:
        return self.response.buffered < MOST_BUFFERED

    def on_fields(self, fields: Sequence[tuple[bytes, bytes]], end: bool) -> None:
        if self.ended:
            return
        if not self.response.status:
            status = next((value for name, value in fields if name == b":status"), b"")
            if len(status) != 3 or not status.isdigit() or status == b"101":
                self._refuse("malformed response: no status")
                return
            if status.startswith(b"1") and not end:
                return
            self.response.begin(int(status), _headers(fields))
        if end:
            self._end()

    def on_data(self, data: bytes, end: bool) -> None:
        if self.ended:
            return
        if not self.response.status:
            self._refuse("malformed response: data before headers")
            return
        if data:
            self.response.add(data)
        if end:
            self._end()

    def on_failure(self, failure: StreamFailure) -> None:
        self.ended = True
        self._stop_upload()
        self.response.fail(HttpError(f"http2: {failure.why}", unsent=failure.unsent))

    def _end(self) -> None:
        self.ended = True
        if self.upload is not None and not self.upload.done:
            self._stop_upload()
            self._connection.give_up(self)  # answered before the body was sent
        self.response.end()

    def _refuse(self, why: str) -> None:
        self.cut()
        self.response.fail(HttpError(why))

    # Exchange

    def on_taken(self) -> None:
        if not self.ended:
            self._connection.take_in(self)

    def cut(self) -> None:
        self.ended = True
        self._stop_upload()
        self._connection.give_up(self)

    async def write(self, data: bytes) -> None:
        raise HttpError("http2: protocols aren't switched")

    # What is sent

    async def write_body(self, data: bytes) -> None:
        self._connection.send(self, data)
        if self.unsent and not self.ended:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    async def end_body(self) -> None:
        self._connection.send(self, b"", end=True)

    def on_drained(self) -> None:
        waiter, self._drained = self._drained, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _stop_upload(self) -> None:
        if self.upload is not None:
            self.upload.cancel()


def _fields(request: HttpRequest) -> list[tuple[bytes, bytes, bool]]:
    fields = [
        (b":method", request.method.encode(), False),
        (b":scheme", b"https", False),
        (b":authority", request.host.encode("latin-1"), False),
        (b":path", request.target.encode("latin-1"), False),
    ]
    if request.says_length and request.body_length is not None:
        fields.append((b"content-length", str(request.body_length).encode(), False))
    return fields + [(name.encode(), value.encode("latin-1"), name == _SECRET) for name, value in request.headers]


def _headers(fields: Sequence[tuple[bytes, bytes]]) -> list[Header]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields if not name.startswith(b":")]
