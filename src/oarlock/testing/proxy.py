"""`TcpProxy`: a TCP connection that breaks when a test says so.

    async with TcpProxy("127.0.0.1", 5432) as proxy:
        backend = MyBackend(port=proxy.port)
        proxy.break_after(200, Direction.UP, proxy.cut)   # after 200 bytes to the server, every connection is reset

It listens on loopback and passes bytes as they are, so TLS goes through it. What it holds back is bounded.

Must not know: what the bytes mean.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

_HOST = "127.0.0.1"
_HELD_BYTES = 1 << 20
_SEGMENTS = 100_000
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: a close discards what wasn't sent, and the other end gets RST."""


class Direction(Enum):
    UP = "to the server"
    DOWN = "to the client"


class Segment(NamedTuple):
    """Bytes that were passed on at once. `end` is how many had been passed in that direction with them."""

    direction: Direction
    end: int


class _Break(NamedTuple):
    direction: Direction
    after: int
    act: Callable[[], None]


class TcpProxy:
    """A proxy to `host` and `port`, from `start` to `close`. Its commands may be given at any time.

    `delay_s` is how much later bytes arrive. `segments` are those passed since `count_from_here`, the first 100,000.
    """

    def __init__(self, host: str, port: int) -> None:
        self.delay_s = 0.0
        self.port = 0
        self.segments: list[Segment] = []
        self.accepted = 0
        """How many connections there have been."""
        self._target = (host, port)
        self._passed = dict.fromkeys(Direction, 0)
        self._stalled: set[Direction] = set()
        self._break: _Break | None = None
        self._ends: dict[_ProxiedEnd, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._place: socket.socket | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        # Bound and never listening: the port stays ours while connections are refused.
        self._place = _bound(0)
        self.port = self._place.getsockname()[1]
        await self.accept()

    async def close(self) -> None:
        await self.refuse()
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.sleep(0)  # the transports close their sockets
        if self._place is not None:
            self._place.close()
            self._place = None

    async def __aenter__(self) -> TcpProxy:
        await self.start()
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self.close()

    # Commands

    async def refuse(self) -> None:
        """Refuse new connections. Those that are open go on."""
        if self._server is not None:
            self._server.close()
            self._server = None
            await asyncio.sleep(0)

    async def accept(self) -> None:
        """Accept connections again."""
        if self._server is None:
            listening = _bound(self.port)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: _ProxiedEnd(self, Direction.UP), sock=listening)

    def cut(self) -> None:
        """Reset every connection, at both ends."""
        for end in tuple(self._ends):
            end.reset()

    def half_close(self, direction: Direction) -> None:
        """Say in `direction` that nothing will follow, as a process does that has ended its sending."""
        for end in tuple(self._ends):
            if end.direction is direction:
                end.say_no_more()

    def stall(self, *directions: Direction) -> None:
        """Pass nothing more, and tell nobody: half-open connections. New ones are accepted and stall too."""
        self._stalled.update(directions or Direction)

    def flow(self) -> None:
        """Pass what was held back, and go on."""
        self._stalled.clear()
        for end in tuple(self._ends):
            end.pump()

    # Steps of a conversation

    def count_from_here(self) -> None:
        """Begin to count bytes and segments."""
        self._passed = dict.fromkeys(Direction, 0)
        self.segments.clear()

    def passed(self, direction: Direction) -> int:
        """The bytes passed in `direction` since `count_from_here`."""
        return self._passed[direction]

    def break_after(self, after: int, direction: Direction, act: Callable[[], None]) -> None:
        """Call `act`, once, when exactly `after` bytes from now have been passed in `direction`."""
        self._break = _Break(direction, self._passed[direction] + after, act)

    @property
    def broken(self) -> bool:
        """Whether the last `break_after` has come about, or was called off."""
        return self._break is None

    def call_off(self) -> None:
        """Forget the `break_after` that hasn't come about."""
        self._break = None

    # For the ends of connections

    def adopt(self, end: _ProxiedEnd) -> None:
        self._ends[end] = None
        if end.direction is Direction.UP:
            self.accepted += 1
            task = asyncio.get_running_loop().create_task(self._connect(end))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def forget(self, end: _ProxiedEnd) -> None:
        self._ends.pop(end, None)

    def holds(self, direction: Direction) -> bool:
        return direction in self._stalled

    def share(self, data: bytes, direction: Direction) -> tuple[bytes, bytes, Callable[[], None] | None]:
        """What of `data` is passed now, what isn't yet, and what is to be done in between."""
        due = self._break
        act = None
        if due is not None and due.direction is direction and self._passed[direction] + len(data) >= due.after:
            room = max(0, due.after - self._passed[direction])
            now, later = data[:room], data[room:]
            self._break, act = None, due.act
        else:
            now, later = data, b""
        self._passed[direction] += len(now)
        if len(self.segments) < _SEGMENTS:
            self.segments.append(Segment(direction, self._passed[direction]))
        return now, later, act

    async def _connect(self, client: _ProxiedEnd) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, server = await loop.create_connection(lambda: _ProxiedEnd(self, Direction.DOWN), *self._target)
        except OSError:
            client.reset()
            return
        client.join(server)


