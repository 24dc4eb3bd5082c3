"""`BaseStream`: the unsent bytes of one answer, independent of the protocol.

Bytes are held by reference, so an event for a thousand watches exists once. What a flush leaves is counted against the
budget of the process (`Unsent`), and so is a transport's write buffer (`TransportBuffer`). See also: `http1.stream`,
`http2.stream`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Any

from oarlock.endpoints.http import BodySource, ResponseBody, SharedWriter, Unsent
from oarlock.server.serving.listener_state import Pace, log

__all__ = [
    "LOW_BYTES",
    "TLS_BUFFER_BYTES",
    "TRANSPORT_HIGH_BYTES",
    "TRANSPORT_LOW_BYTES",
    "BaseStream",
    "TransportBuffer",
]

TRANSPORT_HIGH_BYTES = 128 * 1024

TRANSPORT_LOW_BYTES = 32 * 1024

TLS_BUFFER_BYTES = 4 * (16 * 1024 + 64)
"""The encrypted bytes a TLS connection collects before it sends them: four records."""


class TransportBuffer:
    """The counted bytes of one transport. A TLS connection that is behind has a buffer of records as well."""

    __slots__ = ("_overhead", "_transport", "_unsent", "counted")

    def __init__(self, unsent: Unsent, transport: Any, secure: bool) -> None:
        self._unsent = unsent
        self._transport = transport
        self._overhead = TLS_BUFFER_BYTES if secure else 0
        self.counted = 0
        """Bytes that are counted, as of the last `recount`."""

    def recount(self) -> None:
        """Update the count. Called after writes that left something, and periodically while there is something."""
        size = self._transport.get_write_buffer_size()
        if size:
            size += self._overhead
        if size != self.counted:
            self._unsent.add(size - self.counted)
            self.counted = size

    def close(self) -> None:
        self._unsent.add(-self.counted)
        self.counted = 0


LOW_BYTES = 64 * 1024
"""A waiting writer goes on when no more bytes than this are buffered."""


class BaseStream:
    """See `oarlock.endpoints.http.Stream`; subclasses send the bytes.

    `source` is read when the buffer is empty and the client can receive more. `accepted` counts sent bytes.
    """

    __slots__ = (
        "_callbacks",
        "_charged",
        "_chunks",
        "_offset",
        "_unsent",
        "_waiters",
        "accepted",
        "closed",
        "ending",
        "open_ended",
        "pace",
        "pending",
        "source",
        "started_at",
    )

    def __init__(self, unsent: Unsent) -> None:
        self._unsent = unsent
        self._chunks: list[bytes] = []  # a deque would be ten times as large while it is empty
        self._offset = 0  # how much of the first chunk was sent
        self._charged = 0  # how many of the first chunks are counted
        self._callbacks: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self.pending = 0
        self.accepted = 0
        self.source: BodySource | None = None
        self.ending = False
        self.closed = False
        self.open_ended = False  # an open-ended answer: a watch, a tunnel
        self.started_at = 0.0  # when its head was made, in monotonic seconds
        self.pace: Pace | None = None

    @property
    def shared_writer(self) -> SharedWriter | None:
        return None

    def on_close(self, callback: Callable[[], None]) -> None:
        if self.closed:
            callback()
        else:
            self._callbacks.append(callback)

    async def wait(self) -> None:
        """Wait until the buffer is small, or the stream has ended; at the next `wake`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def load(self, body: ResponseBody) -> None:
        """Take a whole answer: bytes at once, a source as it is read."""
        if isinstance(body, BodySource):
            self.source = body
        else:
            assert isinstance(body, bytes)
            self.append(body)
            self.ending = True

    def append(self, data: bytes) -> None:
        self._chunks.append(data)
        self.pending += len(data)

    def read_source(self, most: int) -> None:
        """Produce the next piece of the body, of about `most` bytes."""
        source = self.source
        assert source is not None
        data = source.read(most)
        if data:
            self.append(data)
        if source.done:
            self.source = None
            self.ending = True

    def shift_all(self) -> bytes:
        """All buffered bytes, in one piece. Nothing of the first chunk may have been sent."""
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self.accepted += self.pending
        self.pending = 0
        if self._charged:
            self._release()
        chunks.clear()
        return data

    def _release(self) -> None:
        """Release what was counted against the budget."""
        for chunk in islice(self._chunks, self._charged):
            self._unsent.release(chunk)
        self._charged = 0

    def shift(self, parts: list[Any], most: int) -> int:
        """Move at most `most` buffered bytes to `parts`; returns how many."""
        chunks = self._chunks
        size = self.pending
        if size <= most:
            if self._charged:
                self._release()
            if self._offset:
                parts.append(memoryview(chunks[0])[self._offset :])
                parts.extend(islice(chunks, 1, None))
                self._offset = 0
            else:
                parts.extend(chunks)
            chunks.clear()
            self.pending = 0
        else:
            size = most
            self._shift_part(parts, most)
            self.pending -= size
        self.accepted += size
        return size

    def _shift_part(self, parts: list[Any], most: int) -> None:
        """Move `most` of more bytes, and drop the chunks that are whole with them together: there may be thousands."""
        chunks, offset, whole = self._chunks, self._offset, 0
        while most:
            chunk = chunks[whole]
            end = offset + most
            if len(chunk) > end:
                parts.append(memoryview(chunk)[offset:end])
                offset = end
                break
            parts.append(memoryview(chunk)[offset:] if offset else chunk)
            most = end - len(chunk)
            offset = 0
            whole += 1
        self._offset = offset
        released = min(whole, self._charged)
        for chunk in islice(chunks, released):
            self._unsent.release(chunk)
        self._charged -= released
        del chunks[:whole]

    def charge(self) -> None:
        """Count what is still buffered against the budget."""
        new = len(self._chunks) - self._charged
        if new > 0:
            self._charged += new
            for chunk in islice(reversed(self._chunks), new):
                self._unsent.hold(chunk)

    def ended(self) -> None:
        """The stream has ended: call the `on_close` callbacks."""
        if self.closed:
            return
        self.closed = True
        if self._charged:
            self._release()
        self._chunks.clear()
        self.pending = 0
        self.source = None
        if self._waiters:
            self.wake()
        if not self._callbacks:
            return
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("a callback of a closed stream failed")
