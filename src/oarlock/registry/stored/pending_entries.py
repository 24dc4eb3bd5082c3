"""`PendingEntries`: completes cache entries whose description needs a conversion that has to wait (a webhook).

The cache describes a value at once. If that needs such a conversion, the entry is made without it and completed in
place later, many at a time; readers wait for `settled`.
Must not know: what is missing. See also: `stored.form`, which completes entries; `read`, which waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from oarlock.storage.cache.entry import Entry

log = logging.getLogger("oarlock.registry")

BATCH = 500
BATCH_BYTES = 1024 * 1024
"""The most entries, and bytes of them, that are converted at once."""

RETRY_S = 5.0
"""Seconds before a reader causes entries that couldn't be completed to be tried again."""

Complete = Callable[[Sequence[Entry]], Awaitable[Sequence[Entry]]]
"""Completes entries in place; returns those it couldn't complete, with the reason noted in each."""


class PendingEntries:
    """The incomplete entries of one resource, and those who wait for them."""

    def __init__(self, complete: Complete) -> None:
        self.complete = complete
        self._waiting: deque[Entry] = deque()
        self._failed: dict[str, Entry] = {}
        self._added = self._done = 0
        self._readers: list[tuple[int, asyncio.Future[None]]] = []
        self._retry_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self.busy = False
        """Whether any entry is incomplete; then wait for `settled`."""
        self.is_current: Callable[[Entry], bool] = lambda entry: True
        """Whether the entry is still in use; if not, it isn't tried again."""

    def add(self, entry: Entry) -> None:
        """Begin to complete `entry`."""
        self._waiting.append(entry)
        self._added += 1
        self.busy = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="registry: pending conversions")

    def forget(self, key: str, rev: int) -> None:
        """The value at `key` since `rev` is complete: older entries of that key needn't be tried again."""
        if key in self._failed and self._failed[key].rev <= rev:
            del self._failed[key]
            self._look()

    async def settled(self) -> None:
        """Wait until everything added before has been completed or has failed."""
        loop = asyncio.get_running_loop()
        if self._failed and loop.time() >= self._retry_at:
            again, self._failed = self._failed, {}
            for entry in filter(self.is_current, again.values()):
                self.add(entry)
            self._look()
        if self._done < self._added:
            done: asyncio.Future[None] = loop.create_future()
            self._readers.append((self._added, done))
            await done

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._batch()
                try:
                    failed = await self.complete(batch)
                except Exception:
                    log.exception("completing %d entries failed", len(batch))
                    failed = batch
                for entry in failed:
                    self._failed[entry.key] = entry
                    self._retry_at = asyncio.get_running_loop().time() + RETRY_S
                self._done += len(batch)
                self._notify()
        finally:
            self._task = None
            self._done = self._added - len(self._waiting)
            self._look()
            self._notify()

    def _notify(self) -> None:
        waiting, self._readers = self._readers, []
        for until, done in waiting:
            if until > self._done and self._task is not None:
                self._readers.append((until, done))
            elif not done.done():
                done.set_result(None)

    def _batch(self) -> list[Entry]:
        batch: list[Entry] = []
        size = 0
        while self._waiting and len(batch) < BATCH and size < BATCH_BYTES:
            entry = self._waiting.popleft()
            size += len(entry.body)
            batch.append(entry)
        return batch

    def _look(self) -> None:
        self.busy = bool(self._waiting or self._failed or self._task is not None)
