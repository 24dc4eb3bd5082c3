"""Publishes events to the watches of this process, in revision order. Lives on the event loop.

Events come from two sources that may overlap: this process's own commits, and parts of the log that other processes
wrote. Events that were published already are dropped; the rest must follow without a gap.

Must not know: SQL, threads. See also: `tailer`, which reads the commits of others.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from itertools import count

from oarlock.storage.backend import Compacted, Rev, StorageError, StoreEvent
from oarlock.storage.watchers import Watchers

__all__ = ["Feed"]


class Feed:
    """`last` is the revision up to which all watches of this process have been delivered."""

    def __init__(self, rev: Rev) -> None:
        self.last: Rev = rev
        self.watchers = Watchers()
        self._waiters: list[tuple[Rev, int, asyncio.Future[None]]] = []
        self._order = count()

    def take(self, floor: Rev, events: Sequence[StoreEvent], rev: Rev) -> None:
        """Publish the new ones of `events`, which are complete above `floor` and up to `rev`."""
        if rev <= self.last:
            return
        if floor > self.last:
            # History was compacted faster than it was read: watches that need the lost part can't continue.
            for watch in self.watchers:
                if watch.last < floor:
                    watch.fail(Compacted(floor, rev))
            self.last = floor
        new = events[self.last - floor :] if floor < self.last else events
        if len(new) != rev - self.last or (new and new[0].rev != self.last + 1):
            self.fail(StorageError(f"the log has a hole above revision {self.last}: run `oarlock storage check`"))
        self.last = rev
        self.watchers.publish(new, rev)
        self._wake()

    def fail(self, error: StorageError) -> None:
        """End every watch and waiter with an error: there is a gap in the events."""
        self.watchers.fail(error)
        self.give_up(error)

    async def reached(self, rev: Rev) -> None:
        """Wait until everything up to `rev` has been published."""
        if self.last < rev:
            future = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiters, (rev, next(self._order), future))
            await future

    def close(self, error: StorageError) -> None:
        """Drop the watches without an error; waiters for a revision get `error`."""
        self.watchers.close()
        self.give_up(error)

    def give_up(self, error: StorageError) -> None:
        """Raise `error` in all that wait for a revision."""
        waiters, self._waiters = self._waiters, []
        for _, _, future in waiters:
            if not future.done():
                future.set_exception(error)

    def _wake(self) -> None:
        while self._waiters and self._waiters[0][0] <= self.last:
            future = heapq.heappop(self._waiters)[2]
            if not future.done():
                future.set_result(None)
