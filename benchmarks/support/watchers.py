"""Watches by the thousand from one process: events are counted, not looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from support.connections import Asked, ClientConnection, Driver, Form, LoadError, connect
from support.http1_requests import Http1Requests
from support.http2_requests import Http2Client
from support.wardle import Server

MOST_OPENING = 16
WAIT_S = 60.0


@dataclass
class Deliveries:
    """What all watches have had so far."""

    opened: int = 0
    events: int = 0
    closed: int = 0
    refused: str = ""

    async def until(self, wanted: Callable[[], bool], seconds: float = WAIT_S) -> None:
        """Wait until `wanted` holds, at most so many seconds. Raises `LoadError` if a watch was refused."""
        for _ in range(int(seconds * 100)):
            if wanted():
                return
            if self.refused:
                raise LoadError(self.refused)
            await asyncio.sleep(0.01)

    async def all_of(self, events: int) -> None:
        """Wait until so many events have come. Raises `LoadError` if they don't."""
        await self.until(lambda: self.events >= events)
        if self.events < events:
            raise LoadError(f"{self.events} of {events} events came")


class Http1Watch(ClientConnection):
    """A watch on a connection of its own. Each event is a chunk that ends with a line feed."""

    def __init__(self, path: str, deliveries: Deliveries) -> None:
        self._path = path
        self._deliveries = deliveries
        self._head: bytes | None = b""
        self._end = b""

    def watch(self) -> None:
        fields = "".join(f"{name}: {value}\r\n" for name, value in Form().fields())
        self.transport.write(f"GET {self._path} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n".encode())

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += data
            head, end, data = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            self._head = None
            if head[9:12] != b"200":
                self._deliveries.refused = head.decode()
            self._deliveries.opened += 1
        self._deliveries.events += data.count(b"}\n")
        if self._end == b"}" and data[:1] == b"\n":
            self._deliveries.events += 1
        self._end = data[-1:]

    def on_lost(self) -> None:
        self._deliveries.closed += 1


class Http2Watches(Http2Client):
    """Many watches on one connection."""

    def __init__(self, paths: Sequence[str], deliveries: Deliveries) -> None:
        super().__init__(Form())
        self._paths = paths
        self._deliveries = deliveries

    def watch(self) -> None:
        for path in self._paths:
            self.begin("GET", path, b"", "")

    def on_head(self, stream: int, status: int) -> None:
        if status != 200:
            self._deliveries.refused = f"a watch got {status}"
        self._deliveries.opened += 1

    def on_data(self, stream: int, data: bytes) -> None:
        self._deliveries.events += data.count(b"\n")

    def on_end(self, stream: int) -> None:
        self._deliveries.closed += 1

    def on_failure(self, why: str) -> None:
        self._deliveries.closed += 1
        self._deliveries.refused = self._deliveries.refused or why


@dataclass
class Watchers:
    """A watch of each path: each on a connection of its own, or together on so many of HTTP/2."""

    server: Server
    paths: Sequence[str]
    http2_connections: int = 0

    async def open(self) -> tuple[Deliveries, list[ClientConnection]]:
        """Open them, and wait until the server has begun to answer each."""
        deliveries = Deliveries()
        tls = self.server.tls("h2" if self.http2_connections else "http/1.1")
        opening = asyncio.Semaphore(MOST_OPENING)

        def make(number: int) -> Http1Watch | Http2Watches:
            if self.http2_connections:
                return Http2Watches(self.paths[number :: self.http2_connections], deliveries)
            return Http1Watch(self.paths[number], deliveries)

        async def one(number: int) -> ClientConnection:
            async with opening:
                connection = await connect(self.server, partial(make, number), tls)
                connection.watch()
                return connection

        connections = await asyncio.gather(*map(one, range(self.http2_connections or len(self.paths))))
        await deliveries.until(lambda: deliveries.opened >= len(self.paths))
        if deliveries.opened < len(self.paths):
            raise LoadError(f"{deliveries.opened} of {len(self.paths)} watches were opened")
        return deliveries, list(connections)


class Caller(Driver):
    """Requests one after the other, for whoever awaits their answers."""

    wants_bodies = True

    def __init__(self) -> None:
        self._connection: Http1Requests | None = None
        self._answer: asyncio.Future[bytes] | None = None

    async def connect(self, server: Server) -> None:
        self._connection = await connect(server, lambda: Http1Requests(self, Form()), server.tls("http/1.1"))

    async def ask(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> bytes:
        """The body of the answer. Raises `LoadError` for anything but success."""
        assert self._connection is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._connection.send(Asked(0, method, path, body, media, 0.0))
        return await self._answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def answered(self, asked: Asked, status: int, body: bytes) -> None:
        if status >= 400:
            self.failed(f"the server answered {status} to {asked.method} {asked.path}: {body[:300]!r}")
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(body)

    def failed(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(LoadError(why))
