"""`WebSocket`: a `ClientConnection` over bytes both ways, in this process or over a network (RFC 6455).

See also: `http_transport` and ``server.local``, which make them.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from oarlock.client.transport import ClientConnection, TransportError

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
CLOSE_S = 1.0
"""How long the other end may take to say goodbye too."""


class ByteTunnel(Protocol):
    """Bytes both ways. What both raise for a connection that broke off is a ConnectionError."""

    async def write(self, data: bytes) -> None:
        """Send; waits while the other end takes none."""
        ...

    async def piece(self) -> bytes:
        """What has come; empty at the end."""
        ...

    def close(self) -> None:
        """End it. Safe to call twice."""
        ...


class WebSocket(ClientConnection):
    """Messages over `tunnel`. With `heartbeat_s`, one that is silent for so long is asked for a sign of life, and ends
    after as long again."""

    def __init__(self, tunnel: ByteTunnel, protocol: str, heartbeat_s: float | None = None) -> None:
        self.protocol = protocol
        self._tunnel = tunnel
        self._heartbeat_s = heartbeat_s
        self._socket = Connection(ConnectionType.CLIENT)
        self._messages: list[bytes] = []
        self._partial = bytearray()
        self._ended = False

    async def send(self, message: bytes) -> None:
        if self._ended:
            raise TransportError("the connection has ended", sent=True)
        try:
            await self._tunnel.write(self._socket.send(BytesMessage(data=message)))
        except (LocalProtocolError, ConnectionError) as error:
            self._ended = True
            raise TransportError(f"the connection has ended: {error}", sent=True) from None

    async def receive(self) -> bytes | None:
        while not self._messages and not self._ended:
            try:
                await self._read_frames(await self._piece())
            except TransportError:
                raise
            except (RemoteProtocolError, LocalProtocolError, ConnectionError) as error:
                self._ended = True
                raise TransportError(f"the connection was interrupted: {error}", sent=True) from None
        return self._messages.pop(0) if self._messages else None

    async def _piece(self) -> bytes:
        for pinged in (False, True):
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    return await self._tunnel.piece()
            except TimeoutError:
                if pinged:
                    raise ConnectionError("no answer to a ping") from None
                await self._tunnel.write(self._socket.send(Ping()))
        raise AssertionError("the second attempt returns or raises")

    async def _read_frames(self, data: bytes) -> None:
        if not data:
            self._ended = True
            return
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
                await self._tunnel.write(self._socket.send(event.response()))
            elif isinstance(event, CloseConnection):
                self._ended = True
                await self._tunnel.write(self._socket.send(event.response()))

    async def close(self) -> None:
        try:
            if not self._ended:
                await self._tunnel.write(self._socket.send(CloseConnection(code=1000)))
                async with asyncio.timeout(CLOSE_S):
                    while self._heartbeat_s is not None and not self._ended:
                        self._messages.clear()
                        await self._read_frames(await self._tunnel.piece())
        except (TransportError, RemoteProtocolError, LocalProtocolError, ConnectionError, TimeoutError):
            pass  # it has ended already, or ends now
        finally:
            self._ended = True
            self._tunnel.close()
