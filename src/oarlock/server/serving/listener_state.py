"""`ListenerState`: what all connections of one listener share: handler, limits, clock, flusher.

Independent of the protocol. See also: `http1.connection`, `http2.connection`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from email.utils import formatdate
from typing import Protocol

from oarlock.endpoints.http import BodySource, BrokenAnswer, Handler, Response, ResponseBody
from oarlock.endpoints.unsent import Unsent
from oarlock.http2.header_blocks import HeaderFields
from oarlock.meta.context import Clock
from oarlock.meta.memo import Memo
from oarlock.server.serving.config import ConnectionLimits
from oarlock.server.serving.freed_memory import FreedMemory
from oarlock.server.serving.http2.answer_blocks import AnswerBlocks
from oarlock.server.serving.known_heads import Http1Head, Http2Head, known_heads
from oarlock.server.serving.slow_readers import SlowReader

__all__ = [
    "PANIC",
    "PANIC_TEXT",
    "Connection",
    "Flushable",
    "Flusher",
    "ListenerState",
    "Receiver",
    "Sink",
    "body_length",
    "log",
    "panic_response",
    "pump",
]

log = logging.getLogger("oarlock.serving")

PANIC_TEXT = b"This request caused apiserver to panic. Look in the logs for details.\n"
PANIC = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")]
READ_BYTES = 64 * 1024


class Connection(Protocol):
    """The interface of a connection to its listener."""

    def sweep(self, now: float) -> None:
        """Check the time limits; `now` is in monotonic seconds."""
        ...

    def drain(self) -> None:
        """Accept no new request; close when those in progress are answered."""
        ...

    def abort(self) -> None:
        """Abort the connection."""
        ...

    def readers(self) -> Iterable[SlowReader]:
        """The clients or streams with unsent bytes."""
        ...


class Receiver(asyncio.BufferedProtocol):
    """A protocol that receives through one buffer shared by all connections.

    An ordinary protocol gets a new object of 256 KB for each read, which costs three system calls and page faults. The
    transports of the selector loops and of uvloop fill the buffer and report it within one callback, so it never has
    more than one user.
    """

    listener: ListenerState

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.listener.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self.listener.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        raise AssertionError("a subclass receives")


class Flushable(Protocol):
    def flush(self) -> None: ...

    def abort(self) -> None: ...


class Flusher:
    """Calls `flush` of everything that was written to in this turn of the event loop, in one callback.

    So a connection with a hundred streams sends one joined piece.
    """

    __slots__ = ("_call_soon", "_dirty")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._dirty: list[Flushable] = []

    def add(self, item: Flushable) -> None:
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


class ListenerState:
    """The parameters and state that connections of one listener share."""

    __slots__ = (
        "_date",
        "_second",
        "answer_blocks",
        "buffer",
        "clock",
        "connections",
        "draining",
        "flusher",
        "freed_memory",
        "handler",
        "http1_heads",
        "http2_heads",
        "limits",
        "loop",
        "monotonic",
        "on_empty",
        "unsent",
    )

    def __init__(
        self, handler: Handler, limits: ConnectionLimits, clock: Clock, loop: asyncio.AbstractEventLoop, unsent: Unsent
    ) -> None:
        self.handler = handler
        self.unsent = unsent
        self.limits = limits
        self.clock = clock
        self.monotonic = clock.monotonic
        self.loop = loop
        self.flusher = Flusher(loop)
        self.connections: set[Connection] = set()
        self.freed_memory = FreedMemory()
        self.answer_blocks = AnswerBlocks()
        self.http1_heads: Memo[bytes, Http1Head] = known_heads()
        self.http2_heads: Memo[HeaderFields, Http2Head] = known_heads()
        self.draining = False
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.on_empty: Callable[[], None] | None = None
        self._second = -1
        self._date = ""

    def date(self) -> str:
        """The value of the ``date`` header, made once a second (RFC 9110 §5.6.7)."""
        second = int(self.clock.now())
        if second != self._second:
            self._second = second
            self._date = formatdate(second, usegmt=True)
        return self._date

    def add(self, connection: Connection) -> None:
        self.connections.add(connection)

    def remove(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self.freed_memory.connection_ended()
        if not self.connections and self.on_empty is not None:
            self.on_empty()


def body_length(body: ResponseBody) -> int | None:
    """The size of a body in bytes, None if unknown before its end. Raises TypeError for an unsupported type."""
    if isinstance(body, bytes):
        return len(body)
    if isinstance(body, BodySource):
        return body.length
    if not isinstance(body, AsyncIterator):
        raise TypeError(f"{type(body).__name__} can't be the body of an answer")
    return None


def panic_response() -> Response:
    """The answer to a request whose handler failed, as Kubernetes' panic recovery has it."""
    return Response(500, list(PANIC), PANIC_TEXT)


class Sink(Protocol):
    """A connection's stream, as `pump` uses it."""

    def write(self, data: bytes) -> None: ...

    @property
    def closed(self) -> bool: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    async def room(self) -> None:
        """Wait until the client can receive more, or the stream has ended."""
        ...


async def pump(body: AsyncIterator[bytes], sink: Sink) -> None:
    """Send what `body` yields, as fast as the client reads. An exception cuts the answer."""
    try:
        while True:
            await sink.room()
            if sink.closed:
                return
            chunk = await anext(body, None)
            if chunk is None:
                break
            sink.write(chunk)
        sink.close()
    except asyncio.CancelledError:
        sink.abort()
        raise
    except BrokenAnswer as error:
        log.error("an answer broke off: %s", error)
        sink.abort()
    except Exception:
        log.exception("an answer failed halfway")
        sink.abort()
    finally:
        close = getattr(body, "aclose", None)
        if close is not None:
            await close()
