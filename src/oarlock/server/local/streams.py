"""The server's end of answers that stream and of connections, for clients in its own process: buffers, no sockets.

See also: `local.transport`, and ``testing.server``, whose clients have the other end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from oarlock.endpoints.http import Response

log = logging.getLogger("oarlock.client")

CONGESTED_BYTES = 64 * 1024

WEBSOCKET_HEADERS = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


class MemoryStream:
    """The server's end of a streamed answer, see `oarlock.endpoints.http.Stream`: common to answers and tunnels."""

    def __init__(self, response: Response | None = None) -> None:
        self._response = response
        self._callbacks: list[Callable[[], None]] = []
        self.closed = False
        self.aborted = False
        """Whether the server has reset it."""

    @property
    def shared_writer(self) -> None:
        """A stream in memory gains nothing by it."""

    def close(self) -> None:
        self._end(whole=True)

    def abort(self) -> None:
        self.aborted = not self.closed
        self._end(whole=False)

    def leave(self) -> None:
        """The client disconnects."""
        self._end(whole=False)

    def on_close(self, callback: Callable[[], None]) -> None:
        if self.closed:
            callback()
        else:
            self._callbacks.append(callback)

    def _end(self, whole: bool) -> None:
        if self.closed:
            return
        self.closed = True
        self._wake()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                log.exception("a callback of a closed stream failed")
        if self._response is not None:
            self._response.sent(whole)

    def _wake(self) -> None:
        """Wake whoever reads, or waits for room: it has ended."""
        raise AssertionError("a stream says who waits for it")


class _Direction:
    """The buffer of one direction."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.size = 0
        self.ended = False
        self._changed = asyncio.Event()

    def put(self, data: bytes) -> None:
        if data and not self.ended:
            self._chunks.append(data)
            self.size += len(data)
            self._changed.set()

    def end(self) -> None:
        self.ended = True
        self._changed.set()

    async def take(self) -> bytes:
        while not self._chunks and not self.ended:
            await self.changed()
        data, self._chunks, self.size = b"".join(self._chunks), [], 0
        self._changed.set()
        return data

    async def changed(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class BufferedStream(MemoryStream):
    """The same, whose client takes what was written when it wants, and slows the writer down until then."""

    def __init__(self, response: Response | None = None) -> None:
        super().__init__(response)
        self.to_client = _Direction()

    def write(self, data: bytes) -> None:
        if not self.closed:
            self.to_client.put(data)

    @property
    def buffered(self) -> int:
        return self.to_client.size

    async def drained(self) -> None:
        while self.buffered > CONGESTED_BYTES and not self.closed:
            await self.to_client.changed()

    def _wake(self) -> None:
        self.to_client.end()


class MemoryTunnel(BufferedStream):
    """The server's end of an upgraded connection, see `oarlock.endpoints.http.Tunnel`."""

    def __init__(self, response: Response | None = None) -> None:
        super().__init__(response)
        self.to_server = _Direction()

    async def read(self) -> bytes:
        return await self.to_server.take()

    async def send(self, data: bytes) -> None:
        """The client sends, when the server has read what came before."""
        while self.to_server.size > CONGESTED_BYTES and not self.closed:
            await self.to_server.changed()
        self.to_server.put(data)

    def _wake(self) -> None:
        super()._wake()
        self.to_server.end()
