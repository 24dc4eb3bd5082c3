"""`WebSocketFrames`: the WebSocket protocol without I/O. Received bytes become `Piece`, `Reply` and `Over`.

wsproto parses; the limits and the answers to malformed frames are implemented here. A large message isn't buffered but
passed on in pieces.
Must not know: what messages mean, tunnels. See also: `over_websocket`. Source: RFC 6455.
"""

from __future__ import annotations

from collections.abc import Iterator

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, TextMessage

from oarlock.endpoints.channels.end import BAD_PAYLOAD, TOO_BIG
from oarlock.meta.dataclass import dataclass

__all__ = ["MAX_MESSAGE_BYTES", "Over", "Piece", "Reply", "WebSocketFrames"]

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
