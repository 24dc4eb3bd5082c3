"""HTTP messages, independent of the transport: `Request`, `Response`, `Stream`, `Tunnel`.

The serving layer makes Requests and sends Responses; nothing else of HTTP/1.1 or HTTP/2 is visible above it. Bodies are
counted against `Unsent`, the process's budget of bytes that clients haven't received yet: bytes that several clients
wait for count once. When it is exhausted, new requests are answered with 429, and the slowest clients are cut.
See also: `router`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from oarlock.meta.context import Peer
from oarlock.meta.errors import TooManyRequests

DEFAULT_BYTES = 256 * 1024 * 1024
RETRY_AFTER_S = 1
OVERFLOW = 1.25
"""Above this multiple of the limit clients are disconnected at once, not only by the next periodic check."""


class Unsent:
    """A budget in bytes. `cut` counts the clients that were disconnected for reading too slowly, by reason.

    `on_overflow` is called when far more than the limit is held, by answers that can't be refused any more.
    """

    __slots__ = ("_holders", "cut", "limit", "on_overflow", "size")

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.limit = limit
        self.size = 0
        self.cut: dict[str, int] = {}
        self.on_overflow: Callable[[], None] | None = None
        self._holders: dict[int, int] = {}

    @property
    def full(self) -> bool:
        return self.size >= self.limit

    def hold(self, data: bytes) -> None:
        """Count `data` for one more client. Keep a reference to it until `release`."""
        key = id(data)
        count = self._holders.get(key)
        if count is None:
            self._holders[key] = 1
            self.add(len(data))
        else:
            self._holders[key] = count + 1

    def release(self, data: bytes) -> None:
        """One client less waits for `data`."""
        key = id(data)
        count = self._holders[key] - 1
        if count:
            self._holders[key] = count
        else:
            del self._holders[key]
            self.size -= len(data)

    def reserve(self, size: int) -> None:
        """Count `size` bytes in advance; subtract them with `add` afterwards. Raises TooManyRequests."""
        if size and self.size + size > self.limit:
            raise TooManyRequests("too much is kept for clients that don't read: try again later", RETRY_AFTER_S)
        self.add(size)

    def add(self, size: int) -> None:
        """Count `size` bytes, negative to subtract, that the caller keeps track of."""
        self.size += size
        if self.size > self.limit * OVERFLOW and size > 0 and self.on_overflow is not None:
            self.on_overflow()

    def count_cut(self, reason: str) -> None:
        self.cut[reason] = self.cut.get(reason, 0) + 1


UNLIMITED = Unsent(1 << 62)
"""For requests without a budget."""

log = logging.getLogger("oarlock.serving")


class BodyTooLarge(Exception):
    """The request body exceeds the server's limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"limit is {limit}")
        self.limit = limit


class BrokenBody(ConnectionError):
    """The rest of the request body won't come: its framing is malformed, or the client disconnected."""


class BrokenAnswer(ConnectionError):
    """The rest of an answer can't be had, which is nobody's mistake here. The text, which is logged, says why."""


