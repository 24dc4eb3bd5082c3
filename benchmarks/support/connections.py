"""The client's end of a connection, cheap enough to keep a server busy: bytes in, answers out, no streams, no tasks.

See also: `http1_requests`, `http2_requests`.
"""

from __future__ import annotations

import asyncio
import ssl
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import aiofastnet

from support.wardle import TOKEN, Server


class LoadError(Exception):
    """The server answered, or failed to answer, in a way that makes figures worthless."""


class Asked(NamedTuple):
    """A request: its number, what it says, and when it was sent."""

    n: int
    method: str
    path: str
    body: bytes
    media: str
    started: float


class Form(NamedTuple):
    """What every request of a connection says beside its method, path and body."""

    accept: str = "application/json"
    accept_encoding: str = ""

    def fields(self) -> list[tuple[str, str]]:
        fields = [("authorization", f"Bearer {TOKEN}"), ("accept", self.accept), ("user-agent", "bench/1")]
        return [*fields, ("accept-encoding", self.accept_encoding)] if self.accept_encoding else fields


class Driver:
    """What connections tell of answers and failures. The answer to an answer is the next request, if there is one."""

    wants_bodies = False
    """Whether successful answers are wanted with their bodies, which costs a copy."""

    @abstractmethod
    def answered(self, asked: Asked, status: int, body: bytes) -> Asked | None: ...

    @abstractmethod
    def failed(self, why: str) -> None: ...


class ClientConnection(asyncio.Protocol):
    """A connection that knows whether the server was allowed to end it."""

    transport: Any
    closing = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    @abstractmethod
    def on_lost(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closing:
            self.on_lost()

    def close(self) -> None:
        self.closing = True
        self.transport.close()


Connected = TypeVar("Connected", bound=ClientConnection)


async def connect(server: Server, make: Callable[[], Connected], tls: ssl.SSLContext) -> Connected:
    """A connection whose handshake is done."""
    _, connection = await aiofastnet.create_connection(
        asyncio.get_running_loop(), make, "127.0.0.1", server.port, ssl=tls, server_hostname="localhost"
    )
    return connection
