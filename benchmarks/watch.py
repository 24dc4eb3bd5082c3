"""What does it cost to deliver a watch event? Server CPU per delivery to 1,000 watchers, the writes included."""

from __future__ import annotations

import asyncio
import json
import struct
import time
import urllib.request
from typing import NamedTuple

import h2.config
import h2.connection
from h2.settings import SettingCodes

from support.load import fill
from support.wardle import FLUNDERS, TOKEN, Server, flunder, wardle

WATCHERS = 1000
EVENTS = 200
RATE = 40.0
MARK = b'"type":"MODIFIED"'


class Counter:
    """Counts deliveries in the bytes of one connection; a mark may be split between two reads."""

    total = 0

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes) -> None:
        joined = self._rest + data
        Counter.total += joined.count(MARK)
        self._rest = joined[-(len(MARK) - 1) :]


def request(server: Server, method: str, path: str, body: bytes | None = None) -> bytes:
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/merge-patch+json"}
    asked = urllib.request.Request(f"https://localhost:{server.port}{path}", body, headers, method=method)
    with urllib.request.urlopen(asked, context=server.tls()) as answer:
        return bytes(answer.read())


class Delivered(NamedTuple):
    """What delivering cost: the server's CPU per event, how many arrived, how many connections the server closed."""

    cpu_us: float
    events: int
    closed: int


async def over_http1(server: Server, path: str, opened: asyncio.Semaphore) -> None:
    counter = Counter()
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=server.tls("http/1.1"), server_hostname="localhost"
    )
    writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    opened.release()
    while data := await reader.read(1 << 16):
        counter.add(data)


async def over_http2(server: Server, path: str, opened: asyncio.Semaphore, streams: int) -> None:
    """The frames are taken apart by hand: a client library would need more CPU than there is."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=server.tls("h2"), server_hostname="localhost"
    )
    state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
    state.initiate_connection()
    state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1})
    state.increment_flow_control_window(2**31 - 1 - 65535)
    for _ in range(streams):
        headers = [(":method", "GET"), (":path", path), (":scheme", "https"), (":authority", "localhost")]
        state.send_headers(
            state.get_next_available_stream_id(), [*headers, ("authorization", f"Bearer {TOKEN}")], end_stream=True
        )
    writer.write(state.data_to_send())
    counters: dict[int, Counter] = {}
    while True:
        try:
            head = await reader.readexactly(9)
        except asyncio.IncompleteReadError:
            return
        length, kind, flags, stream = int.from_bytes(head[:3]), head[3], head[4], struct.unpack(">I", head[5:])[0]
        payload = await reader.readexactly(length)
        if kind == 1:
            counters[stream] = Counter()
            opened.release()
        elif kind == 0:
            counters[stream].add(payload)
        elif kind == 4 and not flags & 1:
            writer.write(b"\x00\x00\x00\x04\x01\x00\x00\x00\x00")
        elif kind == 6 and not flags & 1:
            writer.write(b"\x00\x00\x08\x06\x01\x00\x00\x00\x00" + payload)


async def deliver(server: Server, http2: bool) -> Delivered:
    """Open the watches, write `EVENTS` times, and wait until every watch has every event."""
    listed = json.loads(request(server, "GET", f"{FLUNDERS}?limit=1"))["metadata"]["resourceVersion"]
    path = f"{FLUNDERS}?watch=1&resourceVersion={listed}&timeoutSeconds=600"
    opened = asyncio.Semaphore(0)
    if http2:
        tasks = [asyncio.create_task(over_http2(server, path, opened, WATCHERS // 10)) for _ in range(10)]
    else:
        tasks = [asyncio.create_task(over_http1(server, path, opened)) for _ in range(WATCHERS)]
    for _ in range(WATCHERS):
        await asyncio.wait_for(opened.acquire(), 60)
    Counter.total = 0
    before, began = server.cpu_s(), time.monotonic()
    for n in range(EVENTS):
        body = b'{"metadata":{"annotations":{"example.com/n":"event %d"}}}' % n
        await asyncio.to_thread(request, server, "PATCH", f"{FLUNDERS}/watched-{n % 10}", body)
        await asyncio.sleep(max(0.0, began + (n + 1) / RATE - time.monotonic()))
    until = time.monotonic() + 30
    while Counter.total < WATCHERS * EVENTS and time.monotonic() < until:  # noqa: ASYNC110 (counted in many places)
        await asyncio.sleep(0.05)
    used = server.cpu_s() - before
    closed = sum(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return Delivered(used / max(1, Counter.total) * 1e6, Counter.total, closed)


def main() -> None:
    with wardle() as server:
        fill(server, lambda n: ("POST", FLUNDERS, flunder(f"watched-{n}", n), "application/json"), 10)
        for http2 in (True, False):
            found = asyncio.run(deliver(server, http2))
            what = "10 HTTP/2 connections" if http2 else f"{WATCHERS:,} HTTP/1.1 connections"
            print(
                f"watch, {WATCHERS:,} watchers on {what}: {found.cpu_us:.1f} µs server CPU per delivered event "
                f"({found.events:,} of {WATCHERS * EVENTS:,} delivered, {found.closed} connections closed by the "
                "server)"
            )


if __name__ == "__main__":
    main()
