"""`NetworkBackend`: a memory store as if it were on another machine.

It promises what `oarlock.storage.backend` says and nothing more. Requests and answers take a random time, so they
overtake one another; the events of a watch come on a stream of their own, before or after the results of the writes,
together or apart; progress is only reported on request; every value is a copy. With `Faults`, calls fail before
or after they were executed, and watches break.

Several of these on one store are several servers. Run the tests of what stands on a backend on it.

Must not know: who is tested with it. See also: `support.SkippingBackend` for gaps between revisions.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.net.futures import shared
from oarlock.storage.backend import (
    KEEP_TTL,
    KV,
    Backend,
    Batch,
    Caps,
    Damaged,
    Deliver,
    Failed,
    Findings,
    OutcomeUnknown,
    Page,
    Rev,
    StorageError,
    StoreEvent,
    Unavailable,
    WriteResult,
)
from oarlock.storage.watchers import RangeWatch

T = TypeVar("T")

_TURNS = (0, 0, 0, 1, 1, 2, 3, 7)
"""How many turns of the loop a message takes."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How often something goes wrong, each between 0 and 1.

    `unavailable`: a call fails, and was not executed. `unknown`: the answer to a write is lost; it may have been
    executed, or not, or will be after the error. `cut`: a delivery to a watch fails, and with it the watch.
    """

    unavailable: float = 0.0
    unknown: float = 0.0
    cut: float = 0.0


NO_FAULTS = Faults()


class NetworkBackend:
    """A connection to `remote`, which outlives it. `seed` makes it repeatable; `faults` may be changed at any time."""

    def __init__(self, remote: Backend, *, seed: int = 0, faults: Faults = NO_FAULTS) -> None:
        self.caps = Caps(durable=True, max_value=remote.caps.max_value)
        self.faults = faults
        self.remote = remote
        self._dice = random.Random(seed)
        self._streams: dict[_Stream, None] = {}
        self._executing: set[asyncio.Task[Any]] = set()
        self._requested = 0
        self._closed = False

    async def start(self) -> None:
        await self.travel()

    async def close(self) -> None:
        """Finish the writes on their way. The store stays as it is."""
        self._closed = True
        await self.written()
        for stream in tuple(self._streams):
            stream.close()

    def known_rev(self) -> Rev | None:
        """None: others may write to the store at any time."""
        return None

    async def epoch(self) -> str:
        return await self._call(self.remote.epoch)

    async def current_rev(self) -> Rev:
        return await self._call(self.remote.current_rev)

    async def compact_rev(self) -> Rev:
        return await self._call(self.remote.compact_rev)

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        kv, at = await self._call(lambda: self.remote.get(key, rev=rev))
        return _copied(kv), at

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        page = await self._call(lambda: self.remote.list(start, end, rev=rev, limit=limit))
        return Page([kv._replace(value=_copy(kv.value)) for kv in page.kvs], page.rev, page.more, page.count)

    async def count(self, start: str, end: str) -> tuple[int, Rev]:
        return await self._call(lambda: self.remote.count(start, end))

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        sent = _copy(value)
        return await self._write(lambda: self.remote.put(key, sent, expect=expect, ttl_ms=ttl_ms))

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        return await self._write(lambda: self.remote.delete(key, expect=expect))

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> _Stream:
        stream = _Stream(self, RangeWatch((start, end), after, deliver, failed))
        self._streams[stream] = None

        async def begin() -> None:
            watch = await self.remote.watch(start, end, after=after, deliver=stream.send, failed=stream.send_error)
            stream.begin(watch.close)

        try:
            await self._call(begin)
        except BaseException:
            stream.close()
            raise
        return stream

    async def request_progress(self) -> None:
        self._requested += 1
        try:
            await self._call(self.remote.request_progress)
        finally:
            self._requested -= 1

    async def compact(self, rev: Rev) -> None:
        await self._call(lambda: self.remote.compact(rev))

    async def begin_epoch(self, above: Rev) -> Rev:
        return await self._call(lambda: self.remote.begin_epoch(above))

    async def check(self, *, quick: bool = False) -> Findings:
        return await self.remote.check(quick=quick)

    def cut(self) -> None:
        """Break every watch; what was on its way is lost."""
        for stream in tuple(self._streams):
            stream.cut()

    async def written(self) -> None:
        """Wait until every write on its way is executed, also those whose callers got an error."""
        if self._executing:
            await asyncio.wait(self._executing)

    # For the streams

    async def travel(self) -> None:
        """Take as long as a message may take."""
        for _ in range(self._dice.choice(_TURNS)):
            await asyncio.sleep(0)

    @property
    def tells_progress(self) -> bool:
        """Whether batches without events are sent now."""
        return self._requested > 0

    def happens(self, probability: float) -> bool:
        return probability > 0 and self._dice.random() < probability

    def ended(self, stream: _Stream) -> None:
        self._streams.pop(stream, None)

    # Internal

    async def _call(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._must_be_open()
        return await self._carried(call)

    async def _write(self, call: Callable[[], Coroutine[Any, Any, WriteResult]]) -> WriteResult:
        """A write that is on its way is executed, whatever becomes of the caller."""
        self._must_be_open()
        unknown = self.happens(self.faults.unknown)
        if unknown and self.happens(0.5):
            await self.travel()
            raise OutcomeUnknown("the connection was lost, and with it the request")
        executing = asyncio.create_task(self._carried(call))
        self._executing.add(executing)
        executing.add_done_callback(self._executing.discard)
        executing.add_done_callback(_retrieve_error)
        if unknown:
            await self.travel()
            raise OutcomeUnknown("the connection was lost, and with it the answer")
        result = await shared(executing)
        return result._replace(current=_copied(result.current))

    async def _carried(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        await self.travel()
        if self.happens(self.faults.unavailable):
            raise Unavailable("the connection was refused")
        result = await call()
        await self.travel()
        return result

    def _must_be_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")


class _Stream:
    """The way of one watch's events from the store to this process: in order, later, in other portions."""

    def __init__(self, network: NetworkBackend, end: RangeWatch) -> None:
        self._network = network
        self._end = end
        self._messages: deque[Batch | StorageError] = deque()
        self._carrier: asyncio.Task[None] | None = None
        self._close_source: Callable[[], None] = _noop

    def begin(self, close_source: Callable[[], None]) -> None:
        self._close_source = close_source
        if self._end.closed:
            close_source()

    def send(self, batch: Batch) -> None:
        if batch.events or self._network.tells_progress:
            self._add(Batch(tuple([_copied_event(event) for event in batch.events]), batch.rev))

    def send_error(self, error: StorageError) -> None:
        self._add(error)

    def _add(self, message: Batch | StorageError) -> None:
        if not self._end.closed:
            self._messages.append(message)
            if self._carrier is None:
                self._carrier = asyncio.get_running_loop().create_task(self._carry())

    async def _carry(self) -> None:
        try:
            while self._messages:
                await self._network.travel()
                if self._network.happens(self._network.faults.cut):
                    self.cut()
                    return
                self._deliver(self._messages.popleft())
                if self._end.closed:
                    self.close()
                    return
        finally:
            self._carrier = None

    def _deliver(self, message: Batch | StorageError) -> None:
        if isinstance(message, StorageError):
            self._end.fail(message)
            return
        if len(message.events) > 1 and self._network.happens(0.5):
            first, *rest = message.events
            self._messages.appendleft(Batch(tuple(rest), message.rev))
            message = Batch((first,), first.rev)
        elif self._messages and isinstance(following := self._messages[0], Batch) and self._network.happens(0.5):
            self._messages.popleft()
            message = Batch(message.events + following.events, following.rev)
        self._end.send(message.events, message.rev, past=True)

    def cut(self) -> None:
        self._end.fail(Unavailable("the connection of the watch was lost"))
        self.close()

    def close(self) -> None:
        self._end.close()
        self._messages.clear()
        self._close_source()
        self._network.ended(self)
        carrier = self._carrier
        if carrier is not None and carrier is not asyncio.current_task():
            carrier.cancel()


def _noop() -> None:
    return None


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a task whose caller has gone, so that asyncio doesn't log it."""
    if not task.cancelled():
        task.exception()


def _copy(value: bytes) -> bytes:
    return value if isinstance(value, Damaged) else bytes(bytearray(value))


def _copied(kv: KV | None) -> KV | None:
    return kv and kv._replace(value=_copy(kv.value))


def _copied_event(event: StoreEvent) -> StoreEvent:
    value, previous = event.value, event.prev_value
    return event._replace(
        value=None if value is None else _copy(value), prev_value=None if previous is None else _copy(previous)
    )
