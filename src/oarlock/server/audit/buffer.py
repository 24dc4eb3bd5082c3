"""`EventBuffer`: events that wait for a sink that takes time. A task sends them in batches.

It is bounded in events and in bytes, those that are being sent included. What doesn't fit is dropped, so that a sink
that hangs never holds up a request. Source: k8s.io/apiserver ``plugin/pkg/audit/buffered``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from oarlock.client.clock import TimerClock
from oarlock.meta.dataclass import dataclass
from oarlock.server.audit.sink import Failures

BUFFER_BYTES = 64 * 1024 * 1024
"""The most bytes of events that wait for one sink, whatever their number."""

PLUGIN = "buffered"


@dataclass(frozen=True, slots=True)
class Throttle:
    """So many batches a second on average, and so many at once after a pause."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True)
class Batching:
    """How many events wait at most, and how they are sent: `senders` batches at a time."""

    buffer_size: int
    max_size: int
    max_wait_s: float = 0.0
    max_bytes: int = BUFFER_BYTES
    throttle: Throttle | None = None
    senders: int = 1


class _WaitingEvent(NamedTuple):
    line: bytes
    written: asyncio.Future[bool] | None


Send = Callable[[Sequence[bytes]], Awaitable[bool]]


class EventBuffer:
    """Gives batches of lines to `send`, which says whether it took them, and never raises."""

    def __init__(self, send: Send, batching: Batching, clock: TimerClock, failures: Failures) -> None:
        self._send = send
        self._batching = batching
        self._clock = clock
        self._failures = failures
        self._waiting: deque[_WaitingEvent] = deque()
        self._events = 0
        self.held_bytes = 0
        self._changed = asyncio.Event()
        self._free = asyncio.Semaphore(batching.senders)
        self._sender: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._closing = False
        self._tokens = float(batching.throttle.burst if batching.throttle else 0)
        self._refilled = clock.monotonic()

    def put(self, line: bytes) -> bool:
        """Take an event, or drop it if the buffer is full: whether it was taken."""
        return self._put(line, None)

    def put_and_wait(self, line: bytes) -> Awaitable[bool] | bool:
        """The same; await it to know whether the event was written."""
        written = asyncio.get_running_loop().create_future()
        return written if self._put(line, written) else False

    def _put(self, line: bytes, written: asyncio.Future[bool] | None) -> bool:
        if self._closing:
            self._failures.report(PLUGIN, 1, "the server is closing")
            return False
        if self._events >= self._batching.buffer_size or self.held_bytes + len(line) > BUFFER_BYTES:
            self._failures.report(PLUGIN, 1, "the buffer is full")
            return False
        if self._sender is None:
            self._sender = asyncio.create_task(self._run())
        self._waiting.append(_WaitingEvent(line, written))
        self._events += 1
        self.held_bytes += len(line)
        if len(self._waiting) in (1, self._batching.max_size):
            self._changed.set()
        return True

    async def close(self, timeout_s: float) -> None:
        """Send what is waiting; after `timeout_s` the rest is dropped."""
        self._closing = True
        self._changed.set()
        if self._sender is not None:
            await asyncio.wait({self._sender}, timeout=timeout_s)
            tasks = {self._sender, *self._sending}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if self._events:
            self._failures.report(PLUGIN, self._events, "the server closes, and they can't be sent")
        for waiting in self._waiting:
            if waiting.written is not None and not waiting.written.done():
                waiting.written.set_result(False)
        self._waiting.clear()

    async def _run(self) -> None:
        while not (self._closing and not self._waiting):
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
                continue
            await self._fill()
            await self._throttled()
            await self._free.acquire()
            batch = self._next_batch()
            task = asyncio.create_task(self._deliver(batch))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        while self._sending:
            await asyncio.wait(set(self._sending))

    async def _fill(self) -> None:
        """Wait until a batch is full, or its time is up."""
        batching = self._batching
        if not batching.max_wait_s or batching.max_size == 1:
            return
        timer = asyncio.ensure_future(self._clock.sleep(batching.max_wait_s))
        try:
            while len(self._waiting) < batching.max_size and not timer.done() and not self._closing:
                self._changed.clear()
                changed = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait((timer, changed), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
        finally:
            timer.cancel()

    async def _throttled(self) -> None:
        throttle = self._batching.throttle
        if throttle is None or self._closing:
            return
        now = self._clock.monotonic()
        self._tokens = min(throttle.burst, self._tokens + (now - self._refilled) * throttle.per_second)
        self._refilled = now
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / throttle.per_second)

    def _next_batch(self) -> list[_WaitingEvent]:
        batch: list[_WaitingEvent] = []
        size = 0
        while self._waiting and len(batch) < self._batching.max_size:
            size += len(self._waiting[0].line)
            if batch and size > self._batching.max_bytes:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _deliver(self, batch: Sequence[_WaitingEvent]) -> None:
        good = False
        try:
            good = await self._send([waiting.line for waiting in batch])
            self._events -= len(batch)  # those that are cancelled stay counted: nobody has them
        finally:
            self.held_bytes -= sum(len(waiting.line) for waiting in batch)
            self._free.release()
            for sent in batch:
                if sent.written is not None and not sent.written.done():
                    sent.written.set_result(good)
