"""The watches of one process, shared by every backend that publishes events in this process.

A backend passes events in revision order; each watch gets those of its range that it hasn't had.
Every watch also learns the revision, so a cache of a quiet resource is as fresh as one of a busy resource.

Must not know: where events come from, how they are stored. See also: `memory`, `sqlite.backend`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from oarlock.storage.backend import Batch, Deliver, Failed, Rev, StorageError, StoreEvent

__all__ = ["RangeWatch", "Watchers"]


class RangeWatch:
    """One watch of ``start <= key < end``. `last` is the revision up to which everything has been delivered."""

    __slots__ = ("_backlog", "_deliver", "_failed", "_watchers", "end", "last", "start")

    def __init__(self, span: tuple[str, str], after: Rev, deliver: Deliver, failed: Failed) -> None:
        self.start, self.end = span
        self.last = after
        self._deliver: Deliver | None = deliver
        self._failed = failed
        self._backlog: list[tuple[tuple[StoreEvent, ...], Rev]] | None = None
        self._watchers: Watchers | None = None

    @property
    def closed(self) -> bool:
        return self._deliver is None

    def close(self) -> None:
        self._deliver = None
        if self._watchers is not None:
            self._watchers.remove(self)
            self._watchers = None

    def attach(self, watchers: Watchers) -> None:
        self._watchers = watchers

    def hold(self) -> None:
        """Buffer events instead of delivering them, while history is being replayed."""
        self._backlog = []

    def release(self) -> None:
        """The replay is complete: deliver the buffered events, then deliver directly."""
        backlog, self._backlog = self._backlog, None
        for events, rev in backlog or ():
            self.send(events, rev)

    def send(self, events: Sequence[StoreEvent], rev: Rev, *, past: bool = False) -> None:
        """Deliver the `events` of this range that are new to this watch, and progress to `rev`.

        Those of the `past` are delivered while new ones are buffered (`hold`).
        """
        deliver = self._deliver
        if deliver is None:
            return
        start, end, last = self.start, self.end, self.last
        if self._backlog is not None and not past:
            self._backlog.append((tuple([event for event in events if start <= event.key < end]), rev))
            return
        if len(events) == 1:  # as nearly always: a comprehension is a call
            event = events[0]
            selected: tuple[StoreEvent, ...] = (event,) if start <= event.key < end and event.rev > last else ()
        else:
            selected = tuple([event for event in events if start <= event.key < end and event.rev > last])
        if rev > last:
            self.last = rev
        elif not selected:
            rev = last
        try:
            deliver(Batch(selected, rev))
        except Exception as error:
            # A consumer that raises must not cost the others their events, nor writers their results.
            self.fail(StorageError(f"a watch of {start!r} raised {error!r}"))
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a watch's deliver raised; the watch is closed", "exception": error}
            )

    def fail(self, error: StorageError) -> None:
        """End the watch with `error`, once."""
        if self._deliver is not None:
            self.close()
            self._failed(error)


class Watchers:
    """All watches of a backend in this process. Used from one event loop only."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: Final[dict[RangeWatch, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[RangeWatch]:
        return iter(tuple(self._all))

    def add(self, watch: RangeWatch) -> None:
        self._all[watch] = None
        watch.attach(self)

    def remove(self, watch: RangeWatch) -> None:
        self._all.pop(watch, None)

    def publish(self, events: Sequence[StoreEvent], rev: Rev) -> None:
        """Deliver `events`, in revision order, to every watch; they are complete up to `rev`."""
        for watch in tuple(self._all):
            watch.send(events, rev)

    def fail(self, error: StorageError) -> None:
        """End every watch."""
        for watch in tuple(self._all):
            watch.fail(error)

    def close(self) -> None:
        """Close every watch without an error: the store is being closed."""
        for watch in tuple(self._all):
            watch.close()
