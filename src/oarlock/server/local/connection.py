"""`LocalConnection`: the client's end of a WebSocket within one process.

See also: `local.transport`, which makes them.
"""

from __future__ import annotations

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from oarlock.client.transport import ClientConnection, TransportError
from oarlock.server.local.streams import MemoryTunnel

__all__ = ["LocalConnection"]

MAX_MESSAGE_BYTES = 32 * 1024 * 1024


class LocalConnection(ClientConnection):
    """Messages over `tunnel`."""

    def __init__(self, tunnel: MemoryTunnel, protocol: str) -> None:
        self.protocol = protocol
        self._tunnel = tunnel
        self._socket = Connection(ConnectionType.CLIENT)
        self._messages: list[bytes] = []
        self._partial = bytearray()
        self._ended = False

    async def send(self, message: bytes) -> None:
        if not self._tunnel.closed and not self._ended:
            await self._tunnel.send(self._socket.send(BytesMessage(data=message)))
        if self._tunnel.closed or self._ended:
            raise TransportError("the connection has ended", sent=True)

    async def receive(self) -> bytes | None:
        while not self._messages and not self._ended:
            data = await self._tunnel.to_client.take()
            if data:
                self._read_frames(data)
            else:
                self._ended = True
        return self._messages.pop(0) if self._messages else None

    def _read_frames(self, data: bytes) -> None:
        try:
            self._socket.receive_data(data)
            for event in self._socket.events():
                if isinstance(event, BytesMessage | TextMessage):
                    self._partial += event.data if isinstance(event, BytesMessage) else event.data.encode()
                    if len(self._partial) > MAX_MESSAGE_BYTES:
                        raise TransportError(f"a message has more than {MAX_MESSAGE_BYTES} bytes", sent=True)
                    if event.message_finished:
                        self._messages.append(bytes(self._partial))
                        self._partial.clear()
                elif isinstance(event, Ping):
                    self._tunnel.to_server.put(self._socket.send(event.response()))
                elif isinstance(event, CloseConnection):
                    self._ended = True
        except RemoteProtocolError as error:
            raise TransportError(f"the connection broke off: {error}", sent=True) from None

    async def close(self) -> None:
        if not self._tunnel.closed:
            try:
                self._tunnel.to_server.put(self._socket.send(CloseConnection(code=1000)))
            except LocalProtocolError:
                pass  # the server has closed it already
            self._tunnel.leave()
