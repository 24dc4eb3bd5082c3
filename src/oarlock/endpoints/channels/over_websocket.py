"""`WebSocketChannels`: the channels of one client, over a WebSocket.

A task reads the tunnel while there is room in the buffers; then the client has to wait. What the method writes waits
for the client in turn. Until the tunnel is open (`start`), reads and writes wait for it. See also: `websocket_frames`,
`protocols`; ``verbs.connect``, which ends it.
"""

from __future__ import annotations

import asyncio
import binascii
import logging
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from typing import Annotated

import msgspec

from oarlock.endpoints.channels import upgrades
from oarlock.endpoints.channels.over_pipe import (
    BAD_PAYLOAD,
    GONE,
    INTERNAL_ERROR,
    NORMAL,
    POLICY,
    PROTOCOL_ERROR,
    Ending,
)
from oarlock.endpoints.channels.upgrades import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, TERMINAL, ChannelProtocol
from oarlock.endpoints.channels.websocket_frames import Inlet, Over, Piece, Reply, Room, WebSocketFrames
from oarlock.endpoints.http import Tunnel
from oarlock.net.futures import shared
from oarlock.registry.hooks.channels import TerminalSize
from oarlock.storage.pacing import Pacer

log = logging.getLogger("oarlock.endpoints")

PARSE_BYTES = 4096
"""How many bytes are parsed before other tasks get a turn: a frame may have only six bytes."""
MESSAGE_BYTES = 64 * 1024
"""The largest message that is sent."""
CLOSE_S = 5.0
"""How long the client may take to answer a Close frame, in seconds."""
PING_S = 30.0
"""Interval of pings, in seconds: detects vanished clients, and keeps proxies from closing an idle connection."""
STUCK_PING_S = 0.5
"""The interval while received data isn't read: a disconnect can't be seen behind it, but the ping then fails."""
_MOST_RESIZE_BYTES = 1024


class _Channel:
    """See `oarlock.registry.hooks.channels.Channel`."""

    __slots__ = ("_inlet", "_number", "_owner", "closed")

    def __init__(self, owner: WebSocketChannels, number: int, inlet: Inlet) -> None:
        self._owner = owner
        self._number = number
        self._inlet = inlet
        self.closed = False

    async def read(self) -> bytes:
        await self._owner.opened()
        return await self._inlet.read()

    async def write(self, data: bytes) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"{data!r:.100} can't be written: a channel takes bytes")
        tunnel = await self._owner.opened()
        view = memoryview(data)
        for start in range(0, len(view), MESSAGE_BYTES):
            if self.closed:
                return
            self._owner.send(self._number, bytes(view[start : start + MESSAGE_BYTES]))
            await tunnel.drained()

    async def close(self) -> None:
        await self._owner.opened()
        if not self.closed:
            self.closed = True
            self._inlet.drop()
            self._owner.tell_closed(self._number)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data


