"""What do watches cost? Server CPU per event delivered to 1,000 watchers, the writes included; and their memory.

Memory is what 1,000 watches that nothing happens to add to the server, and what it holds after twelve rounds of 1,000
watches that came, were told of a few events, and went.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from typing import NamedTuple

from support.load import fill, in_loop
from support.wardle import FLUNDERS, Server, flunder, wardle
from support.watchers import Caller, Watchers

WATCHERS = 1000
HTTP2_CONNECTIONS = 10
OBJECTS = 10
SECONDS = 4.0
WARM_EVENTS = 10
RATES = {True: 50.0, False: 30.0}
"""Writes a second, over HTTP/2 and with a connection for each watcher: those that the peer was measured with."""
ROUNDS, EVENTS_A_ROUND = 12, 3
SETTLED_S = 0.5
_numbers = itertools.count()


class Delivered(NamedTuple):
    """What delivering cost: the server's CPU per event, how many arrived, how many connections the server closed."""

    cpu_us: float
    events: int
    wanted: int
    closed: int


def prepare(server: Server) -> None:
    """Create the objects that are written while they are watched."""
    fill(server, lambda n: ("POST", FLUNDERS, flunder(f"old-{n}", n), "application/json"), OBJECTS)


async def watchers(server: Server, http2: bool, caller: Caller) -> Watchers:
    """Watches that begin now."""
    listed = json.loads(await caller.ask("GET", f"{FLUNDERS}?limit=1"))["metadata"]["resourceVersion"]
    path = f"{FLUNDERS}?watch=1&resourceVersion={listed}&timeoutSeconds=600"
    return Watchers(server, path, WATCHERS, HTTP2_CONNECTIONS if http2 else 0)


async def write(caller: Caller) -> None:
    """Change one of the objects."""
    n = next(_numbers)
    body = b'{"spec":{"reference":"event-%d"}}' % n
    await caller.ask("PATCH", f"{FLUNDERS}/old-{n % OBJECTS}", body, "application/merge-patch+json")


async def _deliver(server: Server, http2: bool) -> Delivered:
    caller = Caller()
    await caller.connect(server)
    deliveries, connections = await (await watchers(server, http2, caller)).open()
    for _ in range(WARM_EVENTS):
        await write(caller)
    await deliveries.all_of(WATCHERS * WARM_EVENTS)
    had, before, began = deliveries.events, server.cpu_s(), time.monotonic()
    wanted = had + WATCHERS * int(SECONDS * RATES[http2])
    for n in range(int(SECONDS * RATES[http2])):
        await write(caller)
        await asyncio.sleep(max(0.0, began + (n + 1) / RATES[http2] - time.monotonic()))
    await deliveries.until(lambda: deliveries.events >= wanted, 30)
    events, used = deliveries.events - had, server.cpu_s() - before
    found = Delivered(used / max(1, events) * 1e6, events, wanted - had, deliveries.closed)
    for connection in [*connections, caller]:
        connection.close()
    return found


def deliver(server: Server, http2: bool) -> Delivered:
    """Open the watches, write for some seconds, and wait until every watch has every event."""
    return in_loop(_deliver(server, http2), 180)


async def _idle(server: Server, http2: bool) -> float:
    caller = Caller()
    await caller.connect(server)
    before = server.rss_mb()
    _, connections = await (await watchers(server, http2, caller)).open()
    await asyncio.sleep(SETTLED_S)
    grown = server.rss_mb() - before
    for connection in [*connections, caller]:
        connection.close()
    return grown


def idle_mb(server: Server, http2: bool) -> float:
    """How much memory watches add that nothing happens to, in MiB."""
    return in_loop(_idle(server, http2), 180)


async def _rounds(server: Server) -> float:
    caller = Caller()
    await caller.connect(server)
    for _ in range(ROUNDS):
        deliveries, connections = await (await watchers(server, False, caller)).open()
        for _ in range(EVENTS_A_ROUND):
            await write(caller)
        await deliveries.all_of(WATCHERS * EVENTS_A_ROUND)
        for connection in connections:
            connection.close()
        await asyncio.sleep(SETTLED_S)
    caller.close()
    return server.rss_mb()


def after_rounds_mb(server: Server) -> float:
    """How much memory a server holds that 1,000 watches came to and left, again and again, in MiB."""
    return in_loop(_rounds(server), 600)


def main() -> None:
    for http2 in (True, False):
        what = f"{HTTP2_CONNECTIONS} HTTP/2 connections" if http2 else f"{WATCHERS:,} HTTP/1.1 connections"
        with wardle() as server:
            prepare(server)
            grown = idle_mb(server, http2)
            print(f"watch, {WATCHERS:,} idle watchers on {what}: {grown:.1f} MiB more", flush=True)
            found = deliver(server, http2)
            print(
                f"watch, {WATCHERS:,} watchers on {what}: {found.cpu_us:.1f} µs server CPU per delivered event "
                f"({found.events:,} of {found.wanted:,} delivered, {found.closed} connections closed by the server)",
                flush=True,
            )
    with wardle() as server:
        prepare(server)
        began = server.rss_mb()
        print(f"{ROUNDS} rounds of {WATCHERS:,} connections: {began:.0f} → {after_rounds_mb(server):.0f} MiB")


if __name__ == "__main__":
    main()
