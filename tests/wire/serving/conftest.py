"""A listener on 127.0.0.1 and raw sockets to talk to it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oarlock.endpoints.http import Request, Response
from oarlock.server.serving.certs import ServingFiles, ensure_certificates
from oarlock.server.serving.config import Limits, ServingConfig
from oarlock.server.serving.server import Listening, serve

WAIT_S = 5.0


class ManualClock:
    """Time that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return 1_800_000_000.0 + self.seconds

    def monotonic(self) -> float:
        return self.seconds


class Raw:
    """A client that sends what it's told to and reads what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until(self, end: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(end), WAIT_S)

    async def exactly(self, count: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(count), WAIT_S)

    async def rest(self) -> bytes:
        """Everything up to the end; a reset counts as the end."""
        data = b""
        try:
            while piece := await asyncio.wait_for(self.reader.read(65536), WAIT_S):
                data += piece
        except ConnectionError:
            pass
        return data

    async def response(self, head_only: bool = False) -> tuple[int, dict[str, str], bytes]:
        """One whole answer: status, headers, body."""
        head = (await self.until(b"\r\n\r\n")).decode()
        first, *lines = head[:-4].split("\r\n")
        status = int(first.split(" ")[1])
        headers = dict(line.split(": ", 1) for line in lines)
        if head_only or status in (204, 304) or status < 200:
            return status, headers, b""
        if "content-length" in headers:
            return status, headers, await self.exactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await self.until(b"\r\n"), 16):
                body += (await self.exactly(size + 2))[:-2]
            await self.until(b"\r\n")
            return status, headers, body
        return status, headers, await self.rest()

    def close(self) -> None:
        self.writer.close()


class Server:
    """A listener, its clock and how to reach it."""

    def __init__(self, listening: Listening, clock: ManualClock, tls: ssl.SSLContext | None) -> None:
        self.listening = listening
        self.clock = clock
        self.tls = tls
        self.clients: list[Raw] = []

    async def connect(self, tls: ssl.SSLContext | None = None, **options: Any) -> Raw:
        context = tls or self.tls
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.listening.port, ssl=context, limit=2**26, **options
        )
        self.clients.append(Raw(reader, writer))
        return self.clients[-1]

    async def finish(self) -> None:
        for client in self.clients:
            client.writer.transport.abort()
        await self.listening.close()

    async def later(self, seconds: float) -> None:
        """Move the clock and let the listener look at it."""
        for _ in range(3):
            await asyncio.sleep(0.002)
        self.clock.seconds += seconds
        self.listening.sweep(self.clock.seconds)
        for _ in range(3):
            await asyncio.sleep(0.002)


async def echo(request: Request) -> Response:
    """Says what it was asked."""
    body = await request.read()
    text = f"{request.method} {request.path} {request.query} {len(body)}".encode()
    return Response(200, [("content-type", "text/plain")], text)


Handler = Callable[[Request], Awaitable[Response]]


@asynccontextmanager
async def serving(
    handler: Handler = echo,
    *,
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
    http2: bool = True,
    **limits: Any,
) -> AsyncIterator[Server]:
    clock = ManualClock()
    config = ServingConfig(
        tls=tls[0] if tls else None, limits=replace(Limits(), **limits), sweep_interval_s=3600.0, http2=http2
    )
    listening = await serve(handler, config, clock)
    running = Server(listening, clock, tls[1] if tls else None)
    try:
        yield running
    finally:
        await running.finish()


@pytest.fixture(scope="session")
def server() -> Any:
    """`async with server(handler, **limits) as s: client = await s.connect()`."""
    return serving


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> ServingFiles:
    return ensure_certificates(Path(tmp_path_factory.mktemp("certs")), (), time.time())
