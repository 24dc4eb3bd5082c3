"""`ListenerState`: what all connections of one listener share: handler, limits, clock, flusher, slow readers.

Slow readers are cut when memory runs short: a client must read `progress_bytes` of its `ConnectionLimits` within
`stall_timeout_s`. A finite answer must be read at that pace, and whole within `answer_timeout_s`; an open-ended one may
wait for any time while few bytes are buffered. The memory that many ended connections leave is given back to the system
(`FreedMemory`): the C library keeps their pages until told otherwise.
Independent of the protocol. See also: `http1.connection`, `http2.connection`; ``http.Unsent``, the process's budget.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from email.utils import formatdate
from typing import NamedTuple, Protocol

from oarlock.endpoints.http import BodySource, BrokenAnswer, Handler, Response, ResponseBody, Unsent
from oarlock.http2.header_blocks import HeaderFields
from oarlock.meta.context import Clock
from oarlock.meta.memo import Memo
from oarlock.server.serving.config import ConnectionLimits
from oarlock.server.serving.header_names import Http1Head, Http2Head, known_heads
from oarlock.server.serving.http2.heads import AnswerBlocks

__all__ = [
    "BUDGET",
    "CONNECTIONS",
    "CONTROL",
    "HARD",
    "PANIC",
    "PANIC_TEXT",
    "SLOW",
    "TIMEOUT",
    "Connection",
    "Flushable",
    "Flusher",
    "FreedMemory",
    "ListenerState",
    "Pace",
    "Receiver",
    "Sink",
    "SlowReader",
    "body_length",
    "cut_slowest",
    "log",
    "panic_response",
    "pump",
]

SLOW = "slow"

TIMEOUT = "timeout"

HARD = "backlog"

CONTROL = "unread"

BUDGET = "budget"

BUDGET_AFTER_CUT = 0.75
"""When readers are cut for the budget, it is brought down to this part of the limit."""


class Pace:
    """The pace of one reader. Its last progress was at `progress_at` (monotonic seconds)."""

    __slots__ = ("_counted", "_tolerated", "progress_at")

    def __init__(self, now: float) -> None:
        self._counted = 0
        self._tolerated = now
        self.progress_at = now

    def update(self, now: float, waiting: bool, accepted: int, enough: int) -> None:
        """`accepted` is what it has read in all; `enough` of that since the last progress is progress."""
        if not waiting or accepted - self._counted >= enough:
            self._counted = accepted
            self.progress_at = now

    def tolerate(self, now: float) -> None:
        """What is buffered at the moment may wait for any time."""
        self._tolerated = now

    def verdict(self, now: float, limits: ConnectionLimits, started_at: float | None) -> str:
        """Why a reader is to be cut, ``""`` if it isn't. `started_at` is when a finite answer began."""
        if now - max(self.progress_at, self._tolerated) > limits.stall_timeout_s:
            return SLOW
        return TIMEOUT if started_at is not None and now - started_at > limits.answer_timeout_s else ""


class SlowReader(NamedTuple):
    """A client that hasn't read all of its answer: `buffered` bytes wait for it, or more is produced as it reads.

    `cut` ends it now, for a reason.
    """

    progress_at: float
    buffered: int
    cut: Callable[[str], None]


def cut_slowest(readers: Iterable[SlowReader], unsent: Unsent) -> int:
    """Cut the slowest readers until the budget is kept with something to spare; returns how many.

    Bytes that other clients wait for too aren't freed with one of them, so this may have to be repeated.
    """
    excess = unsent.size - unsent.limit * BUDGET_AFTER_CUT
    cut = 0
    for reader in sorted(
        [candidate for candidate in readers if candidate.buffered],
        key=lambda candidate: (candidate.progress_at, -candidate.buffered),
    ):
        if excess <= 0:
            break
        reader.cut(BUDGET)
        excess -= reader.buffered
        cut += 1
    return cut


CONNECTIONS = 250
"""After how many connections that ended memory is given back."""

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


class FreedMemory:
    """Counts connections that end. `give_back` is called now and then."""

    __slots__ = ("_ended",)

    def __init__(self) -> None:
        self._ended = 0

    def connection_ended(self) -> None:
        self._ended += 1

    def give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give memory back, if enough connections have ended since: in a thread, since it may take milliseconds."""
        if self._ended >= CONNECTIONS and _trim is not None:
            self._ended = 0
            loop.run_in_executor(None, _trim, 0)


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
