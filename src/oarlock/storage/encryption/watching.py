"""`DecryptedWatch`: passes the events of a watch on with their values decrypted, in order.

As long as every key is at hand, a batch is passed on in the same step. When one must be asked for, or a batch is long,
it waits with all that come after it for a task that does it in slices. A value that can't be decrypted is `Damaged`;
whoever watches is told of the change all the same.

Must not know: which transformer a value needs. See also: `backend`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from oarlock.storage.backend import Batch, Compacted, Deliver, Failed, Rev, StorageError, StoreEvent, Watch
from oarlock.storage.encryption.kms.provider import KeyNeeded
from oarlock.storage.pacing import Pacer

__all__ = ["DecryptedWatch", "Values"]

log = logging.getLogger("oarlock.storage.encryption")

AT_ONCE_BYTES = 64 * 1024
"""A batch of more bytes is decrypted in slices."""

QUEUED_BYTES = 64 << 20
"""More encrypted bytes don't wait here: the watch fails, and may be begun again where it was."""


class Values(Protocol):
    """Decrypts values."""

    def readable(self, key: str, data: bytes) -> bytes:
        """The value, `Damaged` if it can't be read. Raises `KeyNeeded`."""
        ...

    async def readable_soon(self, key: str, data: bytes) -> bytes:
        """As `readable`, and asks for keys."""
        ...


class DecryptedWatch:
    """A `Watch`. `follow` it once the backend's watch has begun. `on_close` is called when it is over."""

    def __init__(self, values: Values, after: Rev, deliver: Deliver, failed: Failed) -> None:
        self.on_close: Callable[[], object] | None = None
        self._inner: Watch | None = None
        self._values: Final = values
        self._pass_on: Final = deliver
        self._pass_on_failure: Final = failed
        self._rev = after
        self._queue: deque[Batch] = deque()
        self._queued_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._over = False

    def follow(self, inner: Watch) -> None:
        if self._over:
            inner.close()
        else:
            self._inner = inner

    def close(self) -> None:
        self._over = True
        if self.on_close is not None:
            self.on_close()
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._inner is not None:
            self._inner.close()

    def end(self) -> None:
        """End the watch as if its history were compacted, so that its client lists again."""
        if not self._over:
            self._fail(Compacted(self._rev, self._rev))

    def deliver(self, batch: Batch) -> None:
        """For the backend's watch."""
        if self._over:
            return
        if self._task is None:
            size = _size(batch)
            if size <= AT_ONCE_BYTES:
                try:
                    events = tuple([self._decrypted(event) for event in batch.events])
                except KeyNeeded:
                    pass
                else:
                    self._forward(Batch(events, batch.rev))
                    return
        self._enqueue(batch)

    def failed(self, error: StorageError) -> None:
        """For the backend's watch. What still waits here is dropped: it comes again in the next watch."""
        if not self._over:
            self._fail(error)

    def _fail(self, error: StorageError) -> None:
        self.close()
        self._pass_on_failure(error)

    def _forward(self, batch: Batch) -> None:
        self._rev = max(self._rev, batch.rev)
        self._pass_on(batch)

    def _enqueue(self, batch: Batch) -> None:
        self._queue.append(batch)
        self._queued_bytes += _size(batch)
        if self._queued_bytes > QUEUED_BYTES and len(self._queue) > 1:
            self._fail(StorageError("values arrive faster than they can be decrypted"))
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain(), name="encryption: decrypt events")

    async def _drain(self) -> None:
        try:
            pacer = Pacer()
            while self._queue:
                batch = self._queue.popleft()
                self._queued_bytes -= _size(batch)
                events: list[StoreEvent] = []
                for event in batch.events:
                    events.append(await self._decrypted_soon(event))
                    await pacer.turn()
                if not self._queue:
                    self._task = None  # nothing waits any more: what comes next need not be queued
                self._forward(Batch(tuple(events), batch.rev))
                if self._task is None:
                    return
        except Exception as error:
            log.exception("decrypting events after revision %d failed", self._rev)
            self._task = None
            if not self._over:
                self._fail(StorageError(f"decrypting events failed: {error}"))

    def _decrypted(self, event: StoreEvent) -> StoreEvent:
        key, readable = event.key, self._values.readable
        value, before = event.value, event.prev_value
        return event._replace(
            value=None if value is None else readable(key, value),
            prev_value=None if before is None else readable(key, before),
        )

    async def _decrypted_soon(self, event: StoreEvent) -> StoreEvent:
        key, readable = event.key, self._values.readable_soon
        value, before = event.value, event.prev_value
        return event._replace(
            value=None if value is None else await readable(key, value),
            prev_value=None if before is None else await readable(key, before),
        )


def _size(batch: Batch) -> int:
    return sum([len(event.value or b"") + len(event.prev_value or b"") for event in batch.events])
