"""A server of HTTP/2 frames that does what a test says: the side that a client talks to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from jh2.hpack import Encoder

from oarlock.http2 import frames as h2

__all__ = ["Script", "ScriptedServer", "listening"]


class ScriptedServer:
    """One connection of a client. `requests` are the numbers of the streams that it has ended."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._encoder = Encoder()
        self.frames: list[tuple[int, int, int, bytes]] = []

    async def frame(self, kind: int) -> tuple[int, int, int, bytes]:
        """The next frame of `kind`; the ones before it are kept in `frames`."""
        while True:
            head = await self._reader.readexactly(h2.FRAME_HEADER_BYTES)
            upper, lowest, found, flags, stream_id = h2.read_frame_header(head, 0)
            frame = (found, flags, stream_id, await self._reader.readexactly(upper << 8 | lowest))
            self.frames.append(frame)
            if found == kind:
                return frame

    async def request(self) -> int:
        """The stream of the next request that is whole."""
        while True:
            _, flags, stream_id, _ = await self.frame(h2.DATA)
            if flags & h2.END_STREAM:
                return stream_id

    def headers(self, stream_id: int, *fields: tuple[str, str], end: bool = False) -> bytes:
        return h2.headers_frames(stream_id, self._encoder.encode(list(fields)), end)

    def answer(self, stream_id: int, message: bytes) -> bytes:
        data = b"\0" + len(message).to_bytes(4, "big") + message
        return b"".join(
            (
                self.headers(stream_id, (":status", "200"), ("content-type", "application/grpc")),
                h2.data_frame(stream_id, data, end=False),
                self.headers(stream_id, ("grpc-status", "0"), end=True),
            )
        )

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.close()

    async def rest(self) -> bytes:
        """All that the client sends until it ends the connection."""
        return await self._reader.read()


Script = Callable[[ScriptedServer], Awaitable[None]]


@asynccontextmanager
async def listening(
    script: Script, *, begins: bool = True, context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """The port of a server that runs `script` for each connection, after the preface unless not `begins`."""
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
            writer.transport.abort() if context else writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
    assert not failures, failures
