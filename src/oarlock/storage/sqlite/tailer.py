"""Reads what other processes have committed to the log, and passes it to the feed.

One per process, however many watches there are. Not used while this process is alone.

Must not know: sockets, timers. Next: `feed`, which publishes; `backend`, which says when to look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import apsw

from oarlock.storage.backend import Rev, StorageError
from oarlock.storage.sqlite.errors import StoreBroken
from oarlock.storage.sqlite.feed import Feed
from oarlock.storage.sqlite.reads import Stretch, log_after
from oarlock.storage.sqlite.threads import ReaderThread

__all__ = ["Tailer"]

_AT_ONCE = 500


class Tailer:
    """`local_from` returns the first revision of a commit in progress in this process, 0 when there is none."""

    def __init__(self, feed: Feed, reader: ReaderThread, local_from: Callable[[], Rev]) -> None:
        self._feed = feed
        self._reader = reader
        self._local_from = local_from
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def look(self) -> None:
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
                stretch = await self._reader.run(partial(self._read, after=self._feed.last))
                self._feed.take(stretch.floor, stretch.events, stretch.rev)
                if stretch.rev < stretch.head:
                    self._again = True
        except StoreBroken as error:
            self._feed.fail(error)
        except StorageError:
            # Any error: the next hint or poll tries again.
            pass
        finally:
            self._task = None

    def _read(self, connection: apsw.Connection, after: Rev) -> Stretch:
        stretch = log_after(connection, after, _AT_ONCE)
        # This process's own commits are published by its writer, with the very bytes that were put. Asked after
        # reading: either the commit is still being reported, or its report is before this answer in the loop's queue.
        first = self._local_from()
        if first and stretch.rev >= first:
            rev = max(first - 1, stretch.floor)
            return Stretch(stretch.floor, stretch.events[: rev - stretch.floor], rev, stretch.head)
        return stretch
