"""`Transport`: how a client's requests reach a server. A request goes in, an answer with a stream comes out.

The client is written once over this. In the server's own process a request goes to the handler chain; elsewhere it
goes over HTTP. Must not know: kinds, objects. See also: `http_transport`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from oarlock.meta.dataclass import dataclass


class TransportError(ConnectionError):
    """The request has no answer: no connection, a broken connection, or a timeout.

    If `sent` is true, the server may have received the request, so a write may have been executed.
    """

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """One request. `path` is percent-encoded, without the query.

    `query` are names and values in order, not encoded; `headers` are lines with names in lower case. `timeout_s` is for
    the whole answer, or for its head alone if it `streams`; None waits for ever. A stream breaks when nothing has come
    for `silence_s`.
    """

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    timeout_s: float | None = None
    streams: bool = False
    silence_s: float | None = None


class ClientResponse(ABC):
    """The head of an answer, and its body to be read. Header names are lower case. Close it if it `streams`."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """The whole body. Raises TransportError."""
        return b"".join([chunk async for chunk in self.chunks()])

    @abstractmethod
    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives. Raises TransportError when it breaks off."""

    @abstractmethod
    async def close(self) -> None:
        """Give up the rest. Safe to call twice."""


class WholeResponse(ClientResponse):
    """An answer that is here already."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self._body = body

    async def read(self) -> bytes:
        return self._body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self._body

    async def close(self) -> None:
        self._body = b""


class ClientConnection(ABC):
    """An upgraded request: messages of bytes both ways (WebSocket)."""

    protocol: str

    @abstractmethod
    async def send(self, message: bytes) -> None:
        """Send a binary message. Raises TransportError when the connection has ended."""

    @abstractmethod
    async def receive(self) -> bytes | None:
        """The next message; None at the end."""

    @abstractmethod
    async def close(self) -> None:
        """End the connection. Safe to call twice."""


class Transport(Protocol):
    """A way to one server. May be used by several clients at once, in one event loop."""

    async def send(self, request: ClientRequest) -> ClientResponse:
        """Send a request and wait for the head of the answer. Raises TransportError."""
        ...

    async def connect(self, request: ClientRequest, protocols: Sequence[str]) -> ClientConnection | ClientResponse:
        """Upgrade to WebSocket with one of `protocols`; the answer itself if the server refuses."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
