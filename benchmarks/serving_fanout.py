"""What does it cost to deliver one watch event to one watcher, over TLS? Prints µs of server CPU per delivery.

1,000 streams that go on get 50 events of 1.2 KB per second, on 10 HTTP/2 connections or on 1,000 HTTP/1.1
ones. ``python serving_fanout.py [seconds]``
"""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop

from oarlock.endpoints.http import Request, Response, Stream
from support.serving_peer import Http1Watcher, Http2Client, Server, connect, run_server

EVENT = b'{"type":"MODIFIED","object":{"padding":"' + b"x" * 1150 + b'"}}\n'
PER_SECOND = 20
WATCHERS = 1000
streams: set[Stream] = set()


def opened(stream: Stream) -> None:
    streams.add(stream)
    stream.on_close(lambda: streams.discard(stream))


async def handler(request: Request) -> Response:
    return Response(200, [("content-type", "application/json")], stream=opened)


def tell_all() -> None:
    event = EVENT[:-1] + b"\n"  # a new object each time, as events are; the watchers share it
    for stream in streams:
        stream.write(event)
    asyncio.get_running_loop().call_later(1 / PER_SECOND, tell_all)


async def measure(server: Server, http2: bool, seconds: float) -> str:
    count = 0

    def done() -> bool:
        nonlocal count
        count += 1
        return True

    idle = server.rss_mb()
    if http2:
        per = WATCHERS // 10
        clients = [
            await connect(lambda: Http2Client("/watch", per, done, watch=True), server.port, "h2") for _ in range(10)
        ]
    else:
        clients = [
            await connect(lambda: Http1Watcher("/watch", done), server.port, "http/1.1") for _ in range(WATCHERS)
        ]
    await asyncio.sleep(1)
    begin, cpu, at = count, server.cpu_s(), time.monotonic()
    await asyncio.sleep(seconds)
    delivered, spent, took = count - begin, server.cpu_s() - cpu, time.monotonic() - at
    memory = (server.rss_mb() - idle) * 1024 / WATCHERS
    for client in clients:
        client.transport.abort()
    await asyncio.sleep(0.5)
    return (
        f"{spent / delivered * 1e6:.2f} µs server CPU per delivery "
        f"({delivered / took:,.0f} of {WATCHERS * PER_SECOND:,}/s, {memory:.1f} KB per watcher)"
    )


async def main(seconds: float) -> None:
    for http2, where in ((True, "10 HTTP/2 connections"), (False, "1,000 HTTP/1.1 connections")):
        with Server(__file__) as server:
            print(f"{where}: {await measure(server, http2, seconds)}")


if __name__ == "__main__":
    if "--serve" in sys.argv:
        run_server(handler, sys.argv[2], tell_all)
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 4.0))
