"""`BackendPool`: connections to the addresses of one backend, kept while they are idle. See also: `connection`."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable

from oarlock.apps.aggregation.forwarding.connection import BackendError, ServerConnection, connect
from oarlock.apps.aggregation.forwarding.places import FairPlaces
from oarlock.meta.dataclass import dataclass

__all__ = ["Address", "BackendPool", "NoPlace"]

NO_PLACE = "too many watches of it are open"

MOST_IDLE = 32
MOST_CALLS = 512
MOST_LASTING = 4096
"""Watches and other requests without a deadline: each has a connection, and an open file, for as long as it likes."""

IDLE_S = 90.0


class NoPlace(BackendError):
    """As many requests without a deadline are open as may be."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a backend listens, and the name that its certificate must be for."""

    host: str
    port: int
    server_name: str


class BackendPool:
    """At most `MOST_CALLS` connections for calls, and besides `MOST_LASTING` for what has no deadline.

    Nobody can have all of them. Who wants one more for a call waits until one is free. `MOST_IDLE` are idle at most.

    `tls` gives the context for a new connection; another one means that certificates have changed, and connections of
    the former aren't used again.
    """

    def __init__(self, tls: Callable[[], Awaitable[ssl.SSLContext]]) -> None:
        self._tls = tls
        self._idle: deque[tuple[Address, ssl.SSLContext, float, ServerConnection]] = deque()
        self._calls, self._lasting = FairPlaces(MOST_CALLS), FairPlaces(MOST_LASTING)
        self._open: dict[ServerConnection, tuple[ssl.SSLContext, FairPlaces, str]] = {}
        self._closed = False

    async def take(
        self, address: Address, *, fresh: bool = False, owner: str = "", lasting: bool = False
    ) -> ServerConnection:
        """A connection for one request of `owner`; give it back. `fresh` is one that has carried none.

        A request that is `lasting` has no deadline. Raises `BackendError`, `NoPlace`.
        """
        places = self._lasting if lasting else self._calls
        if not lasting:
            await places.take(owner)
        elif not places.taken(owner):
            raise NoPlace(NO_PLACE, unsent=True)
        try:
            context = await self._tls()
            connection = None if fresh else self._kept(address, context)
            if connection is None:
                connection = await connect(address.host, address.port, context, address.server_name)
            if self._closed:
                connection.abort()
                raise BackendError("the server is stopping", unsent=True)
        except BaseException:
            places.give_back(owner)
            raise
        self._open[connection] = context, places, owner
        return connection

    def lasts(self, connection: ServerConnection) -> None:
        """A call turns out to have no end: it has switched protocols. Raises `NoPlace`."""
        context, places, owner = self._open[connection]
        if places is self._lasting:
            return
        if not self._lasting.taken(owner):
            raise NoPlace(NO_PLACE)
        self._open[connection] = context, self._lasting, owner
        places.give_back(owner)

    def give_back(self, address: Address, connection: ServerConnection) -> None:
        """Keep a connection for the next request, or cut it when its answer isn't whole."""
        known = self._open.pop(connection, None)
        if known is None:
            return
        context, places, owner = known
        places.give_back(owner)
        if not connection.idle or self._closed:
            connection.abort()
            return
        self._idle.append((address, context, asyncio.get_running_loop().time() + IDLE_S, connection))
        if len(self._idle) > MOST_IDLE:
            self._idle.popleft()[3].abort()

    def close(self) -> None:
        """Cut every connection."""
        self._closed = True
        for _, _, _, connection in self._idle:
            connection.abort()
        for connection in tuple(self._open):
            connection.abort()
        self._idle.clear()

    def _kept(self, address: Address, context: ssl.SSLContext) -> ServerConnection | None:
        now = asyncio.get_running_loop().time()
        for _ in range(len(self._idle)):
            where, tls, until, connection = self._idle.pop()
            if not connection.idle or until < now or tls is not context:
                connection.abort()
            elif where == address:
                return connection
            else:
                self._idle.appendleft((where, tls, until, connection))
        return None
