"""``scripted`` is a server of HTTP/2 frames that does what a test says, to a client that believes it is gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from scripted_http2 import ScriptedServer

from oarlock.http2 import frames as h2
from oarlock.storage.grpc.channel import GrpcChannel, GrpcTarget

Script = Callable[[ScriptedServer], Awaitable[None]]
Scripted = Callable[[Script], "asyncio._AsyncContextManager[GrpcChannel]"]  # type: ignore[name-defined]


@pytest.fixture
def scripted() -> Callable[..., object]:
    """``async with scripted(script) as channel:`` a channel to a server that runs `script` for each connection."""

    @asynccontextmanager
    async def serve(script: Script, *, begins: bool = True, largest: int = 1 << 20) -> AsyncIterator[GrpcChannel]:
        failures: list[BaseException] = []

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            server = ScriptedServer(reader, writer)
            try:
                if begins:
                    await reader.readexactly(len(h2.PREFACE))
                    await server.send(h2.settings_frame({}))
                await script(server)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass  # the client has gone
            except Exception as error:
                failures.append(error)
            finally:
                writer.close()

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        channel = GrpcChannel(GrpcTarget("127.0.0.1", server.sockets[0].getsockname()[1]), largest=largest)
        try:
            yield channel
        finally:
            await channel.close()
            server.close()
        assert not failures, failures

    return serve
