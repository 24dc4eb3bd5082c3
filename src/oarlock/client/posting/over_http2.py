"""`Http2PostConnection`: POSTs over HTTP/2, many at a time. See also: `server`; ``http2.client_connection``."""

from __future__ import annotations

from collections.abc import Mapping

from oarlock.client.posting.reply import PostAnswer, PostError, PostReply, PostRequest
from oarlock.http2.client_connection import Http2ClientConnection
from oarlock.http2.client_stream import ClientStream, StreamFailure

__all__ = ["Http2PostConnection"]

_SECRET = "authorization"


class Http2PostConnection(Http2ClientConnection):
    """A connection to one server."""

    async def post(self, request: PostRequest) -> PostAnswer:
        """Send a request and wait for its answer. Raises `PostError`."""
        stream = _PostStream(self, PostReply(request.most_bytes))
        begun = self._loop.time()
        self._begin(stream, _fields(request), request.body, end=True)
        try:
            return await stream.reply.answer
        finally:
            if not stream.reply.answer.done() or stream.reply.answer.cancelled():
                stream.ended = True
                self.give_up(stream)
                if self._heard < begun:
                    self.retire()  # nothing at all came: it may be dead


class _PostStream(ClientStream):
    __slots__ = ("_connection", "reply")

    def __init__(self, connection: Http2PostConnection, reply: PostReply) -> None:
        super().__init__()
        self._connection = connection
        self.reply = reply

    def on_fields(self, fields: Mapping[bytes, bytes], end: bool) -> None:
        reply = self.reply
        if not reply.status:
            status = fields.get(b":status", b"")
            if len(status) != 3 or not status.isdigit():
                self._refuse(PostError("malformed response: no status"))
                return
            if status.startswith(b"1") and not end:
                return
            reply.begin(int(status), fields.get(b"content-type", b"").decode("latin-1"))
        if end:
            self.ended = True
            reply.end()

    def on_data(self, data: bytes, end: bool) -> None:
        if self.ended:
            return
        if not self.reply.status:
            self._refuse(PostError("malformed response: data before headers"))
        elif not self.reply.add(data):
            self._refuse(None)
        elif end:
            self.ended = True
            self.reply.end()

    def on_failure(self, failure: StreamFailure) -> None:
        self.ended = True
        self.reply.fail(PostError(f"http2: {failure.why}", unsent=failure.unsent))

    def _refuse(self, error: PostError | None) -> None:
        """Take nothing more; without an error, what came is the answer."""
        self.ended = True
        self._connection.give_up(self)
        if error is not None:
            self.reply.fail(error)


def _fields(request: PostRequest) -> list[tuple[bytes, bytes, bool]]:
    fields = [
        (b":method", b"POST", False),
        (b":scheme", b"https", False),
        (b":authority", request.host.encode("latin-1"), False),
        (b":path", request.path.encode("latin-1"), False),
        (b"content-length", str(len(request.body)).encode(), False),
    ]
    fields += [(name.encode(), value.encode("latin-1"), name == _SECRET) for name, value in request.headers]
    return fields
