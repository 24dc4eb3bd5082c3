"""`HttpPool`: requests to the addresses of one server, over connections that are kept.

Where the server speaks HTTP/2, many requests share a connection; else each has one of HTTP/1.1 while it lasts. A
request is sent again only if the server certainly hasn't begun it, or it only reads and got no answer on a kept
connection. Redirects aren't followed. Owners share connections by `FairPlaces`: one who wants many leaves some to
others.
See also: `connecting`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from oarlock.meta.dataclass import dataclass
from oarlock.net.connecting import Address, AnyProxy, connect
from oarlock.net.http1 import IDLE_S, Http1ClientConnection
from oarlock.net.http2 import ask_over_http2
from oarlock.net.http2_connection import Http2ClientConnection
from oarlock.net.messages import HttpError, HttpRequest, HttpResponse, UnaskedSwitch


class FairPlaces:
    """At most `most` places. An owner gets one more while it has no more than are free: alone, that is half of them.

    Who has no name shares with nobody, and gets what is free.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    def taken(self, owner: str) -> bool:
        """Take a place, if there is one for `owner` at once."""
        if owner in self._waiting or not self._may(owner):
            return False
        self._take(owner)
        return True

    async def take(self, owner: str) -> None:
        """Take a place, or wait for one. Owners who wait get places in turn."""
        if self.taken(owner):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.give_back(owner)  # it was given in the same turn of the loop
            else:
                self._forget(owner, waiter)
            raise

    def give_back(self, owner: str) -> None:
        """A place is free again."""
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        for other in list(self._waiting):
            if not self._free:
                break
            if self._may(other):
                self._give(other)

    def _give(self, owner: str) -> None:
        """To the first of this owner who waits; after that it is the turn of others."""
        queue = self._waiting.pop(owner)
        waiter = queue.popleft()
        if queue:
            self._waiting[owner] = queue
        self._take(owner)
        waiter.set_result(None)

    def _take(self, owner: str) -> None:
        self._free -= 1
        self._held[owner] += 1

    def _may(self, owner: str) -> bool:
        return 0 < self._free >= (self._held[owner] if owner and owner in self._held else 1)

    def _forget(self, owner: str, waiter: asyncio.Future[None]) -> None:
        queue = self._waiting.get(owner)
        if queue is not None:
            queue.remove(waiter)
            if not queue:
                del self._waiting[owner]


HTTP1, HTTP2 = "http/1.1", "h2"
NO_PLACE = "too many watches of it are open"
MOST_SHARED = 8
"""So many connections of HTTP/2 are made for calls that find no room on those there are; more calls wait there."""

MOST_TRIES = 3
"""On so many connections a request is tried that none of them has begun to send: others may end them at any time."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

TlsSource = Callable[[], Awaitable[ssl.SSLContext | None]]
"""Gives the context for connections, None for connections without TLS. Another one than before means that certificates
have changed: former connections aren't used again."""

_Connection = Http1ClientConnection | Http2ClientConnection


class NoPlace(HttpError):
    """As many requests without a deadline are open as may be."""


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """`calls` and `lasting` are how many requests may be under way: those with a deadline, and watches and their like.

    So many connections of HTTP/1.1 stay `idle` at one address. Requests begin on a connection of HTTP/2 for `use_s`:
    behind one address there may be several servers. A call waits `place_s` for its place, without end unless given.
    """

    calls: int = 512
    lasting: int = 4096
    idle: int = 32
    use_s: float = 300.0
    place_s: float | None = None


