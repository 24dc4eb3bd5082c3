"""`Observers`: the handlers and indices of an informer, which get every change in order, a few milliseconds at a time.

An observer that is slower than the changes come gets the last of several changes of an object, with the object as it
got it before: what waits is bounded by the number of objects. Must not know: where objects come from.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Generic, Protocol, TypeVar

from oarlock.meta.kinds import NamespacedName

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SLICE_S = 0.005
"""How long observers are called with changes before the event loop has its turn, in seconds.

They have slices of their own, beside those of ``storage.pacing``: what authorizes and admits follows informers, and
must not wait in the line of the answers that clients read."""


class ReadableObject(Protocol[T_co]):
    """One object at one revision, decoded when it is read."""

    @property
    def version(self) -> str:
        """Its resourceVersion."""
        ...

    def read(self) -> T_co | None:
        """The object; None when it doesn't fit its class."""
        ...


ObjectChange = tuple[NamespacedName, ReadableObject[T] | None, ReadableObject[T] | None]
"""An object before and after."""

Notify = Callable[[NamespacedName, ReadableObject[T] | None, ReadableObject[T] | None], None]


class Observer(Generic[T]):
    """A handler or an index. `tell` is called for each change, and may not raise.

    It is `behind` while there are changes for which `tell` wasn't called yet.
    """

    def __init__(self, tell: Notify[T]) -> None:
        self.behind = False
        self._notify = tell
        self._replays: deque[Iterator[ObjectChange[T] | None]] = deque()
        self._changes: OrderedDict[NamespacedName, tuple[ReadableObject[T] | None, ReadableObject[T] | None]] = (
            OrderedDict()
        )

    def replay(self, changes: Iterator[ObjectChange[T] | None]) -> None:
        """Tell it these, before what happens from now on. None is a pause."""
        self._queue_changes()
        self._replays.append(changes)
        self.behind = True

    def changed(self, key: NamespacedName, old: ReadableObject[T] | None, new: ReadableObject[T] | None) -> None:
        known = self._changes.get(key)
        if known is None:
            self._changes[key] = (old, new)
        elif known[0] is None and new is None:
            del self._changes[key]  # it never got it
        else:
            self._changes[key] = (known[0], new)
        self.behind = True

    def step(self) -> None:
        """Tell it one change, if it is behind."""
        if self._replays:
            try:
                change = next(self._replays[0])
            except StopIteration:
                self._replays.popleft()
                self.behind = bool(self._replays or self._changes)
                return
            if change is not None:
                self._notify(*change)
        elif self._changes:
            key, (old, new) = self._changes.popitem(last=False)
            self.behind = bool(self._changes)
            self._notify(key, old, new)
        else:
            self.behind = False

    def catch_up(self) -> None:
        """Tell it everything now."""
        while self.behind:
            self.step()

    def _queue_changes(self) -> None:
        """What is waiting comes before the next replay."""
        if self._changes:
            self._replays.append(iter([(key, *pair) for key, pair in self._changes.items()]))
            self._changes.clear()


class Observers(Generic[T]):
    """All observers of one informer. `now` returns monotonic seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.all: list[Observer[T]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled = False
        self._waiting: list[asyncio.Future[None]] = []
        self._context = copy_context()
        """What observers run in: not the context of the request whose change they get."""

    @property
    def behind(self) -> bool:
        """Whether an observer hasn't received every change yet."""
        return any(observer.behind for observer in self.all)

    def add(self, observer: Observer[T]) -> None:
        self.all.append(observer)
        if observer.behind:
            self._schedule()

    def changed(self, key: NamespacedName, old: ReadableObject[T] | None, new: ReadableObject[T] | None) -> None:
        """An object was created (`old` is None), changed or deleted (`new` is None)."""
        for observer in self.all:
            observer.changed(key, old, new)
        if self.all:
            self._schedule()

    def replay(self, changes: Callable[[], Iterator[ObjectChange[T] | None]]) -> None:
        """Tell each observer the same changes, before what happens from now on."""
        if self.all:
            for observer in self.all:
                observer.replay(changes())
            self._schedule()

    async def delivered(self) -> None:
        """Wait until all observers have received every change."""
        if self.behind:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._scheduled or self._loop is not loop:  # a server may run again in another loop
            self._scheduled, self._loop = True, loop
            loop.call_soon(self._work, context=self._context)

    def _work(self) -> None:
        self._scheduled = False
        until = self._now() + SLICE_S
        while behind := [observer for observer in self.all if observer.behind]:
            for observer in behind:
                observer.step()
            if self._now() > until:
                self._schedule()
                return
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
