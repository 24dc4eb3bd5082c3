"""Reads what other processes have committed to the log, and passes it to the feed.

One per process, however many watches there are. Not used while this process is alone.

Must not know: connections, timers. See also: `feed`, which publishes; the backends call `poll`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oarlock.storage.backend import Rev, StorageError
from oarlock.storage.sql.errors import StoreBroken
from oarlock.storage.sql.feed import Feed
from oarlock.storage.sql.reads import LogRange

__all__ = ["Tailer"]

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
