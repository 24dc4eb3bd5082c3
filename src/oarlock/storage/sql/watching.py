"""Begins a watch: replays the log up to where the feed is, then goes on with the feed.

Must not know: connections. See also: `feed`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from itertools import count

from oarlock.storage.backend import Compacted, Rev, StorageError, StoreEvent
from oarlock.storage.sql.dialect import KeyRange
from oarlock.storage.sql.reads import LogRange, StoreBroken
from oarlock.storage.watchers import RangeWatch, Watchers

__all__ = ["Feed", "ReadLog", "Tailer", "begin_watch"]


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


_MAX_EVENTS = 500


class Tailer:
    """Commits of this process may be among what is read: `Feed.take` takes each event once.

    `read` returns the events after a revision, at most so many.
    """

    def __init__(self, feed: Feed, read: Callable[[Rev, int], Awaitable[LogRange]]) -> None:
        self._feed = feed
        self._read = read
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._closed = False

    def poll(self) -> None:
        """Read on, because something may have been committed. Returns at once; does nothing after `close`."""
        if self._closed:
            return  # a hint that comes then would open a session that nobody closes
        self._again = True
        if self._task is None:
            self._task = asyncio.create_task(self._pull(), name="oarlock store: tailer")

    async def close(self) -> None:
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _pull(self) -> None:
        try:
            while self._again:
                self._again = False
                log_range = await self._read(self._feed.last, _MAX_EVENTS)
                self._feed.take(log_range.floor, log_range.events, log_range.rev)
                if log_range.rev < log_range.head:
                    self._again = True
        except StoreBroken as error:
            self._feed.fail(error)
        except StorageError:
            # Any error: the next hint or poll tries again.
            pass
        finally:
            self._task = None


_REPLAY_EVENTS = 500

ReadLog = Callable[[KeyRange, tuple[Rev, Rev], int], Awaitable[LogRange]]
"""Reads the events of a range of keys between two revisions, at most so many."""


async def begin_watch(watch: RangeWatch, feed: Feed, read: ReadLog) -> None:
    """Deliver everything after ``watch.last``, from the log and then from `feed`; fails the watch where it can't."""
    try:
        # At first without buffering new events: during a long replay they would fill the memory.
        while watch.last < feed.last and await _replay(watch, feed.last, read):
            pass
        present = feed.last
        watch.hold()
        feed.watchers.add(watch)
        while watch.last < present and not watch.closed:
            await _replay(watch, present, read)
        watch.release()
    except StorageError as error:
        watch.fail(error)
    except asyncio.CancelledError:
        watch.close()
        raise


async def _replay(watch: RangeWatch, upto: Rev, read: ReadLog) -> bool:
    """Deliver the next events from the log. Returns whether the read returned a full page."""
    log_range = await read((watch.start, watch.end), (watch.last, upto), _REPLAY_EVENTS)
    watch.send(log_range.events, log_range.rev, past=True)
    return len(log_range.events) == _REPLAY_EVENTS
