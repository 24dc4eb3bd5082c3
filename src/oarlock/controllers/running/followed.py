"""`FollowedObjects`: keeps informers that were made without a client current with the objects of a cluster.

See also: `sources`, whose pool runs them; ``apps.webhooks``, whose hooks read them.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.controllers.running.sources import InformerPool

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
