"""A transport whose answers break off where a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from boats import Boat, BoatSpec, boat_server

from oarlock import ObjectMeta
from oarlock.client import Client
from oarlock.client.keywords import RetryPolicy
from oarlock.client.transport import (
    ClientConnection,
    ClientRequest,
    ClientResponse,
    Transport,
    TransportError,
    WholeResponse,
)
from oarlock.testing import InMemory


class BreakingTransport:
    """Passes requests to `inner`. `cuts` are after how many bytes the next streams break; `refusals` come first."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.cuts: list[int] = []
        self.refusals: list[ClientResponse | TransportError] = []
        self.sent: list[ClientRequest] = []
        self.streams: list[CutStream] = []
        self.has_watch_list = True
        self.before: Callable[[], object] | None = None

    async def send(self, request: ClientRequest) -> ClientResponse:
        self.sent.append(request)
        if self.before is not None and not request.streams:
            self.before()
        if self.refusals:
            refusal = self.refusals.pop(0)
            if isinstance(refusal, TransportError):
                raise refusal
            return refusal
        if ("sendInitialEvents", "true") in request.query and not self.has_watch_list:
            return Whole(422, b'{"kind":"Status","code":422,"reason":"Invalid","message":"Forbidden"}')
        answer = await self.inner.send(request)
        if not request.streams or answer.status >= 400:
            return answer
        stream = CutStream(answer, self.cuts.pop(0) if self.cuts else None)
        self.streams.append(stream)
        return stream

    async def connect(self, request: ClientRequest, protocols: Sequence[str]) -> ClientConnection | ClientResponse:
        return await self.inner.connect(request, protocols)

    async def close(self) -> None:
        await self.inner.close()

    async def cut(self) -> None:
        """Break all streams off that are open now."""
        for stream in self.streams:
            await stream.cut()
        self.streams.clear()

    @property
    def watches(self) -> list[str]:
        """The resourceVersion of each watch."""
        return [dict(one.query).get("resourceVersion", "") for one in self.sent if one.streams]


class Whole(WholeResponse):
    """An answer that a test makes up."""

    def __init__(self, status: int, body: bytes, **headers: str) -> None:
        super().__init__(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


class CutStream(ClientResponse):
    """A stream that breaks off after so many bytes, or when it is told to."""

    def __init__(self, inner: ClientResponse, after: int | None) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self.size = 0
        self._inner = inner
        self._left = after
        self._cut = False

    async def read(self) -> bytes:
        return await self._inner.read()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._inner.chunks():
                if self._left is not None and len(chunk) >= self._left:
                    if self._left:
                        yield chunk[: self._left]
                    raise TransportError("cut", sent=True)
                if self._left is not None:
                    self._left -= len(chunk)
                self.size += len(chunk)
                yield chunk
        except TransportError:
            raise TransportError("cut", sent=True) from None

    async def cut(self) -> None:
        await self._inner.close()

    async def close(self) -> None:
        await self._inner.close()


async def no_sleep(seconds: float) -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def breaking() -> AsyncIterator[tuple[Client, BreakingTransport, Client]]:
    """A client whose transport breaks, and one whose doesn't."""
    async with InMemory(boat_server()) as api, api.client() as steady:
        transport = BreakingTransport(steady.transport)
        yield Client(transport, retries=RetryPolicy(sleep=no_sleep)), transport, steady


def boat(name: str, crew: int = 1, namespace: str = "default", **labels: str) -> Boat:
    return Boat(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels or None), spec=BoatSpec(crew=crew))


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 the server is given its turns
            await asyncio.sleep(0)
