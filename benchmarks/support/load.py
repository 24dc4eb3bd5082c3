"""Closed-loop load from one process: so many requests in flight, for so long, over HTTP/1.1 or HTTP/2.

What counts is the server's CPU per operation. A server that waits for its client would look dearer than it is, because
each turn of its loop would serve one request: so the client is as cheap as it can be (see `connections`).
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import uvloop

from support.connections import Asked, Driver, Form, LoadError, connect
from support.http1_requests import Http1Requests
from support.http2_requests import Http2Requests
from support.wardle import Server

Make = Callable[[int], tuple[str, str, bytes, str]]
"""``n`` → method, path, body, content type."""
T = TypeVar("T")

LATE_S = 120.0
"""How long beyond its time a run may take before it is given up, in seconds."""


@dataclass(frozen=True)
class Load:
    """`in_flight` requests at once, for `seconds` after `warm_s` that don't count, at most `most` operations.

    HTTP/2 uses four connections, or as many as `in_flight` where that is less; HTTP/1.1 one for each request in flight.
    """

    in_flight: int = 16
    seconds: float = 3.0
    warm_s: float = 1.0
    most: int = 1_000_000
    http2: bool = False
    accept: str = "application/json"
    accept_encoding: str = ""
    connections: int = 0
    seen: Callable[[int, bytes], None] | None = None  # called with each answer's body


@dataclass(frozen=True)
class Figure:
    """What one run found. CPU is the server's."""

    operations: int
    cpu_us: float
    rate: float
    p50_ms: float
    p99_ms: float

    def line(self, what: str) -> str:
        return (
            f"{what}: {self.cpu_us:,.0f} µs server CPU per operation "
            f"({self.operations:,} operations, {self.rate:,.0f}/s, p50 {self.p50_ms:.2f} ms, p99 {self.p99_ms:.2f} ms)"
        )


class Meter:
    """Counts operations inside the measured window and reads the server's CPU at both its ends."""

    def __init__(self, server: Server, load: Load) -> None:
        self.server = server
        self.load = load
        self.latencies: list[float] = []
        self.opens = time.monotonic() + load.warm_s
        self.closes = self.opens + load.seconds
        self._cpu0: float | None = None
        self._cpu1 = 0.0
        self._at = [0.0, 0.0]

    def done(self, started: float) -> bool:
        """Note an answer; False when it is time to stop."""
        now = time.monotonic()
        if now < self.opens:
            return True
        if self._cpu0 is None:
            self._cpu0, self._at[0] = self.server.cpu_s(), now
            return True
        if now >= self.closes or len(self.latencies) >= self.load.most:
            if not self._at[1]:
                self._cpu1, self._at[1] = self.server.cpu_s(), now
            return False
        self.latencies.append(now - started)
        return True

    def figure(self) -> Figure:
        count = max(1, len(self.latencies))
        ordered = sorted(self.latencies) or [0.0]
        cpu = self._cpu1 - (self._cpu0 or 0.0)
        return Figure(
            count,
            cpu / count * 1e6,
            count / max(1e-9, self._at[1] - self._at[0]),
            statistics.median(ordered) * 1e3,
            ordered[int(len(ordered) * 0.99)] * 1e3,
        )


class ClosedLoop(Driver):
    """Sends the next request when one is answered, while `numbers` last and `done` says so."""

    def __init__(self, make: Make, numbers: Iterator[int], done: Callable[[float], bool], load: Load) -> None:
        self.wants_bodies = load.seen is not None
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._make = make
        self._numbers = numbers
        self._done = done
        self._seen = load.seen
        self._working = load.in_flight

    def following(self) -> Asked | None:
        """The next request; None for one that sends no more."""
        for n in self._numbers:
            return Asked(n, *self._make(n), time.monotonic())
        self._stopped()
        return None

    def answered(self, asked: Asked, status: int, body: bytes) -> Asked | None:
        if status >= 400:
            self.failed(f"the server answered {status} to {asked.method} {asked.path}: {body[:300]!r}")
            return None
        if self._seen is not None:
            self._seen(asked.n, body)
        if self._done(asked.started):
            return self.following()
        self._stopped()
        return None

    def _stopped(self) -> None:
        self._working -= 1
        if not self._working and not self.finished.done():
            self.finished.set_result(None)

    def failed(self, why: str) -> None:
        if not self.finished.done():
            self.finished.set_exception(LoadError(why))


def run(server: Server, make: Make, load: Load) -> Figure:
    """One run."""

    async def measured() -> Figure:
        meter: list[Meter] = []

        def done(started: float) -> bool:
            if not meter:
                meter.append(Meter(server, load))
            return meter[0].done(started)

        await _drive(server, ClosedLoop(make, itertools.count(), done, load), load)
        return meter[0].figure()

    return in_loop(measured(), load.warm_s + load.seconds + LATE_S)


def median_of(server: Server, make: Make, load: Load, runs: int = 3) -> Figure:
    """The run whose CPU is the median of several."""
    figures = sorted((run(server, make, load) for _ in range(runs)), key=lambda f: f.cpu_us)
    return figures[len(figures) // 2]


def fill(server: Server, make: Make, count: int, first: int = 0) -> None:
    """Send `count` writes, 16 at a time."""

    async def filled() -> None:
        numbers = iter(range(first, first + count))
        await _drive(server, ClosedLoop(make, numbers, lambda started: True, Load()), Load())

    in_loop(filled(), LATE_S + count * 0.02)


def in_loop(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """The result of `work`, on a loop of its own; the program ends with a message if it fails or takes longer."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(bounded())
    except LoadError as error:
        raise SystemExit(str(error)) from error
    except TimeoutError as error:
        raise SystemExit(f"given up after {seconds:.0f} s") from error


async def _drive(server: Server, driver: ClosedLoop, load: Load) -> None:
    form = Form(load.accept, load.accept_encoding)
    if load.http2:
        kind, protocol, count = Http2Requests, "h2", load.connections or min(load.in_flight, 4)
    else:
        kind, protocol, count = Http1Requests, "http/1.1", load.in_flight
    tls = server.tls(protocol)
    connections = [await connect(server, lambda: kind(driver, form), tls) for _ in range(count)]
    for number in range(load.in_flight):
        asked = driver.following()
        if asked is not None:
            connections[number % count].send(asked)
    try:
        await driver.finished
    finally:
        for connection in connections:
            connection.close()
