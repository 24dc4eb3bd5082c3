"""`InformerPool`: the informers of several controllers, one for each kind and selection, which go on whatever happens.

A kind that the server doesn't serve yet, or doesn't let us list, is tried again: it may come, or be allowed. `Attached`
is what a controller has while it runs: client, informers, events, clock.
`FollowedObjects` keeps informers that were made without a client current. See also: ``client.informers.informer``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Any

from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.client.transport import TransportError
from oarlock.controllers.events import EventRecorder
from oarlock.controllers.metrics import ControllerNumbers
from oarlock.controllers.watched import ObjectSelection, shown_kind
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import StatusError
from oarlock.net.backoff import Backoff

log = logging.getLogger("oarlock.controllers")

ConnectCluster = Callable[[], Client]
"""Makes a client of the cluster. Raises ClientConfigError."""


class FollowedObjects:
    """Keeps `informers` current. A `Runnable` of a server, whose own client isn't used.

    `tell` is called with the reason each time that one of them can't be followed.
    """

    name = "informers of the cluster"

    def __init__(
        self,
        informers: Sequence[Informer[Any]],
        connect: ConnectCluster,
        tell: Callable[[str], object] = log.warning,
    ) -> None:
        self._informers = informers
        self._connect = connect
        self._tell = tell

    def complete(self) -> bool:
        """Whether all objects that there were at the start are known."""
        return all(informer.is_synced for informer in self._informers)

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Follow until cancelled. Raises ClientConfigError."""
        async with self.following(clock) as pool:
            await pool.ended()

    @asynccontextmanager
    async def following(self, clock: TimerClock) -> AsyncIterator[InformerPool]:
        """A context in which they are followed. Raises ClientConfigError."""
        async with self._connect() as cluster:
            pool = InformerPool(cluster, clock, self._tell)
            for informer in self._informers:
                pool.add(informer)
            pool.start()
            try:
                yield pool
            finally:
                await pool.stop()


class Informers(Mapping[Any, Informer[Any]]):
    """The informers of a controller by kind: that which it reconciles, those it owns and watches."""

    def __init__(self, informers: Mapping[Any, Informer[Any]]) -> None:
        self._informers = dict(informers)

    def __getitem__(self, kind: Any) -> Informer[Any]:
        informer: Informer[Any] | None = self._informers.get(kind)
        if informer is None:
            there = ", ".join(map(shown_kind, self._informers))
            raise KeyError(f"no informer of {kind!r}: name it in owns=[…] or watches=[…]; there is: {there}")
        return informer

    def __iter__(self) -> Iterator[Any]:
        return iter(self._informers)

    def __len__(self) -> int:
        return len(self._informers)


@dataclass(frozen=True, slots=True)
class Attached:
    """What one run of a controller gives it. `numbers` counts what it did."""

    client: Client
    informers: Informers
    events: EventRecorder
    clock: TimerClock
    numbers: Callable[[], ControllerNumbers]


AGAIN = Backoff(1.0, 30.0)


@dataclass
class InformerHandle:
    """One informer, which knows the resource that has its kind when it is `ready`."""

    kind: Any
    selection: ObjectSelection
    informer: Informer[Any]
    ready: asyncio.Event = field(default_factory=asyncio.Event)


class InformerPool:
    """Runs informers from `get` until `stop`."""

    def __init__(self, client: Client, clock: TimerClock, tell: Callable[[str], object]) -> None:
        self._client = client
        self._clock = clock
        self._report = tell
        self._sources: dict[tuple[Any, ObjectSelection], InformerHandle] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def get(self, kind: Any, selection: ObjectSelection) -> InformerHandle:
        """The informer of these objects, which begins with `start`."""
        source = self._sources.get((kind, selection))
        if source is None:
            informer = self._client.informer(
                kind,
                namespace=selection.namespace,
                label_selector=selection.label_selector,
                field_selector=selection.field_selector,
                include_uninitialized=selection.include_uninitialized,
            )
            source = self._sources[kind, selection] = InformerHandle(kind, selection, informer)
        return source

    def add(self, informer: Informer[Any]) -> None:
        """Run an informer that was made without a client."""
        informer.follow_through(self._client)
        selection = ObjectSelection(informer.namespace, informer.query.label_selector, informer.query.field_selector)
        self._sources[informer, selection] = InformerHandle(informer.kind, selection, informer)

    def start(self) -> None:
        for source in self._sources.values():
            name = f"informer of {shown_kind(source.kind)}"
            self._tasks.append(asyncio.create_task(self._keep(source), name=name))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def ended(self) -> None:
        """Wait until one of them has ended, which they do only when cancelled."""
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def synced(self) -> None:
        """Wait until each has all objects that existed when it began."""
        for source in self._sources.values():
            await source.ready.wait()

    async def _keep(self, source: InformerHandle) -> None:
        pauses = AGAIN.pauses()
        while True:
            begun = self._clock.monotonic()
            try:
                await self._follow(source)
            except (StatusError, TransportError) as error:
                text = error.message if isinstance(error, StatusError) else str(error)
                self._report(f"can't follow {shown_kind(source.kind)}, trying again in {pauses.next_s:g} s: {text}")
            except Exception:
                log.exception("the informer of %s failed, trying again in %g s", shown_kind(source.kind), pauses.next_s)
            await self._clock.sleep(pauses.take())
            if self._clock.monotonic() - begun > 2 * AGAIN.longest_s:
                pauses.reset()

    async def _follow(self, source: InformerHandle) -> None:
        """Follow until the informer gives up, which it does by raising."""
        running = asyncio.ensure_future(source.informer.run())
        syncing = asyncio.ensure_future(source.informer.synced())
        try:
            await asyncio.wait((running, syncing), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                source.ready.set()
            await running
        finally:
            for task in (running, syncing):
                task.cancel()
            await asyncio.wait((running, syncing))
