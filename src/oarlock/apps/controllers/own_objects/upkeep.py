"""`Upkeep`: brings back what a control plane can't be without when somebody has removed it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from oarlock.apps.controllers.own_objects.server_lease import RENEW_S
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.transport import TransportError
from oarlock.meta.errors import StatusError

__all__ = ["Upkeep"]

log = logging.getLogger("oarlock.controlplane")

ROUNDS = 6
"""Every so many renewals everything is looked at."""

UpkeepStep = Callable[[Client], Awaitable[None]]
Renewal = Callable[[Client, TimerClock], Awaitable[None]]


def _ignore_warning(warning: str) -> None:
    """Endpoints are deprecated, and have to be kept all the same."""


class Upkeep:
    """A `Runnable`: `renew` every ten seconds, and every minute the `steps`, which may be repeated at any time."""

    def __init__(self, renew: Renewal, steps: Sequence[UpkeepStep]) -> None:
        self._renew = renew
        self._steps = steps

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Work until cancelled."""
        client, rounds = client.using(field_manager="oarlock", on_warning=_ignore_warning), 0
        while True:
            try:
                await self._renew(client, clock)
                if rounds % ROUNDS == 0:
                    for step in self._steps:
                        await step(client)
            except (StatusError, TransportError) as error:
                log.warning("the server's own objects could not be kept, trying again in %g s: %s", RENEW_S, error)
            rounds += 1
            await clock.sleep(RENEW_S)
