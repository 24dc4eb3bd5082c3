"""`BaseStream`: what waits to be sent of one answer, whichever protocol carries it.

What is written is kept by reference, so an event that a thousand watches wait for is there once. What a flush leaves
behind is charged to the budget of the process (`Unsent`). Next: `http1_stream`, `http2_stream`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from oarlock.endpoints.http import BodySource
from oarlock.endpoints.unsent import Unsent
from oarlock.server.serving.readers import Pace
from oarlock.server.serving.service import log

__all__ = ["LOW_BYTES", "BaseStream"]

LOW_BYTES = 64 * 1024
"""A writer that waits goes on when no more than this is waiting."""


class BaseStream:
    """See `oarlock.endpoints.http.Stream`; a subclass says how its bytes leave.

    `source` is read when nothing else is waiting and the client takes more. `taken` counts what has left.
    """

    __slots__ = (
        "_callbacks",
        "_charged",
        "_chunks",
        "_offset",
        "_unsent",
        "_waiters",
        "began",
        "closed",
        "ending",
        "endless",
        "pace",
        "pending",
        "source",
        "taken",
    )

    def __init__(self, unsent: Unsent) -> None:
        self._unsent = unsent
        self._chunks: deque[bytes] = deque()
        self._offset = 0  # how much of the first chunk has left
        self._charged = 0  # how many of the first chunks are charged
        self._callbacks: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self.pending = 0
        self.taken = 0
        self.source: BodySource | None = None
        self.ending = False
        self.closed = False
        self.endless = False  # an answer without an end of its own: a watch, a tunnel
        self.began = 0.0  # when its head was made, in monotonic seconds
        self.pace: Pace | None = None

    def on_close(self, callback: Callable[[], None]) -> None:
        if self.closed:
            callback()
        else:
            self._callbacks.append(callback)

    async def wait(self) -> None:
        """Return when what is waiting has become little, or when it is over; at the next `wake`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def append(self, data: bytes) -> None:
        self._chunks.append(data)
        self.pending += len(data)

    def read_source(self, most: int) -> None:
        """Make the next piece of the body, of about `most` bytes."""
        source = self.source
        assert source is not None
        data = source.read(most)
        if data:
            self.append(data)
        if source.done:
            self.source = None
            self.ending = True

    def shift_all(self) -> bytes:
        """All that waits, in one piece. Nothing of its first chunk may have left."""
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self.taken += self.pending
        self.pending = 0
        if self._charged:
            self._release()
        chunks.clear()
        return data

    def _release(self) -> None:
        """Nothing that is here is charged any more."""
        for chunk in islice(self._chunks, self._charged):
            self._unsent.release(chunk)
        self._charged = 0

    def shift(self, parts: list[Any], most: int) -> int:
        """Move the first bytes that wait, `most` at most, to `parts`: how many."""
        chunks = self._chunks
        size = self.pending
        if size <= most:
            if self._charged:
                self._release()
            if self._offset:
                parts.append(memoryview(chunks.popleft())[self._offset :])
                self._offset = 0
            parts.extend(chunks)
            chunks.clear()
            self.pending = 0
        else:
            size = left = most
            while left:
                left -= self._shift_chunk(parts, left)
            self.pending -= size
        self.taken += size
        return size

    def _shift_chunk(self, parts: list[Any], most: int) -> int:
        chunk = self._chunks[0]
        offset = self._offset
        available = len(chunk) - offset
        if available > most:
            parts.append(memoryview(chunk)[offset : offset + most])
            self._offset = offset + most
            return most
        parts.append(memoryview(chunk)[offset:] if offset else chunk)
        self._drop_chunk()
        return available

    def _drop_chunk(self) -> None:
        chunk = self._chunks.popleft()
        self._offset = 0
        if self._charged:
            self._charged -= 1
            self._unsent.release(chunk)

    def charge(self) -> None:
        """What is still here waits for the client: count it."""
        new = len(self._chunks) - self._charged
        if new > 0:
            self._charged += new
            for chunk in islice(reversed(self._chunks), new):
                self._unsent.hold(chunk)

    def ended(self) -> None:
        """It is over, whoever ended it: tell those who asked."""
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