class WebSocketChannels:
    """See `oarlock.registry.hooks.channels.Channels`. `numbered` is 0 for a terminal's channels."""

    def __init__(self, protocol: ChannelProtocol, numbered: int, used: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._terminal = not numbered
        self._used = used
        self._tunnel: asyncio.Future[Tunnel] = loop.create_future()
        self._room = Room()
        self._inlets = [Inlet(self._room) for _ in range(numbered or TERMINAL)]
        self._channels = [_Channel(self, number, inlet) for number, inlet in enumerate(self._inlets)]
        self._write_only = frozenset((STDOUT, STDERR, ERROR)) if self._terminal else frozenset[int]()
        self._frames = WebSocketFrames()
        self._incoming = _Message(protocol)
        self._replied = False
        self._size: asyncio.Future[TerminalSize] = loop.create_future()
        self._reading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # Called by the method.

    @property
    def protocol(self) -> str:
        return self._protocol.name

    @property
    def stdin(self) -> _Channel:
        return self._channels[STDIN]

    @property
    def stdout(self) -> _Channel:
        return self[STDOUT]

    @property
    def stderr(self) -> _Channel:
        return self[STDERR]

    def __getitem__(self, number: int) -> _Channel:
        if number < 0:
            raise IndexError(number)
        return self._channels[number]

    async def resized(self) -> TerminalSize:
        await self.opened()
        size = await shared(self._size)
        if self._size.done():
            self._size = asyncio.get_running_loop().create_future()
        return size

    # Called by its channels.

    async def opened(self) -> Tunnel:
        self._used()
        return await shared(self._tunnel)

    def send(self, channel: int, data: bytes) -> None:
        self._tunnel.result().write(self._frames.message(self._protocol.message(channel, data)))

    def tell_closed(self, channel: int) -> None:
        if self._protocol.closes:
            self._tunnel.result().write(self._frames.message(bytes((CLOSE, channel))))

    # Called by the verb.

    def start(self, tunnel: Tunnel, ended: Callable[[Ending], None]) -> None:
        """The tunnel is open. `ended` is called once, when the client has disconnected or broken the protocol."""
        self._tunnel.set_result(tunnel)
        if self._terminal:
            self.send(STDOUT, b"")  # as Kubernetes does, to tell clients that the connection works
        self._ping_later()
        self._reading = asyncio.get_running_loop().create_task(self._read(tunnel, ended))
        tunnel.on_close(self._closed)

    def finish(self, ending: Ending) -> None:
        """Send the outcome and a Close frame, and wait at most `CLOSE_S` for the client's."""
        tunnel = self._tunnel.result()
        if self._terminal and ending.has_outcome:
            outcome = upgrades.outcome(self._protocol, ending.exit_code, ending.error)
            if outcome:
                self.send(ERROR, outcome)
        code, why = ending.code or NORMAL, ending.why
        if ending.error is not None and not self._terminal and not ending.code:
            code, why = INTERNAL_ERROR, ending.error.message
        tunnel.write(self._frames.close(code, why))
        self._room.lift()
        for inlet in self._inlets:
            inlet.drop()
        if self._timer is not None:
            self._timer.cancel()
        if ending is GONE or tunnel.closed:
            tunnel.close()
        else:
            self._timer = asyncio.get_running_loop().call_later(CLOSE_S, tunnel.close)

    def _closed(self) -> None:
        self._room.lift()
        if self._timer is not None:
            self._timer.cancel()
        for inlet in self._inlets:
            inlet.end()

    def _ping(self) -> None:
        self._tunnel.result().write(self._frames.ping())
        self._ping_later()

    def _ping_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        pause_s = STUCK_PING_S if self._room.full else PING_S
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._ping)

    # The task that reads.

    async def _read(self, tunnel: Tunnel, ended: Callable[[Ending], None]) -> None:
        try:
            await self._listen(tunnel, ended)
        except Exception:
            log.exception("a WebSocket could not be read any further")
            tunnel.abort()
            ended(GONE)

    async def _listen(self, tunnel: Tunnel, ended: Callable[[Ending], None]) -> None:
        pacer = Pacer()
        while data := await tunnel.read():
            for start in range(0, len(data), PARSE_BYTES):
                ending = self._feed(tunnel, data[start : start + PARSE_BYTES])
                if ending is not None:
                    await self._over(tunnel, ending, ended)
                    return
                await pacer.turn()
            if self._room.full:
                self._ping_later()
                await self._room.wait()
            if self._replied:
                self._replied = False
                await tunnel.drained()
        ended(GONE)

    async def _over(self, tunnel: Tunnel, ending: Ending, ended: Callable[[Ending], None]) -> None:
        """Ignore further data, but keep reading it: otherwise the client might not see why it was closed."""
        if self._frames.closing:
            tunnel.close()  # the answer to our Close frame
        elif ending.code:
            tunnel.write(self._frames.close(ending.code, ending.why))
        ended(ending)
        while await tunnel.read():
            pass

    def _feed(self, tunnel: Tunnel, data: bytes) -> Ending | None:
        for found in self._frames.feed(data):
            match found:
                case Piece():
                    wrong = self._receive(found)
                    if wrong is not None:
                        return wrong
                case Reply():
                    tunnel.write(found.data)
                    self._replied = True
                case Over():
                    return Ending(found.code, found.why, has_outcome=False) if found.code else GONE
        return None

    def _receive(self, piece: Piece) -> Ending | None:
        """Pass a piece to its channel. An invalid one ends the connection."""
        if self._frames.closing:
            return None
        message = self._incoming
        data = message.strip_channel(piece.data)
        closes = self._protocol.closes and message.channel == CLOSE
        if message.channel >= len(self._inlets) and not closes:
            return self._no_channel(message.channel)
        try:
            data = message.decoded(data, piece.last)
        except binascii.Error:
            return Ending(BAD_PAYLOAD, "not base64", has_outcome=False)
        if piece.last:
            self._incoming = _Message(self._protocol)
        if closes:
            return self._close_signal(message, data, piece.last)
        self._deliver(message, data, piece.last)
        return None

    def _deliver(self, message: _Message, data: bytes, last: bool) -> None:
        if self._terminal and message.channel == RESIZE:
            message.buffer = (message.buffer + data)[: _MOST_RESIZE_BYTES + 1]
            if last:
                self._resize(message.buffer)
        elif data and message.channel not in self._write_only:
            self._inlets[message.channel].feed(data)

    def _close_signal(self, message: _Message, data: bytes, last: bool) -> Ending | None:
        message.buffer += data
        if len(message.buffer) > 1 or (last and not message.buffer):
            return Ending(PROTOCOL_ERROR, "a close signal names one channel", has_outcome=False)
        return self._close(message.buffer[0]) if last else None

    def _close(self, channel: int) -> Ending | None:
        if channel >= len(self._inlets):
            return self._no_channel(channel)
        self._inlets[channel].end()
        return None

    def _no_channel(self, channel: int) -> Ending:
        return Ending(POLICY, f"there is no channel {channel}", has_outcome=False)

    def _resize(self, message: bytes) -> None:
        """Handle a resize message; invalid ones are ignored, as in Kubernetes."""
        try:
            size = msgspec.json.decode(message, type=_Resize)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if self._size.done():
            self._size = asyncio.get_running_loop().create_future()
        self._size.set_result(TerminalSize(size.Width, size.Height))


_Cells = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class _Resize(msgspec.Struct):
    Width: _Cells
    Height: _Cells


class _Message:
    """A message that is being received. `channel` is -1 until known; `buffer` has what is used only when complete."""

    __slots__ = ("_base64", "_incomplete", "buffer", "channel")

    def __init__(self, protocol: ChannelProtocol) -> None:
        self._base64 = protocol.base64
        self._incomplete = b""
        self.channel = -1
        self.buffer = b""

    def strip_channel(self, data: bytes) -> bytes:
        """The part of `data` after the channel number."""
        if self.channel >= 0 or not data:
            return data
        self.channel = data[0]
        if self._base64:
            self.channel -= ord("0")
            if self.channel < 0:
                self.channel = CLOSE
        return data[1:]

    def decoded(self, data: bytes, last: bool) -> bytes:
        """The decoded bytes, as far as they are complete. Raises binascii.Error."""
        if not self._base64:
            return data
        data = self._incomplete + data
        whole = len(data) // 4 * 4
        data, self._incomplete = data[:whole], data[whole:]
        if last and self._incomplete:
            raise binascii.Error("it ends too early")
        return b64decode(data, validate=True)
