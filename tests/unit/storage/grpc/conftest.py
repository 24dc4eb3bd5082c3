"""``scripted`` is a server of HTTP/2 frames that does what a test says, to a client that believes it is gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from scripted_http2 import Script, listening

from oarlock.storage.grpc.channel import GrpcChannel, GrpcTarget

Scripted = Callable[[Script], "asyncio._AsyncContextManager[GrpcChannel]"]  # type: ignore[name-defined]


@pytest.fixture
def scripted() -> Callable[..., object]:
    """``async with scripted(script) as channel:`` a channel to a server that runs `script` for each connection."""

    @asynccontextmanager
    async def serve(script: Script, *, begins: bool = True, largest: int = 1 << 20) -> AsyncIterator[GrpcChannel]:
        async with listening(script, begins=begins) as port:
            channel = GrpcChannel(GrpcTarget("127.0.0.1", port), largest=largest)
            try:
                yield channel
            finally:
                await channel.close()

    return serve
