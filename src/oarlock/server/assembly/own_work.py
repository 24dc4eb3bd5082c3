"""`OwnWork`: what a server does beside answering requests: `on_start`, its controllers, `on_stop`.

All of it runs in the server's event loop, over clients of its own process. See also: `run`, which says when.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from oarlock.controllers.metrics import ControllerNumbers, controller_families
from oarlock.endpoints.catalog import Catalog
from oarlock.meta.metrics import MetricFamily
from oarlock.net.backoff import Backoff
from oarlock.net.futures import shared
from oarlock.server.options.option import ConfigError

if TYPE_CHECKING:
    from oarlock.client.client import Client
    from oarlock.client.clock import TimerClock

log = logging.getLogger("oarlock.server")

START_S = 60.0
"""How long `on_start` may take, in seconds."""

STOP_S = 10.0
"""How long controllers and `on_stop` have at least when the server leaves, together, in seconds."""

AGAIN = Backoff(1.0, 60.0)
"""How long a controller that has failed waits before it runs again. What ran for longer than this begins with the
first."""

ServerHook = Callable[["Client"], Awaitable[None] | None]
"""Called once, with a client of this process; it may wait."""


class StartTookTooLong(RuntimeError):
    """`on_start` didn't end in time, so that the server isn't ready."""


class Runnable(Protocol):
    """What `APIServer(controllers=…)` takes: a ``Controller``, or any object that works until it is cancelled.

    Log lines name its class, or its ``called``.
    """

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Work until cancelled, then end within seconds. It is called again after it has raised, not if it returns."""
        ...


def lease_of(runnable: Runnable) -> str:
    """The lease that it has to hold on its server; empty if none."""
    wanted: Any = getattr(runnable, "needed_lease", None)
    return "" if wanted is None else str(wanted())


def check_leases(controllers: Sequence[Runnable], catalog: Catalog, has_cluster: bool) -> None:
    """Controllers that have a lease run only while they hold it, which is an object. Raises `ConfigError`."""
    if has_cluster or catalog.find("coordination.k8s.io", "v1", "leases") is not None:
        return
    for controller in controllers:
        lease = lease_of(controller)
        if lease:
            what = f"controllers=[{type(controller).__name__}(…)] has the lease {lease}, and this server has no Leases"
            advice = "set --kubeconfig to hold it in a cluster, use ControlPlane, or leave out lease=…"
            raise ConfigError([f"{what} to hold: {advice}"])


def families_of(controllers: Sequence[Any]) -> Sequence[MetricFamily]:
    """The metrics of those controllers that count; those of one name together."""
    counted = [controller.numbers() for controller in controllers if callable(getattr(controller, "numbers", None))]
    return controller_families(
        [numbers for several in counted for numbers in several if isinstance(numbers, ControllerNumbers)]
    )


class OwnWork:
    """The hooks and controllers of one run of a server.

    `client_of` makes a client whose writes have the field manager that it is given.
    """

    def __init__(
        self,
        controllers: Sequence[Runnable],
        on_start: ServerHook | None,
        on_stop: ServerHook | None,
        client_of: Callable[[str], Client],
        clock: TimerClock,
    ) -> None:
        self._controllers = controllers
        self._on_start = on_start
        self._on_stop = on_stop
        self._client_of = client_of
        self._clock = clock
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._started = False
        self._stopping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Call `on_start`, then let the controllers run. Raises what it raises, and `StartTookTooLong`."""
        if self._on_start is not None and not await self._in_time(self._call(self._on_start), START_S):
            why = f"on_start has not ended after {START_S:g} s"
            raise StartTookTooLong(
                f"{why}: long work belongs in an object with a method run, in APIServer(controllers=[…])"
            )
        for controller in self._controllers:
            name = getattr(controller, "name", type(controller).__name__)
            task = asyncio.create_task(self._keep_running(controller, name), name=f"controller: {name}")
            self._tasks[task] = name
        self._started = True

    async def stop(self, seconds: float = 0.0) -> None:
        """Cancel the controllers, then call `on_stop`; within `seconds`, or `STOP_S` if that is more.

        What hasn't ended then is logged and left. A second call waits for the first; without a start there is
        nothing to stop.
        """
        if self._stopping is None and self._started:
            self._stopping = asyncio.create_task(self._stop(max(seconds, STOP_S)), name="stop of controllers")
        if self._stopping is not None:
            await shared(self._stopping)

    async def _stop(self, left_s: float) -> None:
        until = self._clock.monotonic() + left_s
        for task in self._tasks:
            task.cancel()
        if self._tasks and not await self._in_time(_ended(self._tasks), left_s):
            late = ", ".join(name for task, name in self._tasks.items() if not task.done())
            log.error("has not stopped within %g s: %s", left_s, late)
        if self._on_stop is None:
            return
        try:
            if not await self._in_time(self._call(self._on_stop), max(0.0, until - self._clock.monotonic())):
                log.error("on_stop was cancelled: the server shuts down")
        except Exception:
            log.exception("on_stop failed")

    async def _call(self, hook: ServerHook) -> None:
        result = hook(self._client_of("oarlock"))
        if inspect.isawaitable(result):
            await result

    async def _in_time(self, work: Awaitable[None], seconds: float) -> bool:
        """Whether `work` has ended within this time; else it is cancelled. Raises what it raises.

        Time of the machine counts as well: where time is virtual, nobody may be there to let it pass.
        """
        working, timer = asyncio.ensure_future(work), asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((working, timer), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                return False
            working.result()
            return True
        finally:
            timer.cancel()
            working.cancel()

    async def _keep_running(self, controller: Runnable, name: str) -> None:
        pauses = AGAIN.pauses()
        while True:
            begun = self._clock.monotonic()
            try:
                await controller.run(self._client_of(name.lower().replace(" ", "-")), self._clock)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                log.error("%s cancelled itself, and runs again in %g s", name, pauses.next_s)
            except Exception:
                log.exception("%s failed, and runs again in %g s", name, pauses.next_s)
            else:
                log.info("%s has ended", name)
                return
            if self._clock.monotonic() - begun > AGAIN.longest_s:
                pauses.reset()
            await self._clock.sleep(pauses.take())


async def _ended(tasks: dict[asyncio.Task[None], str]) -> None:
    await asyncio.wait(tasks)
