"""`WebSocketFrames`: the WebSocket protocol without I/O. Received bytes become `Piece`, `Reply` and `Over`.

wsproto parses; the limits and the answers to malformed frames are implemented here. A large message isn't buffered but
passed on in pieces. `Inlet` is the receive buffer of one channel, `Room` the limit for all buffers of a connection.
Must not know: what messages mean, tunnels. See also: `over_websocket`. Source: RFC 6455.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, TextMessage

from oarlock.endpoints.channels.over_pipe import BAD_PAYLOAD, TOO_BIG
from oarlock.meta.dataclass import dataclass

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


MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""The largest message that is accepted, as in Kubernetes."""

_REASON_BYTES = 123  # the longest reason in a Close frame


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a message; `last` ends it."""

    data: bytes
    last: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """Bytes to send back at once."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Over:
    """The end: the client closed (`code` is 0), or broke the protocol and is to be closed with `code` and `why`."""

    code: int
    why: str


class WebSocketFrames:
    """The frames of one connection. After `Over`, received bytes are ignored."""

    def __init__(self) -> None:
        self._socket = Connection(ConnectionType.SERVER)
        self._size = 0
        self._over = False

    @property
    def closing(self) -> bool:
        """Whether a Close frame was sent."""
        return self._socket.state not in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING)

    def feed(self, data: bytes) -> Iterator[Piece | Reply | Over]:
        """The events in `data`. Consume them before feeding more."""
        if self._over:
            return
        self._socket.receive_data(data)
        for event in self._socket.events():
            match event:
                case BytesMessage() | TextMessage():
                    found: Piece | Reply | Over | None = self._piece(event)
                case Ping():
                    found = None if self.closing else Reply(self._socket.send(event.response()))
                case CloseConnection():
                    yield from self._closed(event)
                    return
                case _:
                    found = None
            if found is not None:
                yield found
            if isinstance(found, Over):
                self._over = True
                return

    def _piece(self, event: Message) -> Piece | Over:  # type: ignore[type-arg]
        data = event.data.encode() if isinstance(event.data, str) else bytes(event.data)
        self._size += len(data)
        if self._size > MAX_MESSAGE_BYTES:
            return Over(TOO_BIG, f"a message has at most {MAX_MESSAGE_BYTES} bytes")
        if event.message_finished:
            self._size = 0
        return Piece(data, event.message_finished)

    def _closed(self, event: CloseConnection) -> Iterator[Reply | Over]:
        """A Close frame of the client, or wsproto's reaction to a malformed frame."""
        self._over = True
        if self._socket.state is ConnectionState.REMOTE_CLOSING:
            yield Reply(self._socket.send(event.response()))
            yield Over(0, "")
        elif self.closing:
            yield Over(0, "")
        else:
            code = int(event.code)
            yield Over(code, "a text that is no UTF-8" if code == BAD_PAYLOAD else event.reason or "")

    def message(self, payload: bytes | str) -> bytes:
        """The frame of a message; ``b""`` once a Close frame was sent or received."""
        if self._socket.state is not ConnectionState.OPEN:
            return b""
        if isinstance(payload, str):
            return self._socket.send(TextMessage(data=payload))
        return self._socket.send(BytesMessage(data=payload))

    def ping(self) -> bytes:
        return self._socket.send(Ping()) if self._socket.state is ConnectionState.OPEN else b""

    def close(self, code: int, why: str) -> bytes:
        """A Close frame; ``b""`` if one was sent already."""
        if self._socket.state is not ConnectionState.OPEN:
            return b""
        reason = why.encode()[:_REASON_BYTES].decode(errors="ignore")
        return self._socket.send(CloseConnection(code=code, reason=reason or None))
