"""`Service`: what all connections of one listener share — the handler, the limits, the clock, the flusher.

Knows no protocol. Next: `http1`, `http2`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from typing import Protocol

from oarlock.endpoints.http import Handler, Response
from oarlock.meta.context import Clock
from oarlock.server.serving.config import Limits

__all__ = [
    "PANIC",
    "PANIC_TEXT",
    "Connection",
    "Flushed",
    "Flusher",
    "Receiver",
    "Service",
    "Sink",
    "log",
    "panic",
    "pump",
    "whole_body",
]

log = logging.getLogger("oarlock.serving")

PANIC_TEXT = b"This request caused apiserver to panic. Look in the logs for details.\n"
PANIC = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")]
READ_BYTES = 64 * 1024
PUMP_HIGH_BYTES = 256 * 1024


class Connection(Protocol):
    """What a listener can do with any of its connections."""

    def sweep(self, now: float) -> None:
        """Look at the time limits; `now` is in monotonic seconds."""
        ...

    def drain(self) -> None:
        """Take no new request; close once the ones in progress are answered."""
        ...

    def abort(self) -> None:
        """Cut it."""
        ...


class Receiver(asyncio.BufferedProtocol):
    """A protocol that gets its data through one buffer that all connections share.

    An ordinary protocol is handed a new object of 256 KB for each read, which costs three system calls and
    page faults to make, shrink and free. The transports of the selector loops and of uvloop fill the buffer
    and report it within one callback, so there is never more than one user of it.
    """

    service: Service

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.service.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self.service.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        raise AssertionError("a receiver says what it does with data")


class Flushed(Protocol):
    def flush(self) -> None: ...

    def abort(self) -> None: ...


class Flusher:
    """Calls `flush` of everything that was written to in this turn of the loop, once, with one callback for all.

    Writers only note that they are dirty, so a connection with a hundred streams sends one joined piece.
    """

    __slots__ = ("_call_soon", "_dirty")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._dirty: list[Flushed] = []

    def add(self, item: Flushed) -> None:
        """`item` must not add itself again before its `flush` was called."""
        if not self._dirty:
            self._call_soon(self._flush)
        self._dirty.append(item)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for item in dirty:
            try:
                item.flush()
            except Exception:
                log.exception("sending failed")
                item.abort()


class Service:
    """What the connections of one listener share."""

    __slots__ = (
        "_date",
        "_names",
        "_second",
        "buffer",
        "clock",
        "connections",
        "draining",
        "flusher",
        "handler",
        "http2_names",
        "limits",
        "loop",
        "monotonic",
        "on_empty",
    )

    def __init__(self, handler: Handler, limits: Limits, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self.handler = handler
        self.limits = limits
        self.clock = clock
        self.monotonic = clock.monotonic
        self.loop = loop
        self.flusher = Flusher(loop)
        self.connections: set[Connection] = set()
        self.draining = False
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.on_empty: Callable[[], None] | None = None
        self._second = -1
        self._date = ""
        self._names: dict[bytes, str] = {}
        self.http2_names: dict[bytes, str] = {}  # header names that are valid as they are

    def date(self) -> str:
        """The value of the ``date`` header, made once a second (RFC 9110 §5.6.7)."""
        second = int(self.clock.now())
        if second != self._second:
            self._second = second
            self._date = formatdate(second, usegmt=True)
        return self._date

    def name(self, raw: bytes) -> str:
        """A header name in lower case; the ones in use are remembered."""
        known = self._names.get(raw)
        if known is not None:
            return known
        text = raw.decode("latin-1").lower()
        if len(self._names) < 256 and len(raw) <= 64:
            self._names[raw] = text
        return text

    def joined(self, connection: Connection) -> None:
        self.connections.add(connection)

    def left(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if not self.connections and self.on_empty is not None:
            self.on_empty()


def whole_body(response: Response) -> bytes | None:
    """The body, when it is at hand; None for an answer that goes on. Raises TypeError for what can't be sent."""
    if response.stream is not None or isinstance(response.body, AsyncIterator):
        return None
    if not isinstance(response.body, bytes):
        raise TypeError(f"{type(response.body).__name__} can't be the body of an answer")
    return response.body


def panic() -> Response:
    """The answer to a request whose handler failed (as Kubernetes' panic recovery has it)."""
    return Response(500, list(PANIC), PANIC_TEXT)


class Sink(Protocol):
    """The stream of a connection, as `pump` needs it."""

    def write(self, data: bytes) -> None: ...

    @property
    def buffered(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    async def drained(self) -> None:
        """Wait until little enough is buffered, or until the stream has ended."""
        ...


async def pump(body: AsyncIterator[bytes], sink: Sink) -> None:
    """Send what `body` yields, never much faster than the peer takes it. An exception cuts the answer."""
    try:
        async for chunk in body:
            if sink.closed:
                return
            sink.write(chunk)
            if sink.buffered > PUMP_HIGH_BYTES:
                await sink.drained()
        sink.close()
    except asyncio.CancelledError:
        sink.abort()
        raise
    except Exception:
        log.exception("an answer failed halfway")
        sink.abort()
    finally:
        close = getattr(body, "aclose", None)
        if close is not None:
            await close()
