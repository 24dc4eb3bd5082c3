"""`Leadership`: of several servers that share a store, one runs the controllers; the others wait for it to end.

A server that is alone on its store runs them at once and writes no lease; from the moment that another is there, none
of their writes pass. Then the one that holds the Lease ``kube-system/oarlock-controllers`` goes on; all of its
controllers together, so that there is one lease to renew.
See also: ``controllers.leases``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from oarlock.apps.controlplane.part import ControlPlanePart
from oarlock.client.client import Client
from oarlock.client.clock import Flag, TimerClock
from oarlock.controllers.metrics import ControllerNumbers
from oarlock.controllers.running.leases import FencedTransport, LeaderElection, LeaderLost, LeaseElection, WriteFence
from oarlock.meta.dataclass import dataclass
from oarlock.server.assembly.own_work import Runnable

LEASE = "kube-system/oarlock-controllers"
OWN_AGENT = "oarlock-control-plane"
"""How the control plane's own code calls itself, before its name."""
LOOK_AGAIN_S = 1.0
"""How long until a server that is alone ends its controllers when it isn't any more."""
LONGEST_WRITE_S = 60.0


@dataclass(frozen=True, slots=True)
class LeadershipTerm:
    """A time in which this server leads, until `ended`. `fence` lets its writes pass."""

    fence: WriteFence
    ended: asyncio.Event


class AloneFence:
    """Lets writes pass while no other server is on the store."""

    def __init__(self, shared: Callable[[], bool]) -> None:
        self._shared = shared

    def check(self) -> float:
        """How long a write may take; it is done at once, since it needn't leave the process. Raises LeaderLost."""
        if self._shared():
            raise LeaderLost("another server is on the store, so that one of them has to be elected first")
        return LONGEST_WRITE_S


class Leadership:
    """Runs as one of a server's controllers; `shared` says whether other servers may be on the store too."""

    name = "leader election of controllers"

    def __init__(self, shared: Callable[[], bool]) -> None:
        self._shared = shared
        self._lead: LeadershipTerm | None = None
        self._began = Flag()

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Say who leads, until cancelled."""
        try:
            self._begin(AloneFence(self._shared))
            while not self._shared():
                await clock.sleep(LOOK_AGAIN_S)
            self._end()
            election = LeaseElection(client, LeaderElection(LEASE), clock)

            async def lead() -> None:
                self._begin(election.fence)
                try:
                    await asyncio.Event().wait()
                finally:
                    self._end()

            await election.run(lead)
        finally:
            self._end()

    async def begun(self) -> LeadershipTerm:
        """Wait until this server leads."""
        while self._lead is None:
            await self._began.wait()
        return self._lead

    def _begin(self, fence: WriteFence) -> None:
        self._lead = LeadershipTerm(fence, asyncio.Event())
        self._began.set()

    def _end(self) -> None:
        lead, self._lead = self._lead, None
        self._began.clear()
        if lead is not None:
            lead.ended.set()


class OwnController:
    """A controller of the control plane, on each server of a store."""

    def __init__(self, name: str, controller: Runnable) -> None:
        self.name = name
        self.controller = controller

    def numbers(self) -> Sequence[ControllerNumbers]:
        """What the controller has counted, if it counts."""
        controller: Any = self.controller
        found: Sequence[ControllerNumbers] = controller.numbers() if hasattr(controller, "numbers") else ()
        return found

    async def run(self, client: Client, clock: TimerClock) -> None:
        await self.controller.run(own(client, self.name), clock)


class Elected(OwnController):
    """A controller that runs while its server leads."""

    def __init__(self, name: str, controller: Runnable, leadership: Leadership) -> None:
        super().__init__(name, controller)
        self._leadership = leadership

    async def run(self, client: Client, clock: TimerClock) -> None:
        while True:
            lead = await self._leadership.begun()
            ended = asyncio.ensure_future(lead.ended.wait())
            fenced = _fenced(own(client, self.name), lead.fence)
            running = asyncio.ensure_future(self.controller.run(fenced, clock))
            try:
                await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    running.result()
                    return
            finally:
                ended.cancel()
                running.cancel()
                await asyncio.wait((running,))


def elected_controllers(parts: Sequence[ControlPlanePart], shared: Callable[[], bool]) -> Iterator[Runnable]:
    """The controllers of the parts; those that bring the world in line run on one of the servers of a store."""
    leadership = Leadership(shared)
    if any(name not in part.everywhere for part in parts for name in part.controllers):
        yield leadership
    for part in parts:
        for name, controller in part.controllers.items():
            if name in part.everywhere:
                yield OwnController(getattr(controller, "name", type(controller).__name__), controller)
            else:
                yield Elected(name, controller, leadership)


def own(client: Client, name: str) -> Client:
    """The client of a part of the control plane, whose requests are told apart from those of users' code."""
    return client.using(user_agent=f"{OWN_AGENT} ({name})", on_warning=_unheard)


def _unheard(text: str) -> None:
    """Warnings are for people who can act on them, as in kube-controller-manager."""


def _fenced(client: Client, fence: WriteFence) -> Client:
    return client.over(lambda transport: FencedTransport(transport, fence))
