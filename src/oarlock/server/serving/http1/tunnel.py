"""`Http1Tunnel`: a connection after a 101: raw bytes both ways.

Writes are those of an answer without chunks (`http1.stream`); received data is buffered here, and reading from the
transport pauses when the buffer is full. See also: `http1.connection`.
"""

from __future__ import annotations

import asyncio

from oarlock.server.serving.http1.stream import Http1Owner, Http1Stream

__all__ = ["Http1Tunnel"]

WINDOW_BYTES = 256 * 1024
"""The size of the receive buffer, in bytes."""


class Http1Tunnel(Http1Stream):
    """See `oarlock.endpoints.http.Tunnel`."""

    __slots__ = ("_arrived", "_reader", "_size")

    def __init__(self, connection: Http1Owner) -> None:
        super().__init__(connection, chunked=False)
        self._arrived: list[bytes] = []
        self._size = 0
        self._reader: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        """Add received `data`."""
        if self.closed or not data:
            return
        self._arrived.append(data)
        self._size += len(data)
        if self._size > WINDOW_BYTES:
            self._connection.hold_back(True)
        self._wake()

    async def read(self) -> bytes:
        """One reader at a time. Data from before the end is still returned."""
        if not self._arrived and not self.closed:
            self._reader = self._connection.listener.loop.create_future()
            await self._reader
        data, self._arrived, self._size = b"".join(self._arrived), [], 0
        if not self.closed:
            self._connection.hold_back(False)
        return data

    def ended(self) -> None:
        super().ended()
        self._wake()

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)
