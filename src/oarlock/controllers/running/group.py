"""`ControllerGroup`: controllers that run together on one client, and share their informers.

    async with ControllerGroup([Databases(), Backups()]).running(client, clock) as run:
        await run.synced()

Its `run` is what a server or ``oarlock run`` calls. With an election, only one of the processes that have the group
reconciles; all follow the objects, so that another can go on at once. See also: `loop`, one controller at work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from oarlock.client.client import Client
from oarlock.client.clock import SystemClock, TimerClock
from oarlock.controllers.base import ControllerBase
from oarlock.controllers.events import EventRecorder, EventSender
from oarlock.controllers.metrics import ControllerNumbers
from oarlock.controllers.running.leases import FencedTransport, LeaderElection, LeaseElection
from oarlock.controllers.running.loop import ControllerLoop
from oarlock.controllers.running.sources import Attached, InformerPool, Informers
from oarlock.net.futures import shared
from oarlock.schema.types.declaring import KeywordError

log = logging.getLogger("oarlock.controllers")

GRACE_S = 8.0
"""How long reconciles have to end when they are told to stop, in seconds."""


class ControllerGroup:
    """Controllers that run together on one client.

    - `namespace` restricts all of them to one namespace.
    - `grace_s`: how long, in seconds, calls of `reconcile` may go on when the group is stopped.
    - `election`, by default the `lease` of their classes: they reconcile only while this process holds that lease.
    - `tell` is called with a line of text when a step of the start, the election or the end is done.
    """

    def __init__(
        self,
        controllers: Sequence[ControllerBase[Any]],
        *,
        election: LeaderElection | None = None,
        namespace: str = "",
        grace_s: float = GRACE_S,
        tell: Callable[[str], object] = log.info,
    ) -> None:
        self.controllers = _checked(controllers)
        self.election = election or _own_election(self.controllers)
        self.namespace = namespace
        self.grace_s = grace_s
        self.tell = tell

    def needed_lease(self) -> str:
        """The lease that they have to hold on their server; empty if none."""
        return "" if self.election is None else self.election.lease

    def numbers(self) -> Sequence[ControllerNumbers]:
        """The counters of its controllers, while they run; servers show them on ``/metrics``."""
        return [numbers for controller in self.controllers for numbers in controller.numbers()]

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Run until cancelled. Calls of `reconcile` in progress then have `grace_s` seconds to end."""
        async with self.running(client, clock) as run:
            await run.ended()

    @asynccontextmanager
    async def running(self, client: Client, clock: TimerClock | None = None) -> AsyncIterator[ControllerRun]:
        """Run while the context lasts."""
        run = ControllerRun(self, client, clock or SystemClock())
        run.start()
        try:
            yield run
        finally:
            await run.stop()


