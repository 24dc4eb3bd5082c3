"""`Inlet`: what a client sent on one channel and nobody has read yet, and `Room`, what all of them may hold together.

Must not know: frames, protocols. Next: `over_websocket`.
"""

from __future__ import annotations

import asyncio

__all__ = ["WINDOW_BYTES", "Inlet", "Room"]

WINDOW_BYTES = 256 * 1024
"""How much may wait to be read in all channels of a client before it has to wait itself."""


class Room:
    """How much the inlets of one connection hold. `wait` returns when that is little enough, or nobody cares."""

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
        """There is always room from now on."""
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
    """One channel's. Several may wait in `read`; each piece is for one of them."""

    __slots__ = ("_arrived", "_readers", "_room", "_size", "ended")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._arrived: list[bytes] = []
        self._size = 0
        self._readers: list[asyncio.Future[None]] = []
        self.ended = False

    def feed(self, data: bytes) -> None:
        """`data` has come in; dropped after `end`."""
        if data and not self.ended:
            self._arrived.append(data)
            self._size += len(data)
            self._room.take(len(data))
            self._wake()

    def end(self) -> None:
        """Nothing more comes. What is there can still be read."""
        self.ended = True
        self._wake()

    def drop(self) -> None:
        """Nobody reads it any more."""
        self.end()
        self._taken()

    async def read(self) -> bytes:
        while not self._arrived and not self.ended:
            reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._readers.append(reader)
            await reader
        return self._taken()

    def _taken(self) -> bytes:
        data, self._arrived = b"".join(self._arrived), []
        self._room.give(self._size)
        self._size = 0
        return data

    def _wake(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            if not reader.done():
                reader.set_result(None)
