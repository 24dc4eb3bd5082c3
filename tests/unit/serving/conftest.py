"""A connection without a network: a transport that keeps what is written, and a loop turned by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from oarlock.endpoints.http import Handler, Unsent
from oarlock.server.serving.config import ConnectionLimits
from oarlock.server.serving.listener_state import ListenerState
from oarlock.server.serving.protocol_detection import ProtocolDetector


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return 1_800_000_000.0

    def monotonic(self) -> float:
        return self.seconds


class Transport:
    """Keeps what is written. `room` is what the peer still takes; what is beyond it waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.protocol: Any = None
        self.written = bytearray()
        self.closed = False
        self.reading = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.7", 7) if name == "peername" else default

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        assert isinstance(data, bytes)
        if not self.closed:
            self.written += data

    def writelines(self, parts: Any) -> None:
        for part in parts:
            self.write(part)

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.loop.call_soon(self.protocol.connection_lost, None)

    abort = close


class Wire:
    """One connection and the client's end of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, handler: Handler, limits: ConnectionLimits) -> None:
        self.loop = loop
        self.clock = Clock()
        self.problems: list[Any] = []
        loop.set_exception_handler(lambda _, context: self.problems.append(context))
        self.unsent = Unsent()
        self.service = ListenerState(handler, limits, self.clock, loop, self.unsent)
        self.transport = Transport(loop)
        self.transport.protocol = ProtocolDetector(self.service, False, True)
        self.transport.protocol.connection_made(self.transport)

    @property
    def connection(self) -> Any:
        return self.transport.protocol

    def turn(self, count: int = 1) -> None:
        for _ in range(count):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
        assert not self.problems, self.problems

    def feed(self, data: bytes) -> None:
        """Hand over `data` as the loop would."""
        if data and not self.transport.closed:
            self.loop.call_soon(lambda: self.transport.protocol.data_received(data))
        self.turn(2)

    def settle(self) -> bytes:
        """Let everything finish: all that was written."""
        for _ in range(200):
            before = len(self.transport.written)
            self.turn(5)
            if len(self.transport.written) == before:
                break
        return bytes(self.transport.written)

    def leave(self) -> None:
        self.transport.close()
        self.turn(5)
        assert not self.service.connections


@pytest.fixture
def wire() -> Iterator[Any]:
    """`wire(handler, **limits)` makes a connection; several may be made."""
    loop = asyncio.new_event_loop()

    def make(handler: Handler, **limits: Any) -> Wire:
        return Wire(loop, handler, replace(ConnectionLimits(), **limits))

    yield make
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