class ControllerRun:
    """One run of a group."""

    def __init__(self, group: ControllerGroup, client: Client, clock: TimerClock) -> None:
        retries = replace(client.settings.retries, sleep=clock.sleep)
        client = client.using(retries=retries)
        self._group = group
        self._grace_s = group.grace_s
        # Informers try again by themselves, and tell why.
        self._pool = InformerPool(client.using(retries=replace(retries, retries=0)), clock, group.tell)
        self._loops = [
            ControllerLoop(controller, self._pool, clock, group.namespace) for controller in group.controllers
        ]
        self._events = EventSender(client, clock)
        self._election: LeaseElection | None = None
        if group.election is not None:
            self._election = LeaseElection(client, group.election, clock, group.tell)
            fence = self._election.fence
            client = client.over(lambda transport: FencedTransport(transport, fence))
        self._client = client
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()
        self._stopping = False

    def start(self) -> None:
        """Start the informers and reconcile. Raises RuntimeError for a controller that is already running."""
        running = [
            type(controller).__name__ for controller in self._group.controllers if controller.attached is not None
        ]
        if running:
            raise RuntimeError(f"{running[0]} runs already: make another instance for another place")
        for loop in self._loops:
            events = EventRecorder(self._events, loop.controller.name)
            loop.controller.attached = Attached(
                self._client, Informers(loop.informers), events, self._clock, partial(self._numbers_of, loop)
            )
        self._pool.start()
        self._events.start()
        work = self._lead() if self._election is None else self._election.run(self._lead)
        self._task = asyncio.create_task(work, name="controllers")

    @property
    def leading(self) -> bool | None:
        """Whether this process is the leader; None without an election."""
        return None if self._election is None else self._election.leading

    async def synced(self) -> None:
        """Wait until the informers have all objects, and this process is the leader.

        Raises RuntimeError if that can't happen: the run has ended, or the server has no Leases.
        """
        if self._begun.is_set():
            return
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._begun.wait())]
        election, task = self._election, self._task
        if election is not None:
            waits.append(asyncio.ensure_future(election.given_up()))
        if task is not None:
            waits.append(asyncio.ensure_future(asyncio.wait((task,))))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._begun.is_set():
            return
        if election is not None and election.hopeless:
            raise RuntimeError(f"the controllers never run: {election.hopeless}")
        cause = None if task is None or task.cancelled() else task.exception()
        raise RuntimeError("the controllers have ended") from cause

    async def idle(self) -> None:
        """Wait until no key is being reconciled or queued. Keys that are due later don't count."""
        await self.synced()
        for loop in self._loops:
            await loop.idle()

    async def delivered(self) -> None:
        """Wait until the recorded events are sent."""
        await self._events.idle()

    def numbers(self) -> list[ControllerNumbers]:
        """The counters of each controller."""
        return [self._numbers_of(loop) for loop in self._loops]

    def _numbers_of(self, loop: ControllerLoop) -> ControllerNumbers:
        return loop.numbers(self.leading)

    async def ended(self) -> None:
        """Wait until it ends by itself. Raises the error that ended it."""
        if self._task is not None:
            await shared(self._task)

    async def stop(self, grace_s: float | None = None) -> None:
        """Let calls of `reconcile` in progress end within `grace_s` seconds, by default the group's; then cancel them.

        The lease is released after that.
        """
        if grace_s is not None:
            self._grace_s = grace_s
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        await self._events.stop()
        await self._pool.stop()
        for loop in self._loops:
            loop.controller.attached = None

    async def _lead(self) -> None:
        """Reconcile until cancelled: at once when the lead is lost, else in order."""
        try:
            await self._pool.synced()
            self._group.tell("synced: " + ", ".join(loop.controller.name for loop in self._loops))
            await asyncio.gather(*(loop.begin() for loop in self._loops))
            self._begun.set()
            workers = [worker for loop in self._loops for worker in loop.workers]
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            worker = ended.pop()
            cause = None if worker.cancelled() else worker.exception()
            raise RuntimeError("a worker has ended by itself") from cause
        finally:
            self._begun.clear()
            in_order = self._election is None or self._election.leading
            grace_s = self._grace_s if in_order else 0.0
            await asyncio.gather(*(loop.end(grace_s) for loop in self._loops))
            workers = [worker for loop in self._loops for worker in loop.workers]
            if workers and not self._stopping:
                # What goes on although it was cancelled must not meet what this process does when it leads again.
                await asyncio.wait(workers)


async def run_controllers(
    client: Client,
    controllers: Sequence[ControllerBase[Any]],
    *,
    clock: TimerClock | None = None,
    election: LeaderElection | None = None,
) -> None:
    """Run `controllers` until cancelled."""
    await ControllerGroup(controllers, election=election).run(client, clock or SystemClock())


def _own_election(controllers: Sequence[ControllerBase[Any]]) -> LeaderElection | None:
    leases = {controller.__options__.lease for controller in controllers}
    if len(leases) > 1:
        what = f"have different leases: {', '.join(sorted(map(repr, leases)))}"
        raise KeywordError("controllers", what, "run each in a group of its own, or give one election=…")
    lease = leases.pop() if leases else ""
    return LeaderElection(lease) if lease else None


def _checked(controllers: Any) -> tuple[ControllerBase[Any], ...]:
    if not isinstance(controllers, list | tuple) or not controllers:
        raise KeywordError(
            "controllers", f"{controllers!r:.100} isn't a list of controllers", "write [YourController()]"
        )
    names: set[str] = set()
    for controller in controllers:
        if isinstance(controller, type):
            raise KeywordError("controllers", f"{controller.__name__} is a class", f"write {controller.__name__}()")
        if not isinstance(controller, ControllerBase):
            raise KeywordError(
                "controllers", f"{controller!r:.100} isn't a Controller", "write class X(Controller[Kind])"
            )
        if controller.name in names:
            raise KeywordError("controllers", f"two are called {controller.name}", 'say name="…" on one of the classes')
        names.add(controller.name)
    return tuple(controllers)
