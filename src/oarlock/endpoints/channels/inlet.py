"""`Inlet`: the receive buffer of one channel. `Room`: the limit for all buffers of a connection.

Must not know: frames, protocols. See also: `over_websocket`.
"""

from __future__ import annotations

import asyncio

__all__ = ["WINDOW_BYTES", "Inlet", "Room"]

WINDOW_BYTES = 256 * 1024
"""How many received bytes may be buffered, over all channels, before the server stops receiving."""


class Room:
    """The bytes in all buffers of one connection. `wait` returns when there is room again, or after `lift`."""

    __slots__ = ("_held", "_open", "_waiting")

    def __init__(self) -> None:
        self._held = 0
        self._open = True
        self._waiting: asyncio.Future[None] | None = None

    def take(self, size: int) -> None:
        self._held += size

    def give(self, size: int) -> None:
        self._held -= size
        if self._held <= WINDOW_BYTES:
            self._wake()

    def lift(self) -> None:
        """Remove the limit."""
        self._open = False
        self._wake()

    @property
    def full(self) -> bool:
        return self._open and self._held > WINDOW_BYTES

    async def wait(self) -> None:
        while self.full:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)


class Inlet:
    """The buffer of one channel. Several tasks may wait in `read`; each piece goes to one of them."""

    __slots__ = ("_arrived", "_readers", "_room", "_size", "ended")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._arrived: list[bytes] = []
        self._size = 0
        self._readers: list[asyncio.Future[None]] = []
        self.ended = False

    def feed(self, data: bytes) -> None:
        """Add received `data`; dropped after `end`."""
        if data and not self.ended:
            self._arrived.append(data)
            self._size += len(data)
            self._room.take(len(data))
            self._wake()

    def end(self) -> None:
        """No more data will come. Buffered data can still be read."""
        self.ended = True
        self._wake()

    def drop(self) -> None:
        """Discard the buffer, which has no reader any more."""
        self.end()
        self._take_all()

    async def read(self) -> bytes:
        while not self._arrived and not self.ended:
            reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._readers.append(reader)
            await reader
        return self._take_all()

    def _take_all(self) -> bytes:
        data, self._arrived = b"".join(self._arrived), []
        self._room.give(self._size)
        self._size = 0
        return data

    def _wake(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            if not reader.done():
                reader.set_result(None)
