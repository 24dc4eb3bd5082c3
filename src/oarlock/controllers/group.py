"""`ControllerGroup`: controllers that run together on one client, and share their informers.

    async with ControllerGroup([Databases(), Backups()]).running(client, clock) as run:
        await run.synced()

Its `run` is what a server or ``oarlock run`` calls. See also: `loop`, one controller at work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from oarlock.client.client import Client
from oarlock.client.clock import SystemClock, TimerClock
from oarlock.controllers.attached import Attached, Informers
from oarlock.controllers.base import ControllerBase
from oarlock.controllers.loop import ControllerLoop
from oarlock.controllers.metrics import ControllerNumbers
from oarlock.controllers.sources import InformerPool
from oarlock.schema.declaring import KeywordError

__all__ = ["ControllerGroup", "ControllerRun", "run_controllers"]

log = logging.getLogger("oarlock.controllers")

GRACE_S = 8.0
"""How long reconciles have to end when they are told to stop, in seconds."""


class ControllerGroup:
    """What to run. `namespace` restricts all of them to one; `grace_s` is what reconciles have to end when they stop.

    `tell` is called with a line for people at each step.
    """

    def __init__(
        self,
        controllers: Sequence[ControllerBase[Any]],
        *,
        namespace: str = "",
        grace_s: float = GRACE_S,
        tell: Callable[[str], object] = log.info,
    ) -> None:
        self.controllers = _checked(controllers)
        self.namespace = namespace
        self.grace_s = grace_s
        self.tell = tell

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Run until cancelled; reconciles in progress then have `grace_s` to end."""
        async with self.running(client, clock):
            await asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def running(self, client: Client, clock: TimerClock | None = None) -> AsyncIterator[ControllerRun]:
        """Run while the context lasts."""
        run = ControllerRun(self, client, clock or SystemClock())
        await run.start()
        try:
            yield run
        finally:
            await run.stop()


class ControllerRun:
    """One run of a group."""

    def __init__(self, group: ControllerGroup, client: Client, clock: TimerClock) -> None:
        self._group = group
        self._client = client
        self._pool = InformerPool(client, clock, group.tell)
        self._loops = [ControllerLoop(one, self._pool, clock, group.namespace) for one in group.controllers]
        self._task: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()

    async def start(self) -> None:
        """Begin to follow objects, and to reconcile them."""
        running = [type(one).__name__ for one in self._group.controllers if one._attached is not None]
        if running:
            raise RuntimeError(f"{running[0]} runs already: make another instance for another place")
        for loop in self._loops:
            loop.controller._attached = Attached(self._client, Informers(loop.informers))
        self._pool.start()
        self._task = asyncio.create_task(self._work(), name="controllers")

    async def _work(self) -> None:
        await self._pool.synced()
        self._group.tell("synced: " + ", ".join(f"{loop.controller.name}" for loop in self._loops))
        for loop in self._loops:
            await loop.begin()
        self._begun.set()

    async def synced(self) -> None:
        """Wait until all objects that existed are known, and are being reconciled."""
        await self._begun.wait()

    async def idle(self) -> None:
        """Wait until nothing is reconciled, nor waits for it; what is due later doesn't count."""
        await self.synced()
        for loop in self._loops:
            await loop.idle()

    def numbers(self) -> list[ControllerNumbers]:
        """What each controller has counted."""
        return [loop.numbers() for loop in self._loops]

    async def stop(self, grace_s: float | None = None) -> None:
        """Let reconciles in progress end, within `grace_s`, by default that of the group; then cancel them."""
        grace_s = self._group.grace_s if grace_s is None else grace_s
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        await asyncio.gather(*(loop.end(grace_s) for loop in self._loops))
        await self._pool.stop()
        for loop in self._loops:
            loop.controller._attached = None


async def run_controllers(
    client: Client, controllers: Sequence[ControllerBase[Any]], *, clock: TimerClock | None = None
) -> None:
    """Run `controllers` until cancelled."""
    await ControllerGroup(controllers).run(client, clock or SystemClock())


def _checked(controllers: Any) -> tuple[ControllerBase[Any], ...]:
    if not isinstance(controllers, list | tuple):
        raise KeywordError("controllers", f"{controllers!r:.100} is no list", "write [YourController()]")
    names: set[str] = set()
    for one in controllers:
        if isinstance(one, type):
            raise KeywordError("controllers", f"{one.__name__} is a class", f"write {one.__name__}()")
        if not isinstance(one, ControllerBase):
            raise KeywordError("controllers", f"{one!r:.100} isn't a Controller", "write class X(Controller[Kind])")
        if one.name in names:
            raise KeywordError("controllers", f"two are called {one.name}", 'say name="…" on one of the classes')
        names.add(one.name)
    return tuple(controllers)
