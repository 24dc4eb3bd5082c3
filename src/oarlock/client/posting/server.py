"""`PostServer`: the connections to one server: one of HTTP/2 if it speaks that, else some of HTTP/1.1, kept while idle.

A request is sent again only if the server certainly hasn't begun it. Redirects aren't followed.
See also: `over_http1`, `over_http2`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from oarlock.client.posting.over_http1 import Http1PostConnection
from oarlock.client.posting.over_http2 import Http2PostConnection
from oarlock.client.posting.reply import PostAnswer, PostError, PostRequest
from oarlock.meta.dataclass import dataclass

try:
    from aiofastnet import create_connection
except ImportError:  # pragma: no cover - a platform without the extension
    create_connection = None  # type: ignore[assignment]

__all__ = ["PostPlace", "PostServer"]

MOST_IDLE = 16
CONNECT_S = 10.0
LONGEST_USE_S = 300.0
"""How long requests begin on one connection of HTTP/2: behind one address there may be several servers."""

KEEPALIVE_S = 15.0

Explain = Callable[[BaseException, str, str], str]
"""What an error means, of a connection to an address where a name was expected."""


@dataclass(frozen=True, slots=True)
class PostPlace:
    """Where a server listens, and the name that its certificate must be for."""

    host: str
    port: int
    name: str

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PostServer:
    """Used from one event loop. `tls` gives the context for connections, None for none: another one than before means
    that certificates have changed, and former connections aren't used again. `explain` names errors."""

    def __init__(self, place: PostPlace, tls: Callable[[], Awaitable[ssl.SSLContext | None]], explain: Explain) -> None:
        self._place = place
        self._tls = tls
        self._explain = explain
        self._context: ssl.SSLContext | None = None
        self._connecting = asyncio.Lock()
        self._http1: bool | None = None
        self._http2: Http2PostConnection | None = None
        self._http2_until = 0.0
        self._idle: deque[tuple[float, Http1PostConnection]] = deque()
        self._open: set[Http1PostConnection | Http2PostConnection] = set()
        self._closed = False

    async def post(self, request: PostRequest) -> PostAnswer:
        """Send a request and wait for its answer. Raises `PostError`."""
        context = await self._tls()
        if context is not self._context:
            self._context = context
            self._retire_connections()
        kept = self._kept()
        if kept is not None:
            try:
                return await self._posted(kept, request)
            except PostError as error:
                if not error.unsent:
                    raise
        return await self._posted(await self._connected(context), request)

    def close(self) -> None:
        """Cut every connection."""
        self._closed = True
        self._retire_connections()
        for connection in tuple(self._open):
            if isinstance(connection, Http1PostConnection):
                connection.abort()
            else:
                connection.close("the connections were closed")
        self._open.clear()

    async def _posted(self, connection: Http1PostConnection | Http2PostConnection, request: PostRequest) -> PostAnswer:
        try:
            return await connection.post(request)
        finally:
            if isinstance(connection, Http1PostConnection):
                self._give_back(connection)
            elif not connection.usable and self._http2 is connection:
                self._http2 = None

    def _kept(self) -> Http1PostConnection | Http2PostConnection | None:
        """A connection that is there already."""
        now = asyncio.get_running_loop().time()
        if self._http2 is not None:
            if self._http2.usable and now < self._http2_until:
                return self._http2
            self._http2.retire()
            self._http2 = None
        while self._idle:
            until, connection = self._idle.pop()
            if now < until and connection.silent:
                self._open.add(connection)
                return connection
            connection.abort()
        return None

    async def _connected(self, context: ssl.SSLContext | None) -> Http1PostConnection | Http2PostConnection:
        """A new connection; of HTTP/2, one for all that wait for it. Raises `PostError`."""
        if self._http1:
            return await self._connect(context)
        async with self._connecting:
            if self._http2 is not None and self._http2.usable:
                return self._http2
            if not self._http1:
                return await self._connect(context)
        return await self._connect(context)

    async def _connect(self, context: ssl.SSLContext | None) -> Http1PostConnection | Http2PostConnection:
        place, loop = self._place, asyncio.get_running_loop()
        chosen = _ChosenProtocol()
        name = None if context is None else place.name
        try:
            async with asyncio.timeout(CONNECT_S):
                connect: Callable[..., Awaitable[object]] = loop.create_connection
                if create_connection is not None:
                    connect = partial(create_connection, loop)
                await connect(lambda: chosen, place.host, place.port, ssl=context, server_hostname=name)
                connection = chosen.connection
                if isinstance(connection, Http2PostConnection):
                    await connection.ready
        except TimeoutError:
            chosen.abort()
            raise PostError(f"dial tcp {place.address}: i/o timeout", unsent=True) from None
        except asyncio.CancelledError:
            chosen.abort()
            raise
        except (OSError, ssl.SSLError, ssl.CertificateError, ValueError) as error:
            why = self._explain(error, place.address, place.name) or str(error) or type(error).__name__
            raise PostError(why, unsent=True) from None
        if connection is None or self._closed or context is not self._context:
            chosen.abort()
            raise PostError("the connection was closed", unsent=True)
        self._open = {one for one in self._open if not _ended(one)}
        self._open.add(connection)
        self._http1 = isinstance(connection, Http1PostConnection)
        if isinstance(connection, Http2PostConnection):
            self._http2, self._http2_until = connection, loop.time() + LONGEST_USE_S
        return connection

    def _give_back(self, connection: Http1PostConnection) -> None:
        self._open.discard(connection)
        if not connection.reusable or self._closed:
            connection.abort()
            return
        self._idle.append((asyncio.get_running_loop().time() + connection.idle_s, connection))
        if len(self._idle) > MOST_IDLE:
            self._idle.popleft()[1].abort()

    def _retire_connections(self) -> None:
        """Use no connection again that is there now."""
        self._http1 = None
        if self._http2 is not None:
            self._http2.retire()
            self._http2 = None
        for connection in self._open:
            if isinstance(connection, Http1PostConnection):
                connection.reusable = False
        for _, connection in self._idle:
            connection.abort()
        self._idle.clear()


def _ended(connection: Http1PostConnection | Http2PostConnection) -> bool:
    return connection.closed if isinstance(connection, Http1PostConnection) else not connection.usable


class _ChosenProtocol(asyncio.Protocol):
    """Becomes a connection of the protocol that TLS has agreed on."""

    def __init__(self) -> None:
        self.connection: Http1PostConnection | Http2PostConnection | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = transport.get_extra_info("ssl_object")
        agreed = None if tls is None else tls.selected_alpn_protocol()
        self._transport = cast("asyncio.Transport", transport)  # uvloop's isn't derived of it
        self.connection = made = Http2PostConnection(KEEPALIVE_S) if agreed == "h2" else Http1PostConnection()
        self._transport.set_protocol(made)
        made.connection_made(transport)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
