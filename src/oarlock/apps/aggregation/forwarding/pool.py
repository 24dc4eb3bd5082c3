"""`BackendPool`: connections to the addresses of one backend, kept while they are idle. See also: `connection`."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable

from oarlock.apps.aggregation.forwarding.connection import BackendError, ServerConnection, connect
from oarlock.meta.dataclass import dataclass

__all__ = ["Address", "BackendPool"]

MOST_IDLE = 32
MOST_OPEN = 512
IDLE_S = 90.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where a backend listens, and the name that its certificate must be for."""

    host: str
    port: int
    server_name: str


class BackendPool:
    """At most `MOST_OPEN` connections, `MOST_IDLE` of them idle. Who asks for one more waits until one is free.

    `tls` gives the context for a new connection; another one means that certificates have changed, and connections of
    the former aren't used again.
    """

    def __init__(self, tls: Callable[[], Awaitable[ssl.SSLContext]]) -> None:
        self._tls = tls
        self._idle: deque[tuple[Address, ssl.SSLContext, float, ServerConnection]] = deque()
        self._places = asyncio.Semaphore(MOST_OPEN)
        self._open: dict[ServerConnection, ssl.SSLContext] = {}
        self._closed = False

    async def take(self, address: Address, *, fresh: bool = False) -> ServerConnection:
        """A connection for one request; give it back. `fresh` is one that has carried none. Raises `BackendError`."""
        await self._places.acquire()
        try:
            context = await self._tls()
            connection = None if fresh else self._kept(address, context)
            if connection is None:
                connection = await connect(address.host, address.port, context, address.server_name)
            if self._closed:
                connection.abort()
                raise BackendError("the server is stopping", unsent=True)
        except BaseException:
            self._places.release()
            raise
        self._open[connection] = context
        return connection

    def give_back(self, address: Address, connection: ServerConnection) -> None:
        """Keep a connection for the next request, or cut it when its answer isn't whole."""
        context = self._open.pop(connection, None)
        if context is None:
            return
        self._places.release()
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
