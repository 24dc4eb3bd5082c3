"""Reads what other processes have committed to the log, and passes it to the feed.

One per process, however many watches there are. Not used while this process is alone.

Must not know: sockets, timers. See also: `feed`, which publishes; `backend`, which calls `poll`.
"""

from __future__ import annotations

import asyncio
from functools import partial

from oarlock.storage.backend import StorageError
from oarlock.storage.sqlite.errors import StoreBroken
from oarlock.storage.sqlite.feed import Feed
from oarlock.storage.sqlite.reads import log_after
from oarlock.storage.sqlite.threads import ReaderThread

__all__ = ["Tailer"]

_MAX_EVENTS = 500


class Tailer:
    """Commits of this process may be among what is read: `Feed.take` takes each event once."""

    def __init__(self, feed: Feed, reader: ReaderThread) -> None:
        self._feed = feed
        self._reader = reader
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def poll(self) -> None:
        """Read on, because something may have been committed. Returns at once."""
        self._again = True
        if self._task is None:
            self._task = asyncio.create_task(self._pull(), name="oarlock store: tailer")

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._reader.close()

    async def _pull(self) -> None:
        try:
            while self._again:
                self._again = False
                log_range = await self._reader.run(partial(log_after, after=self._feed.last, limit=_MAX_EVENTS))
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
