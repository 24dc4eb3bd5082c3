"""Client ends of upgraded connections, from `InMemory.connect` and `InMemory.upgrade`.

    async with api.connect("/apis/…/foos/a/exec?command=date") as client:
        client.send(0, b"input")
        assert await client.receive() == (1, b"output")
        assert (await client.outcome())["status"] == "Success"

Must not know: the server. See also: `server`, whose requests make these.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from typing import Any

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from oarlock.server.local.streams import MemoryTunnel

ERROR_CHANNEL = 3


class RawClient:
    """The client of a raw connection."""

    def __init__(self, tunnel: MemoryTunnel) -> None:
        self.tunnel = tunnel

    def write(self, data: bytes) -> None:
        self.tunnel.to_server.put(data)

    async def read(self, timeout_s: float = 60.0) -> bytes:
        """The next bytes; ``b""`` once the server has closed. Raises TimeoutError."""
        return await asyncio.wait_for(self.tunnel.to_client.take(), timeout_s)

    def leave(self) -> None:
        """Disconnect."""
        self.tunnel.leave()


class WebSocketClient(RawClient):
    """The client of a WebSocket with channels. `protocol` is the negotiated subprotocol."""

    def __init__(self, tunnel: MemoryTunnel, protocol: str) -> None:
        super().__init__(tunnel)
        self.protocol = protocol
        self.closed: tuple[int, str] | None = None
        """Code and reason of the server's Close frame."""
        self.pings = 0
        self._socket = Connection(ConnectionType.CLIENT)
        self._messages: list[tuple[int, bytes]] = []
        self._partial = b""

    def send(self, channel: int, data: bytes) -> None:
        """Send `data` on a channel, in one message."""
        if "base64" in self.protocol:
            text = chr(ord("0") + channel) + b64encode(data).decode()
            self.write(self._socket.send(TextMessage(data=text)))
        else:
            self.write(self._socket.send(BytesMessage(data=bytes((channel,)) + data)))

    def close_channel(self, channel: int) -> None:
        """Close a channel (``v5.channel.k8s.io``)."""
        self.send(255, bytes((channel,)))

    def ping(self) -> None:
        self.write(self._socket.send(Ping()))

    def close(self, code: int = 1000) -> None:
        """Send a Close frame."""
        self.write(self._socket.send(CloseConnection(code=code)))

    async def receive(self) -> tuple[int, bytes]:
        """Channel and data of the next message that isn't empty. Raises EOFError once the server has closed."""
        while not self._messages:
            if self.closed is not None:
                raise EOFError(f"the server has closed: {self.closed}")
            data = await self.read()
            if not data:
                self.closed = (1006, "")
                continue
            self._receive_frames(data)
        return self._messages.pop(0)

    async def rest(self) -> dict[int, bytes]:
        """All data up to the server's Close frame, by channel."""
        received: dict[int, bytes] = {}
        try:
            while True:
                channel, data = await self.receive()
                received[channel] = received.get(channel, b"") + data
        except EOFError:
            return received

    async def outcome(self) -> Any:
        """The final Status; other messages are skipped. Raises KeyError if there is none."""
        return json.loads((await self.rest())[ERROR_CHANNEL])

    def _receive_frames(self, data: bytes) -> None:
        self._socket.receive_data(data)
        for event in self._socket.events():
            match event:
                case BytesMessage() | TextMessage():
                    payload = event.data if isinstance(event.data, bytes | bytearray) else event.data.encode()
                    self._partial += payload
                    if event.message_finished:
                        self._add_message(self._partial)
                        self._partial = b""
                case Ping():
                    self.pings += 1
                    self.write(self._socket.send(event.response()))
                case CloseConnection():
                    self.closed = (int(event.code), event.reason or "")
                    if self._socket.state is ConnectionState.REMOTE_CLOSING:
                        self.write(self._socket.send(event.response()))
                case _:
                    pass

    def _add_message(self, message: bytes) -> None:
        channel, data = message[0], message[1:]
        if "base64" in self.protocol:
            channel, data = channel - ord("0"), b64decode(data)
        if data:
            self._messages.append((channel, data))
