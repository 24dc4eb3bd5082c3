"""`GrpcConnection`: one HTTP/2 connection to a gRPC server, for many calls at a time.

Must not know: what is called, who connects. See also: `calls`, `channel`; ``net.http2_connection``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final

from oarlock.http2.header_blocks import HeaderFields
from oarlock.meta.dataclass import dataclass
from oarlock.net.http2_connection import Http2ClientConnection
from oarlock.storage.grpc.calls import CallMetadata, GrpcStream, UnaryCall, prefixed
from oarlock.storage.grpc.errors import GrpcCode, GrpcError

__all__ = ["ConnectionSettings", "GrpcConnection"]

MOST_FIELDS = 64
"""Of how many paths and metadata the header fields are remembered."""


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """`largest` is how many bytes a message may have that comes.

    With `keepalive_s`, a server that is silent for so long while calls are under way is asked for a sign of life.
    """

    scheme: str
    authority: str
    keepalive_s: float
    largest: int


class GrpcConnection(Http2ClientConnection):
    """Made by a channel. `on_end` is called when no new call may begin on it."""

    ping_wait_s: ClassVar[float] = 5.0
    stream_window: ClassVar[int] = 4 << 20
    connection_window: ClassVar[int] = 64 << 20
    allowed_anew_bytes: ClassVar[int] = 1 << 20

    def __init__(self, settings: ConnectionSettings, on_end: Callable[[GrpcConnection], None]) -> None:
        super().__init__(settings.keepalive_s)
        self._settings: Final = settings
        self.largest = settings.largest
        self._fields: Final[dict[tuple[str, CallMetadata], HeaderFields]] = {}
        self._on_end: Final = on_end

    def on_unusable(self) -> None:
        self._on_end(self)

    async def unary(self, path: str, message: bytes, timeout_s: float, metadata: CallMetadata) -> bytes:
        """The answer. Raises `GrpcError`."""
        call = UnaryCall(self, self._loop)
        timer = self._loop.call_later(timeout_s, call.expire)
        self.begin(call, self._fields_of(path, metadata), prefixed(message), end=True)
        try:
            return await call.answer
        except asyncio.CancelledError:
            call.cancel(GrpcError(GrpcCode.CANCELLED, "nobody waits for the answer any more"))
            raise
        finally:
            timer.cancel()

    def stream(self, path: str, metadata: CallMetadata) -> GrpcStream:
        stream = GrpcStream(self, self._loop)
        self.begin(stream, self._fields_of(path, metadata), b"", end=False)
        return stream

    def _fields_of(self, path: str, metadata: CallMetadata) -> HeaderFields:
        fields = self._fields.get((path, metadata))
        if fields is None:
            if len(self._fields) >= MOST_FIELDS:
                self._fields.clear()
            settings = self._settings
            head = [(b":method", b"POST"), (b":scheme", settings.scheme.encode())]
            head += [(b":authority", settings.authority.encode())]
            head += [(b":path", path.encode()), (b"te", b"trailers"), (b"content-type", b"application/grpc")]
            head += [(name.encode(), value.encode()) for name, value in metadata]
            fields = self._fields[path, metadata] = [(name, value, False) for name, value in head]
        return fields
