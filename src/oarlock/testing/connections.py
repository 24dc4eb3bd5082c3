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
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from oarlock.endpoints.http import Response

__all__ = ["CONGESTED_BYTES", "MemoryStream", "MemoryTunnel", "RawClient", "WebSocketClient"]

log = logging.getLogger("oarlock.testing")

CONGESTED_BYTES = 64 * 1024
ERROR_CHANNEL = 3


class MemoryStream:
    """The end of a streamed answer, see `oarlock.endpoints.http.Stream`: common to answers and tunnels."""

    def __init__(self, response: Response | None = None) -> None:
        self._response = response
        self._callbacks: list[Callable[[], None]] = []
        self.closed = False
        self.aborted = False
        """Whether the server has reset it."""

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


class MemoryTunnel(MemoryStream):
    """The server's end, see `oarlock.endpoints.http.Tunnel`; with backpressure while the client doesn't read."""

    def __init__(self, response: Response | None = None) -> None:
        super().__init__(response)
        self.to_client, self.to_server = _Direction(), _Direction()

    def write(self, data: bytes) -> None:
        if not self.closed:
            self.to_client.put(data)

    @property
    def buffered(self) -> int:
        return self.to_client.size

    async def drained(self) -> None:
        while self.buffered > CONGESTED_BYTES and not self.closed:
            await self.to_client.changed()

    async def read(self) -> bytes:
        return await self.to_server.take()

    def _wake(self) -> None:
        self.to_client.end()
        self.to_server.end()


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
