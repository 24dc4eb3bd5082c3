"""Closed-loop load from one process: so many requests in flight, for so long, over HTTP/1.1 or HTTP/2.

What counts is the server's CPU per operation; the client's speed only decides how long it takes.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import h2.config
import h2.connection
import h2.events

from support.wardle import TOKEN, Server

Make = Callable[[int], tuple[str, str, bytes, str]]
"""``n`` → method, path, body, content type."""


@dataclass(frozen=True)
class Load:
    """`in_flight` requests at once, for `seconds` after `warm_s` that don't count, at most `most` operations."""

    in_flight: int = 16
    seconds: float = 3.0
    warm_s: float = 1.0
    most: int = 1_000_000
    http2: bool = False
    accept: str = "application/json"
    accept_encoding: str = ""  # HTTP/1.1
    connections: int = 0
    seen: Callable[[int, bytes], None] | None = None  # HTTP/1.1: called with each answer's body


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
        self.numbers: Iterator[int] = itertools.count()
        self.latencies: list[float] = []
        begin = time.monotonic()
        self.opens = begin + load.warm_s
        self.closes = self.opens + load.seconds
        self._cpu0: float | None = None
        self._cpu1 = 0.0
        self._at = [0.0, 0.0]

    def done(self, started: float, status: int) -> bool:
        """Note an answer; False when it is time to stop. Anything but a success ends the run."""
        if status >= 400:
            raise SystemExit(f"the server answered {status}")
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


def run(server: Server, make: Make, load: Load) -> Figure:
    """One run."""
    return asyncio.run(_run(server, make, load))


def median_of(server: Server, make: Make, load: Load, runs: int = 3) -> Figure:
    """The run whose CPU is the median of several."""
    figures = sorted((run(server, make, load) for _ in range(runs)), key=lambda f: f.cpu_us)
    return figures[len(figures) // 2]


async def _run(server: Server, make: Make, load: Load) -> Figure:
    meter = Meter(server, load)
    if load.http2:
        connections = load.connections or min(load.in_flight, 4)
        each = max(1, load.in_flight // connections)
        await asyncio.gather(*(_http2(server, make, load, (meter, each)) for _ in range(connections)))
    else:
        await asyncio.gather(*(_http1(server, make, load, meter) for _ in range(load.in_flight)))
    return meter.figure()


async def _http1(server: Server, make: Make, load: Load, meter: Meter) -> None:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=server.tls("http/1.1"), server_hostname="localhost", limit=1 << 26
    )
    while True:
        n = next(meter.numbers)
        method, path, body, media = make(n)
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
            f"accept: {load.accept}\r\nuser-agent: bench/1\r\n"
        )
        if load.accept_encoding:
            head += f"accept-encoding: {load.accept_encoding}\r\n"
        if body:
            head += f"content-type: {media}\r\ncontent-length: {len(body)}\r\n"
        started = time.monotonic()
        writer.write(head.encode() + b"\r\n" + body)
        status, answer = await _answer(reader)
        if load.seen is not None:
            load.seen(n, answer)
        if not meter.done(started, status):
            break
    writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head[9:12])
    at = head.find(b"content-length:")
    if at >= 0:
        return status, await reader.readexactly(int(head[at + 15 : head.index(b"\r\n", at)]))
    body = b""
    while b"transfer-encoding: chunked" in head:
        size = int(await reader.readline(), 16)
        piece = await reader.readexactly(size + 2)
        if not size:
            break
        if size < 65536:
            body += piece[:-2]
    return status, body


async def _http2(server: Server, make: Make, load: Load, shared: tuple[Meter, int]) -> None:
    meter, each = shared
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=server.tls("h2"), server_hostname="localhost"
    )
    state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
    state.initiate_connection()
    state.increment_flow_control_window(1 << 28)
    started: dict[int, tuple[float, int]] = {}

    def send() -> None:
        method, path, body, media = make(next(meter.numbers))
        stream = state.get_next_available_stream_id()
        headers = [(":method", method), (":path", path), (":scheme", "https"), (":authority", "localhost")]
        headers += [("authorization", f"Bearer {TOKEN}"), ("accept", load.accept), ("user-agent", "bench/1")]
        if body:
            headers += [("content-type", media), ("content-length", str(len(body)))]
        started[stream] = (time.monotonic(), 200)
        state.send_headers(stream, headers, end_stream=not body)
        if body:
            state.send_data(stream, body, end_stream=True)

    for _ in range(each):
        send()
    going = True
    while going:
        writer.write(state.data_to_send())
        data = await reader.read(1 << 18)
        if not data:
            break
        for event in state.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                status = int(dict(event.headers)[":status"])
                started[event.stream_id] = (started[event.stream_id][0], status)
            elif isinstance(event, h2.events.DataReceived):
                state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                begun, status = started.pop(event.stream_id)
                going = meter.done(begun, status) and going
                if going:
                    send()
    writer.close()


def fill(server: Server, make: Make, count: int, first: int = 0) -> None:
    """Send `count` writes, 16 at a time."""

    async def each(numbers: Iterator[int]) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=server.tls("http/1.1"), server_hostname="localhost"
        )
        for n in numbers:
            method, path, body, media = make(n)
            head = (
                f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
                f"content-type: {media}\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            status, _ = await _answer(reader)
            if status >= 400:
                raise SystemExit(f"filling: the server answered {status}")
        writer.close()

    async def all_of_them() -> None:
        numbers = iter(range(first, first + count))
        await asyncio.gather(*(each(numbers) for _ in range(16)))

    asyncio.run(all_of_them())