class Request(Struct, eq=False):
    """One request. Header names are in lower case, values are decoded as latin-1; `path` is still percent-encoded.

    `headers` has the first value of each name. If a filter removes one, later filters see no line of that name.
    `received_headers` are all lines as they arrived, credentials included, for authentication only.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    received_headers: Sequence[tuple[str, str]]
    peer: Peer
    read: Callable[[], Awaitable[bytes]]
    """Returns the whole body. Raises `BodyTooLarge`, and `BrokenBody` if the rest of it won't come."""
    received: float
    """In monotonic seconds."""
    http2: bool = False
    piece: Callable[[], Awaitable[bytes]] | None = None
    """Returns the next piece of a body that arrives beside the head; see `pieces`."""

    @property
    def all_headers(self) -> Sequence[tuple[str, str]]:
        """Every header line, in order, of the headers that weren't removed."""
        return [line for line in self.received_headers if line[0] in self.headers]

    def replace_header(self, name: str, values: Sequence[str]) -> None:
        """Put `values` in the place of all lines of a header, or remove it if there are none."""
        del self.headers[name]
        if values:
            self.received_headers = [*self.all_headers, *((name, value) for value in values)]
            self.headers[name] = values[0]

    @property
    def has_body(self) -> bool:
        """Whether a body arrives beside the head, of which `pieces` holds only what nobody has taken yet."""
        return self.piece is not None

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives, in place of `read`: of any size, as fast as the pieces are taken.

        Raises `BrokenBody` if the rest of it won't come.
        """
        if self.piece is None:
            data = await self.read()
            if data:
                yield data
            return
        while data := await self.piece():
            yield data


class SharedWriter(Protocol):
    """Sends the same bytes on many of its streams, with less work than `Stream.write` on each."""

    def write_all(self, streams: Sequence[Any], data: bytes) -> None:
        """As `Stream.write` on each of `streams`, whose outlet this is. The sequence must not change later."""
        ...


class Stream(Protocol):
    """A streamed answer: code writes bytes to it until one side ends it.

    `write` never blocks: bytes are buffered until the client takes them, and all that is written in one turn of the
    event loop is sent in one piece. A writer that can wait awaits `drained`. For a writer that can't, such as a watch,
    the server ends streams whose client doesn't read.
    """

    def write(self, data: bytes) -> None:
        """Send `data` after all that was written before. Ignored after `close`, and once the stream has ended."""
        ...

    @property
    def shared_writer(self) -> SharedWriter | None:
        """What writes to this stream and others together, if there's something to gain by it."""
        ...

    @property
    def buffered(self) -> int:
        """Bytes written here that haven't been passed to the kernel yet."""
        ...

    async def drained(self) -> None:
        """Wait until little is buffered (64 KiB), or the stream has ended; returns at once if that is so already.

        Any number of tasks may wait, and any of them may be cancelled. It doesn't say that the client has received
        anything. What it returned for may be over when the caller goes on, so look at `closed`.
        """
        ...

    @property
    def closed(self) -> bool:
        """Whether the stream has ended: everything was sent after `close`, or it was cut."""
        ...

    def close(self) -> None:
        """End the answer (last chunk, END_STREAM) after everything written is sent."""
        ...

    def abort(self) -> None:
        """Reset the stream at once, so that the client knows the answer is incomplete."""
        ...

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, on the event loop, when the stream has ended, whoever ended it; at once if it already
        has.

        Callbacks are called in the order they were added, before those of the response's `on_sent`. They must not
        wait; what they raise is logged.
        """
        ...


class Tunnel(Stream, Protocol):
    """An upgraded connection: raw bytes in both directions, with backpressure in both.

    `close` closes both directions once everything written is sent. So does a half-close by the client.
    """

    async def read(self) -> bytes:
        """The next bytes; ``b""`` at the end. While nobody reads, the server receives nothing (backpressure)."""
        ...


class BodySource(ABC):
    """A body that is produced while it is sent, without waiting, from bytes that are kept elsewhere.

    `length` is its size in bytes, None when unknown before its end.
    """

    __slots__ = ("done", "length")

    def __init__(self, length: int | None) -> None:
        self.length = length
        self.done = False
        """Whether everything was read."""

    @abstractmethod
    def read(self, most: int) -> bytes:
        """The next bytes: about `most` of them, ``b""`` only at the end."""


ResponseBody = bytes | BodySource | AsyncIterator[bytes]


class Response(Struct, eq=False):
    """An answer. Header names are lower case. The serving layer adds ``date`` and the framing headers.

    With `stream`, `body` is ignored: the head is sent at once, then `stream` is called with a `Stream`. A `BodySource`
    or an async iterator as `body` is read only as fast as the client reads; an async iterator may wait, and should
    yield pieces of about 64 KiB. With status 101 and an ``upgrade`` header, in answer to an HTTP/1.1 request that asks
    for it, `stream` is called with a `Tunnel`; any other 101 is a bug.
    """

    status: int
    headers: list[tuple[str, str]]
    body: ResponseBody = b""
    stream: Callable[[Stream], None] | None = None
    _callbacks: tuple[Callable[[bool], None], ...] = ()
    _whole: bool | None = None

    def on_sent(self, callback: Callable[[bool], None]) -> None:
        """Call `callback` once, on the event loop, when the answer has ended; at once if it already has.

        The argument is True if the answer was sent completely (the transport has its last byte, or gets it in this turn
        of the event loop), False if it was cut, dropped before, or replaced because it couldn't be sent. For a streamed
        answer that is after the stream's `on_close`. Callbacks are called in the order they were added. They must not
        wait, nor raise: an exception is logged, and doesn't keep the others from being called.
        """
        if self._whole is not None:
            callback(self._whole)
        else:
            self._callbacks += (callback,)

    def sent(self, whole: bool) -> None:
        """The answer has ended. Called by the layer that sends it, or replaces it by another; the first call counts."""
        if self._whole is None:
            self._whole = whole
            for callback in self._callbacks:
                try:
                    callback(whole)
                except Exception:
                    log.exception("a callback of an answer failed")


Handler = Callable[[Request], Awaitable[Response]]
"""Called by the serving layer, once per request.

The coroutine runs without a task until it first suspends; a handler that finishes without suspending needs no task.
"""
