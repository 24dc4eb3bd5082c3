"""An HTTP message as the house sees it, whatever carries it: `Request`, `Response`, `Stream`, `Tunnel`.

The serving layer makes Requests and sends Responses; nothing else of HTTP/1.1 or HTTP/2 is visible
above it, so another server could stand there. Next: `router`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "BodySource",
    "BodyTooLarge",
    "BrokenBody",
    "Handler",
    "Peer",
    "Request",
    "Response",
    "ResponseBody",
    "Stream",
    "Tunnel",
]


class BodyTooLarge(Exception):
    """The body has more bytes than the server takes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"limit is {limit}")
        self.limit = limit


class BrokenBody(ConnectionError):
    """The rest of the body will not come: its framing is malformed, or the client went away."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection, read once when it was made.

    `certificate` is the client's certificate in DER as it was presented, not verified by the serving
    layer; `chain` are further certificates it sent.
    """

    address: str
    port: int
    certificate: bytes | None = None
    chain: tuple[bytes, ...] = ()


class Request:
    """One request. Header names are lower case, values are decoded as latin-1; `path` is still percent-encoded."""

    __slots__ = ("_read", "all_headers", "headers", "http2", "method", "path", "peer", "query", "received")

    def __init__(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        all_headers: Sequence[tuple[str, str]],
        peer: Peer,
        read: Callable[[], Awaitable[bytes]],
        received: float,
        http2: bool = False,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers  # the first value of each name
        self.all_headers = all_headers  # every line, in order
        self.peer = peer
        self.received = received  # monotonic seconds
        self.http2 = http2
        self._read = read

    async def read(self) -> bytes:
        """The whole body. Raises `BodyTooLarge`; `BrokenBody` when the rest of it will not come."""
        return await self._read()


class Stream(Protocol):
    """An answer that goes on: bytes are pushed into it until one side ends it.

    `write` never blocks: bytes are kept until the peer takes them, and all that was written in one turn of
    the loop leaves in one piece. A writer that can wait awaits `drained`; whoever can't, because its bytes come when
    they come, relies on the server to end a stream whose peer doesn't read.
    """

    def write(self, data: bytes) -> None: ...

    @property
    def buffered(self) -> int:
        """Bytes written here that the connection has not yet handed to the kernel."""
        ...

    async def drained(self) -> None:
        """Wait until little enough of what was written is waiting, or until it is over. Any number may wait."""
        ...

    @property
    def closed(self) -> bool: ...

    def close(self) -> None:
        """End the answer cleanly (end of chunks, END_STREAM) once what was written is sent."""
        ...

    def abort(self) -> None:
        """End it at once so that the peer knows it was cut (reset)."""
        ...

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the stream has ended, whoever ended it; at once if it has."""
        ...


class Tunnel(Stream, Protocol):
    """A connection that has left HTTP: raw bytes both ways, with backpressure both ways.

    `close` ends it both ways once what was written is sent. A client that ends its half has ended it all.
    """

    async def read(self) -> bytes:
        """The next bytes, as they came; ``b""`` once it is over. What isn't read is left with the client."""
        ...


class BodySource(ABC):
    """A body that is made as it is read, without waiting, out of what others keep anyway.

    `length` is its size in bytes, None when that isn't known before its end.
    """

    __slots__ = ("done", "length")

    def __init__(self, length: int | None) -> None:
        self.length = length
        self.done = False
        """Nothing is left to be read."""

    @abstractmethod
    def read(self, most: int) -> bytes:
        """The next bytes: about `most` of them, ``b""`` only at the end."""


ResponseBody = bytes | BodySource | AsyncIterator[bytes]


class Response:
    """An answer. Header names are lower case. The serving layer adds ``date`` and the framing headers.

    With `stream`, `body` is ignored: the head is sent at once, then `stream` is called with a `Stream`.
    A `BodySource` and an async iterator as `body` are read as far as the client takes them; an async iterator
    may wait, and should give pieces of some 64 KiB. With status 101 and an ``upgrade`` header, in answer
    to a request over HTTP/1.1 that asks for it, `stream` is called with a `Tunnel`; any other 101 is a bug.
    """

    __slots__ = ("_callbacks", "_whole", "body", "headers", "status", "stream")

    def __init__(
        self,
        status: int,
        headers: list[tuple[str, str]],
        body: ResponseBody = b"",
        stream: Callable[[Stream], None] | None = None,
    ) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.stream = stream
        self._callbacks: tuple[Callable[[bool], None], ...] = ()
        self._whole: bool | None = None

    def on_sent(self, callback: Callable[[bool], None]) -> None:
        """Call `callback` once, on the loop, when the answer is over; at once if it is.

        It is called with True when the answer was sent whole, which is when the transport has the last byte of it, and
        with False when it was cut, or given up before it began. It must neither raise nor wait.
        """
        if self._whole is not None:
            callback(self._whole)
        else:
            self._callbacks += (callback,)

    def sent(self, whole: bool) -> None:
        """The answer is over. Called by whoever carries it, or drops it for another one; the first call counts."""
        if self._whole is None:
            self._whole = whole
            for callback in self._callbacks:
                callback(whole)


Handler = Callable[[Request], Awaitable[Response]]
"""What the serving layer calls, once per request.

It drives the coroutine without a task until it first suspends; a handler that finishes without
suspending costs no task at all.
"""