class HttpPool:
    """Used from one event loop. `protocols` are those that servers are offered, the preferred first."""

    def __init__(
        self,
        tls: TlsSource,
        limits: PoolLimits | None = None,
        *,
        protocols: Sequence[str] = (HTTP2, HTTP1),
        proxy: AnyProxy | None = None,
    ) -> None:
        self._tls = tls
        self._limits = limits or PoolLimits()
        self._protocols = list(protocols)
        self._proxy = proxy
        self._context: ssl.SSLContext | None = None
        self._calls, self._lasting = FairPlaces(self._limits.calls), FairPlaces(self._limits.lasting)
        self._kept: dict[Address, _AddressConnections] = {}
        self._open: set[_Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def ask(
        self, address: Address, request: HttpRequest, *, owner: str = "", lasting: bool = False
    ) -> HttpResponse:
        """Send a request and wait for the head of its response; read or close that.

        With an `owner` it has at most its share of what is under way. A request that is `lasting` has no deadline.
        Raises `HttpError`, `NoPlace`, and what the body of the request raises.
        """
        places = await self._place(owner, lasting)
        try:
            response = await self._exchanged(address, request, lasting)
            if response.status == 101:
                places = self._switched(response, request, places, owner)
        except BaseException:
            places.give_back(owner)
            raise
        response.on_over(partial(places.give_back, owner))
        return response

    def close(self) -> None:
        """Cut every connection."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._kept.clear()
        for connection in tuple(self._open):
            _cut(connection)
        self._open.clear()

    # Places

    async def _place(self, owner: str, lasting: bool) -> FairPlaces:
        if lasting:
            if not self._lasting.taken(owner):
                raise NoPlace(NO_PLACE, unsent=True)
            return self._lasting
        try:
            async with asyncio.timeout(self._limits.place_s):
                await self._calls.take(owner)
        except TimeoutError:
            why = f"no connection within {self._limits.place_s:g} s; at most {self._limits.calls} are open at a time"
            raise HttpError(why, unsent=True) from None
        return self._calls

    def _switched(self, response: HttpResponse, request: HttpRequest, places: FairPlaces, owner: str) -> FairPlaces:
        """What has switched protocols has no end. Raises `HttpError`."""
        if not request.upgrade:
            response.close()
            raise UnaskedSwitch("net/http: HTTP/1.x transport connection broken: unexpected switch of protocols")
        if places is self._calls:
            if not self._lasting.taken(owner):
                response.close()
                raise NoPlace(NO_PLACE)
            places.give_back(owner)
        return self._lasting

    # Connections

    async def _exchanged(self, address: Address, request: HttpRequest, lasting: bool) -> HttpResponse:
        context = await self._tls()
        if context is not self._context:
            self._replace(context)
        kept = self._kept_at(address).free(lasting, fresh=request.streams)
        for _ in range(MOST_TRIES - 1):
            connection = kept or await self._connected(address, context, lasting)
            try:
                return await self._sent(address, connection, request)
            except HttpError as error:
                unanswered = kept is not None and error.unanswered and request.method in _SAFE
                if request.streams or not (error.unsent or unanswered):
                    raise
            kept = None
        return await self._sent(address, await self._connected(address, context, lasting), request)

    async def _sent(self, address: Address, connection: _Connection, request: HttpRequest) -> HttpResponse:
        if isinstance(connection, Http2ClientConnection):
            return await ask_over_http2(connection, request)
        try:
            response = await connection.ask(request)
        except BaseException:
            self._open.discard(connection)
            connection.cut()
            raise
        response.on_over(partial(self._give_back, address, connection))
        return response

    async def _connected(self, address: Address, context: ssl.SSLContext | None, lasting: bool) -> _Connection:
        """A new connection; of HTTP/2, one for all that wait for it. Raises `HttpError`."""
        kept = self._kept_at(address)
        if not kept.http1:
            async with kept.connecting:
                shared = kept.shared(lasting)
                if shared is not None:
                    return shared
                if not kept.http1:
                    return await self._connect(kept, address, context)
        return await self._connect(kept, address, context)

    async def _connect(
        self, kept: _AddressConnections, address: Address, context: ssl.SSLContext | None
    ) -> _Connection:
        connection = await connect(address, context, self._proxy)
        if self._closed or context is not self._context:
            _cut(connection)
            raise HttpError("the connection was closed", unsent=True)
        self._open = {connection for connection in self._open if not _ended(connection)}
        self._open.add(connection)
        kept.http1 = isinstance(connection, Http1ClientConnection)
        if isinstance(connection, Http2ClientConnection):
            kept.http2.append((asyncio.get_running_loop().time() + self._limits.use_s, connection))
        return connection

    def _give_back(self, address: Address, connection: Http1ClientConnection) -> None:
        if not connection.reusable or self._closed:
            self._open.discard(connection)
            connection.cut()
            return
        idle = self._kept_at(address).idle
        idle.append((asyncio.get_running_loop().time() + connection.idle_s, connection))
        if len(idle) > self._limits.idle:
            idle.popleft()[1].cut()

    def _kept_at(self, address: Address) -> _AddressConnections:
        kept = self._kept.get(address)
        if kept is None:
            kept = self._kept[address] = _AddressConnections()
            if self._sweeping is None:
                self._sweeping = asyncio.get_running_loop().call_later(IDLE_S, self._sweep)
        return kept

    def _sweep(self) -> None:
        """End what has been idle for long; forget addresses to which nothing leads."""
        loop = asyncio.get_running_loop()
        self._sweeping = None
        for address, kept in tuple(self._kept.items()):
            kept.drop_old(loop.time())
            if not kept.idle and not kept.http2 and not kept.connecting.locked():
                del self._kept[address]
        if self._kept:
            self._sweeping = loop.call_later(IDLE_S, self._sweep)

    def _replace(self, context: ssl.SSLContext | None) -> None:
        """Use no connection again that is there now."""
        self._context = context
        if context is not None:
            context.set_alpn_protocols(self._protocols)
        for connection in self._open:
            if isinstance(connection, Http1ClientConnection):
                connection.reusable = False
        for kept in self._kept.values():
            kept.drop_all()
        self._kept.clear()


async def ask_once(address: Address, request: HttpRequest, tls: ssl.SSLContext | None) -> HttpResponse:
    """A request on a connection of its own, which ends with the response. Raises `HttpError`."""

    async def context() -> ssl.SSLContext | None:
        return tls

    pool = HttpPool(context, protocols=(HTTP1,))
    try:
        response = await pool.ask(address, request)
    except BaseException:
        pool.close()
        raise
    response.on_over(pool.close)
    return response


class _AddressConnections:
    """The connections to one address that requests may begin on. `http1`: that is all it speaks, as far as known."""

    __slots__ = ("connecting", "http1", "http2", "idle")

    def __init__(self) -> None:
        self.connecting = asyncio.Lock()
        self.http1 = False
        self.http2: list[tuple[float, Http2ClientConnection]] = []
        self.idle: deque[tuple[float, Http1ClientConnection]] = deque()

    def free(self, lasting: bool, *, fresh: bool) -> _Connection | None:
        """A connection that can take a request; a `fresh` one of HTTP/1.1 hasn't carried any."""
        shared = self.shared(lasting)
        if shared is not None or fresh:
            return shared
        now = asyncio.get_running_loop().time()
        while self.idle:
            until, connection = self.idle.pop()
            if now < until and connection.silent:
                return connection
            connection.cut()
        return None

    def shared(self, lasting: bool) -> Http2ClientConnection | None:
        """A connection of HTTP/2 with room; what lasts leaves some to calls. These get one without if all are."""
        if not self.http2:
            return None
        self._retire(asyncio.get_running_loop().time())
        best = max((connection for _, connection in self.http2), key=lambda connection: connection.room, default=None)
        if best is None:
            return None
        if best.room > (best.most_streams // 8 if lasting else 0):
            return best
        return best if len(self.http2) >= MOST_SHARED and not lasting else None

    def drop_old(self, now: float) -> None:
        self._retire(now)
        for until, connection in self.idle:
            if until <= now:
                connection.cut()
        self.idle = deque((until, connection) for until, connection in self.idle if until > now)

    def drop_all(self) -> None:
        self.drop_old(float("inf"))

    def _retire(self, now: float) -> None:
        for until, connection in self.http2:
            if not connection.usable or now >= until:
                connection.retire()
        self.http2 = [(until, connection) for until, connection in self.http2 if connection.usable]


def _ended(connection: _Connection) -> bool:
    return connection.closed if isinstance(connection, Http1ClientConnection) else connection.ended


def _cut(connection: _Connection) -> None:
    if isinstance(connection, Http1ClientConnection):
        connection.cut()
    else:
        connection.close("the connections were closed")
