"""`GrpcChannel`: calls to one server, over a connection that is made when it is needed and again when it is lost.

    channel = GrpcChannel(GrpcTarget("127.0.0.1", 2379))
    answer = await channel.unary("/etcdserverpb.KV/Range", request, timeout_s=5)

After an attempt to connect has failed, calls fail at once for a moment that grows.

Must not know: messages. See also: `connection`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import weakref
from collections.abc import Callable
from typing import ClassVar, Final

from oarlock.http2.header_blocks import HeaderFields
from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff
from oarlock.net.connecting import Address, open_connection
from oarlock.net.http2_connection import Http2ClientConnection
from oarlock.storage.grpc.calls import CallMetadata, GrpcCode, GrpcError, GrpcStream, UnaryCall, prefixed

__all__ = ["ConnectionSettings", "GrpcChannel", "GrpcConnection", "GrpcTarget"]

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
            call.cancel(GrpcError(GrpcCode.CANCELLED, "the caller no longer waits for the answer"))
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


LARGEST_MESSAGE = 64 << 20
CONNECT_S = 3.0
AGAIN = Backoff(0.1, 1.0)


@dataclass(frozen=True, slots=True)
class GrpcTarget:
    """Where a server is: a host and a port, or the `path` of a unix socket (with a NUL first, an abstract one).

    `tls` makes the settings of each connection anew, so that files are read again. Raises what makes a connection
    impossible: OSError, `ssl.SSLError`.
    """

    host: str = ""
    port: int = 0
    path: str = ""
    tls: Callable[[], ssl.SSLContext] | None = None

    @property
    def authority(self) -> str:
        if self.path:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class GrpcChannel:
    """Used from one event loop. For `keepalive_s` and `largest` see `ConnectionSettings`."""

    def __init__(self, target: GrpcTarget, *, keepalive_s: float = 0, largest: int = LARGEST_MESSAGE) -> None:
        self._target: Final = target
        self._settings: Final = ConnectionSettings(
            "http" if target.tls is None else "https", target.authority, keepalive_s, largest
        )
        self._connection: GrpcConnection | None = None
        self._connections: Final[weakref.WeakSet[GrpcConnection]] = weakref.WeakSet()
        self._connecting: asyncio.Task[GrpcConnection] | None = None
        self._error: GrpcError | None = None
        self._pauses: Final = AGAIN.pauses()
        self._not_before = 0.0
        self._closed = False

    async def unary(
        self, path: str, message: bytes, *, timeout_s: float, metadata: CallMetadata = (), patient: bool = False
    ) -> bytes:
        """The answer. Raises `GrpcError`. `patient`: while the server can't be reached, wait until the deadline."""
        connection = self._connection
        if connection is None:
            loop = asyncio.get_running_loop()
            until = loop.time() + timeout_s
            connection = await self._connected(until, patient=patient)
            timeout_s = until - loop.time()
        return await connection.unary(path, message, timeout_s, metadata)

    async def stream(self, path: str, *, timeout_s: float, metadata: CallMetadata = ()) -> GrpcStream:
        """A stream, begun within `timeout_s`; it has no deadline of its own. Raises `GrpcError`."""
        connection = self._connection
        if connection is None:
            until = asyncio.get_running_loop().time() + timeout_s
            connection = await self._connected(until, patient=False)
        return connection.stream(path, metadata)

    async def close(self) -> None:
        """End the connection; calls under way fail. Safe to call twice."""
        self._closed = True
        task, self._connecting = self._connecting, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        for connection in tuple(self._connections):
            connection.close("the channel was closed")

    async def _connected(self, until: float, *, patient: bool) -> GrpcConnection:
        """A usable connection. Raises `GrpcError`."""
        loop = asyncio.get_running_loop()
        while True:
            if self._closed:
                raise GrpcError(GrpcCode.CANCELLED, "the channel is closed", unsent=True)
            if self._connection is not None:
                return self._connection
            pause = self._not_before - loop.time()
            if self._connecting is None and pause > 0 and self._error is not None:
                if not patient:
                    raise GrpcError(self._error.code, self._error.details, unsent=True)
                if loop.time() + pause >= until:
                    await asyncio.sleep(max(0.0, until - loop.time()))
                    raise GrpcError(GrpcCode.DEADLINE_EXCEEDED, self._error.details, unsent=True)
                await asyncio.sleep(pause)
                continue
            task = self._connecting
            if task is None:
                task = self._connecting = loop.create_task(self._connect(), name="grpc: connect")
                task.add_done_callback(self._attempted)
            done, _ = await asyncio.wait([task], timeout=max(0.0, until - loop.time()))
            if not done:
                raise GrpcError(GrpcCode.DEADLINE_EXCEEDED, "failed to connect: deadline exceeded", unsent=True)
            if self._error is not None and not patient and not self._closed:
                raise GrpcError(self._error.code, self._error.details, unsent=True)

    def _attempted(self, task: asyncio.Task[GrpcConnection]) -> None:
        self._connecting = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._error = None
            self._pauses.reset()
            connection = task.result()
            if connection.usable:
                self._connection = connection
            return
        if not isinstance(error, GrpcError):
            error = GrpcError(GrpcCode.UNAVAILABLE, f"failed to connect: {error}", unsent=True)
        self._error = error
        self._not_before = asyncio.get_running_loop().time() + self._pauses.take()

    async def _connect(self) -> GrpcConnection:
        """A connection whose server has shown that it speaks HTTP/2. Raises `GrpcError`."""
        connection = GrpcConnection(self._settings, self._ended)
        self._connections.add(connection)
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._open(connection)
                await connection.ready
        except TimeoutError:
            raise GrpcError(GrpcCode.UNAVAILABLE, "failed to connect: deadline exceeded", unsent=True) from None
        except (OSError, ValueError) as error:
            raise GrpcError(GrpcCode.UNAVAILABLE, f"failed to connect: {_reason(error)}", unsent=True) from None
        finally:
            if not connection.ready.done() or connection.ready.cancelled() or connection.ready.exception():
                connection.close("no connection was made")
        return connection

    async def _open(self, connection: GrpcConnection) -> None:
        loop, target = asyncio.get_running_loop(), self._target
        if target.path:
            await loop.create_unix_connection(lambda: connection, target.path)
            return
        context = None if target.tls is None else target.tls()
        await open_connection(lambda: connection, Address(target.host, target.port), context)

    def _ended(self, connection: GrpcConnection) -> None:
        """No new call may begin on `connection`; those under way may go on."""
        if self._connection is connection:
            self._connection = None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"handshake failed: certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"handshake failed: {error.reason or error}"
    if isinstance(error, socket.gaierror):
        return f"name resolution failed: {error.strerror}"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return "connection refused" if "Connect call failed" in str(error) else str(error)
