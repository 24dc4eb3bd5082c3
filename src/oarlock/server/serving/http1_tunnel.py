"""`Http1Tunnel`: a connection that was handed over after a 101, raw bytes both ways.

Writing is that of an answer without chunks (`http1_stream`); what comes in waits here until it is read, and when
that is much the transport isn't read any further, so that the client has to wait. Next: `http1`.
"""

from __future__ import annotations

import asyncio

from oarlock.server.serving.http1_stream import Http1Owner, Http1Stream

__all__ = ["Http1Tunnel"]

WINDOW_BYTES = 256 * 1024
"""How much may wait to be read before the client has to."""


class Http1Tunnel(Http1Stream):
    """See `oarlock.endpoints.http.Tunnel`."""

    __slots__ = ("_arrived", "_reader", "_size")

    def __init__(self, connection: Http1Owner) -> None:
        super().__init__(connection, chunked=False)
        self._arrived: list[bytes] = []
        self._size = 0
        self._reader: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        """`data` has come in."""
        if self.closed or not data:
            return
        self._arrived.append(data)
        self._size += len(data)
        if self._size > WINDOW_BYTES:
            self._connection.hold_back(True)
        self._wake()

    async def read(self) -> bytes:
        """One reader at a time. What came before the end is still given."""
        if not self._arrived and not self.closed:
            self._reader = self._connection.service.loop.create_future()
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