class _ProxiedEnd(asyncio.Protocol):
    """One end of a connection. What is received here goes to `peer`, in `direction`, in order."""

    def __init__(self, proxy: TcpProxy, direction: Direction) -> None:
        self.direction = direction
        self._proxy = proxy
        self._held: deque[tuple[float, bytes | None]] = deque()  # when it may go on; None: nothing follows
        self._held_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._peer: _ProxiedEnd | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._full = False
        self._silent = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._proxy.adopt(self)

    def join(self, peer: _ProxiedEnd) -> None:
        """From now on the bytes have somewhere to go."""
        if self._transport is None:
            peer.reset()
            return
        self._peer, peer._peer = peer, self
        self.pump()
        peer.pump()

    def data_received(self, data: bytes) -> None:
        self._hold(data)

    def eof_received(self) -> bool:
        self._hold(None)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._proxy.forget(self)
        if self._peer is not None:
            self._peer.reset()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self._peer is not None:
            self._peer.pump()

    def reset(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            transport.abort()

    def say_no_more(self) -> None:
        """Nothing follows for the peer, whatever is still received here."""
        self._held.clear()
        self._hold(None)

    def _hold(self, data: bytes | None) -> None:
        self._held.append((asyncio.get_running_loop().time() + self._proxy.delay_s, data))
        self._held_bytes += len(data or b"")
        self.pump()
        if self._held_bytes > _HELD_BYTES and self._transport is not None:
            self._transport.pause_reading()

    def pump(self) -> None:
        """Pass on what may be passed on now."""
        loop = asyncio.get_running_loop()
        while self._held and (to := self._open_way()) is not None:
            due, data = self._held[0]
            if due > loop.time():
                if self._timer is None:
                    self._timer = loop.call_at(due, self._due)
                return
            self._held.popleft()
            if data is None:
                self._held.clear()
                if to.can_write_eof() and not to.is_closing():
                    with suppress(OSError):  # it has been reset
                        to.write_eof()
                self._end_when_both_are_silent()
                return
            self._held_bytes -= len(data)
            if self._silent:
                continue  # a half-closed way takes nothing more
            now, later, act = self._proxy.share(data, self.direction)
            to.write(now)
            if act is not None:
                if later:
                    self._held.appendleft((due, later))
                    self._held_bytes += len(later)
                act()
        if self._held_bytes <= _HELD_BYTES and self._transport is not None:
            self._transport.resume_reading()

    def _due(self) -> None:
        self._timer = None
        self.pump()

    def _open_way(self) -> asyncio.Transport | None:
        if self._peer is None or self._peer._full or self._proxy.holds(self.direction):
            return None
        return self._peer._transport

    def _end_when_both_are_silent(self) -> None:
        self._silent = True
        peer = self._peer
        if peer is not None and peer._silent:
            for end in (self, peer):
                if end._transport is not None:
                    end._transport.close()


def _bound(port: int) -> socket.socket:
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind((_HOST, port))
    return place
