"""Connections that a client forwards to ports, over SPDY or over numbered channels; a method is called for each.

Over SPDY a connection has two streams, ``data`` and ``error``, with the number of its port. Over channels each port has
one, with two channels that begin with the port's number. What a method raises is sent on the second.
See also: ``verbs.connect``, which ends it. Source: Kubernetes' ``kubelet/portforward`` of k8s.io/cri-streaming.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Sequence

from oarlock.endpoints.channels.over_pipe import TunnelPipe
from oarlock.endpoints.channels.over_websocket import WebSocketChannels
from oarlock.endpoints.channels.spdy_frames import (
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    Opened,
    Reset,
    SpdyError,
    SpdyEvent,
    SpdyFrames,
    StreamData,
    data_frame,
    reset_frame,
    window_frames,
)
from oarlock.endpoints.channels.spdy_tunnel import PARSE_BYTES, MessageTunnel
from oarlock.endpoints.channels.upgrades import PORT_FORWARD, ChannelProtocol, port_of
from oarlock.endpoints.channels.websocket_frames import Inlet, Reply, Room
from oarlock.endpoints.http import Tunnel
from oarlock.meta.errors import BadRequest, StatusError
from oarlock.registry.hooks.channels import Channel, ForwardConnection, Pipe
from oarlock.storage.pacing import Pacer

log = logging.getLogger("oarlock.endpoints")

MOST_STREAMS = 512
"""How many streams a client may have open."""
DATA_BYTES = 32 * 1024
"""The largest frame of data that is sent, and how much is read until the client may send more."""


async def _outcome(forward: ForwardConnection, port: int, pipe: Pipe) -> bytes:
    """What is sent on the stream for errors: nothing when the method has returned."""
    try:
        await forward(port, pipe)
    except StatusError as error:
        why = error.message
    except OSError as error:
        why = str(error)
    except Exception:
        log.exception("a connection to port %d failed", port)
        why = "the server's log has more"
    else:
        return b""
    return f"error forwarding port {port}: {why}".encode()


_ByteTunnel = Tunnel | MessageTunnel


class NumberedPorts(WebSocketChannels):
    """One connection to each of `ports`."""

    def __init__(self, protocol: ChannelProtocol, ports: Sequence[int], used: Callable[[], None]) -> None:
        super().__init__(protocol, 2 * len(ports), used)
        self._ports = ports

    async def serve(self, forward: ForwardConnection) -> None:
        """Call `forward` for each port, and wait for the ends of all."""
        for at, port in enumerate(self._ports):
            await self[2 * at].write(struct.pack("<H", port))
            await self[2 * at + 1].write(struct.pack("<H", port))
        async with asyncio.TaskGroup() as group:
            for at, port in enumerate(self._ports):
                group.create_task(self._forward(forward, port, self[2 * at], self[2 * at + 1]))

    async def _forward(self, forward: ForwardConnection, port: int, data: Channel, errors: Channel) -> None:
        await errors.write(await _outcome(forward, port, _ChannelPipe(self.protocol, data)))
        await data.close()
        await errors.close()


class _ChannelPipe:
    """See `oarlock.registry.hooks.channels.Pipe`."""

    def __init__(self, protocol: str, channel: Channel) -> None:
        self.protocol, self.read, self.write = protocol, channel.read, channel.write


class _PortStream:
    """The data stream of a connection; see `oarlock.registry.hooks.channels.Pipe`."""

    protocol = PORT_FORWARD

    def __init__(self, number: int, errors: int, room: Room, send: Callable[[bytes], Awaitable[None]]) -> None:
        self.number, self.errors = number, errors
        self.inlet = Inlet(room)
        self.task: asyncio.Task[None] | None = None
        self._send = send
        self._read = 0

    async def read(self) -> bytes:
        data = await self.inlet.read()
        self._read += len(data)
        if self._read >= DATA_BYTES:
            read, self._read = self._read, 0
            await self._send(window_frames(self.number, read))
        return data

    async def write(self, data: bytes) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"{data!r:.100} can't be written: a pipe takes bytes")
        view = memoryview(data)
        for start in range(0, len(view), DATA_BYTES):
            await self._send(data_frame(self.number, bytes(view[start : start + DATA_BYTES])))


class SpdyPorts(TunnelPipe):
    """The connections that a client opens over SPDY, which may be in the messages of a WebSocket."""

    def __init__(self, used: Callable[[], None], *, in_messages: bool) -> None:
        super().__init__(PORT_FORWARD, used)
        self._in_messages = in_messages
        self._frames = SpdyFrames()
        self._room = Room()
        self._halves: dict[str, tuple[str, Opened]] = {}
        """Streams that wait for the other of their connection, by the number of the connection, with their type."""
        self._streams: dict[int, _PortStream] = {}

    async def serve(self, forward: ForwardConnection) -> None:
        """Call `forward` for each connection, until the client disconnects. Raises BadRequest for broken frames."""
        opened = await self._opened()
        tunnel = MessageTunnel(opened) if self._in_messages else opened
        pacer = Pacer()
        try:
            while data := await tunnel.read():
                for start in range(0, len(data), PARSE_BYTES):
                    for event in self._frames.feed(data[start : start + PARSE_BYTES]):
                        self._take(event, tunnel, forward)
                    await pacer.turn()
                await self._room.wait()
                await tunnel.drained()
        except SpdyError as error:
            raise BadRequest(str(error)) from None
        finally:
            tasks = [stream.task for stream in self._streams.values() if stream.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if isinstance(tunnel, MessageTunnel):
                tunnel.finish()

    def _take(self, event: SpdyEvent, tunnel: _ByteTunnel, forward: ForwardConnection) -> None:
        match event:
            case Opened():
                self._open(event, tunnel, forward)
            case StreamData():
                stream = self._streams.get(event.stream)
                if stream is not None:
                    stream.inlet.feed(event.data)
                    if event.last:
                        stream.inlet.end()
            case Reset():
                self._halves = {key: half for key, half in self._halves.items() if half[1].stream != event.stream}
                stream = self._streams.get(event.stream)
                if stream is not None and stream.task is not None:
                    stream.task.cancel()
            case Reply():
                tunnel.write(event.data)

    def _open(self, opened: Opened, tunnel: _ByteTunnel, forward: ForwardConnection) -> None:
        """Accept a stream; the second of a connection starts it."""
        kind, port = opened.headers.get("streamtype", ""), port_of(opened.headers.get("port", ""))
        connection = opened.headers.get("requestid") or str(opened.stream - 2 * (kind == "data"))
        other = self._halves.get(connection)
        wrong = kind not in ("data", "error") or not port
        if wrong or (other is not None and other[0] == kind):
            tunnel.write(reset_frame(opened.stream, PROTOCOL_ERROR))
            return
        if len(self._halves) + 2 * len(self._streams) >= MOST_STREAMS:
            tunnel.write(reset_frame(opened.stream, REFUSED_STREAM))
            return
        tunnel.write(self._frames.accept(opened.stream))
        if other is None:
            self._halves[connection] = kind, opened
            return
        del self._halves[connection]
        data, errors = (opened, other[1]) if kind == "data" else (other[1], opened)

        async def send(frame: bytes) -> None:
            tunnel.write(frame)
            await tunnel.drained()

        stream = _PortStream(data.stream, errors.stream, self._room, send)
        if data.last:
            stream.inlet.end()
        self._streams[data.stream] = stream
        stream.task = asyncio.get_running_loop().create_task(self._forward(forward, port, stream, tunnel))

    async def _forward(self, forward: ForwardConnection, port: int, stream: _PortStream, tunnel: _ByteTunnel) -> None:
        try:
            why = await _outcome(forward, port, stream)
            tunnel.write(data_frame(stream.errors, why, last=True))
            tunnel.write(data_frame(stream.number, b"", last=True))
        finally:
            stream.inlet.drop()
            del self._streams[stream.number]
