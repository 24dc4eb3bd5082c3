"""A transport whose answers break off where a test says."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from oarlock.client.transport import ClientConnection, ClientRequest, ClientResponse, Transport, TransportError


class BreakingTransport:
    """Passes requests to `inner`. `cuts` are after how many bytes the next streams break; `refusals` come first."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.cuts: list[int] = []
        self.refusals: list[ClientResponse | TransportError] = []
        self.sent: list[ClientRequest] = []

    async def send(self, request: ClientRequest) -> ClientResponse:
        self.sent.append(request)
        if self.refusals:
            refusal = self.refusals.pop(0)
            if isinstance(refusal, TransportError):
                raise refusal
            return refusal
        answer = await self.inner.send(request)
        return _Cut(answer, self.cuts.pop(0)) if request.streams and self.cuts else answer

    async def connect(self, request: ClientRequest, protocols: Sequence[str]) -> ClientConnection | ClientResponse:
        return await self.inner.connect(request, protocols)

    async def close(self) -> None:
        await self.inner.close()

    @property
    def watches(self) -> list[str]:
        """The resourceVersion of each watch."""
        return [dict(one.query).get("resourceVersion", "") for one in self.sent if one.streams]


class Whole(ClientResponse):
    """An answer that a test makes up."""

    def __init__(self, status: int, body: bytes, **headers: str) -> None:
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._body = body

    async def read(self) -> bytes:
        return self._body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self._body

    async def close(self) -> None:
        self._body = b""


class _Cut(ClientResponse):
    def __init__(self, inner: ClientResponse, after: int) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self._inner = inner
        self._left = after

    async def read(self) -> bytes:
        return await self._inner.read()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async for chunk in self._inner.chunks():
            if len(chunk) >= self._left:
                if self._left:
                    yield chunk[: self._left]
                raise TransportError("cut", sent=True)
            self._left -= len(chunk)
            yield chunk

    async def close(self) -> None:
        await self._inner.close()
