"""Begins a watch: replays the log up to where the feed is, then goes on with the feed.

Must not know: connections. See also: `feed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oarlock.storage.backend import Rev, StorageError
from oarlock.storage.sql.dialect import KeyRange
from oarlock.storage.sql.feed import Feed
from oarlock.storage.sql.reads import LogRange
from oarlock.storage.watchers import RangeWatch

__all__ = ["ReadLog", "begin_watch"]

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
    watch.replay(log_range.events, log_range.rev)
    return len(log_range.events) == _REPLAY_EVENTS
