"""What do watches cost? Server CPU per event delivered to 1,000 watchers, the writes included; and their memory.

Also, when each of them watches one object by its name, so that an event is for one: the CPU per write. Memory is what
1,000 watches that nothing happens to add to the server, and what it holds after twelve rounds of 1,000 watches that
came, were told of a few events, and went.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from typing import NamedTuple

from support.connections import ClientConnection
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
GIVEN_BACK_S = 2.0
"""A server gives memory back once a second."""
_numbers = itertools.count()


class Delivered(NamedTuple):
    """What delivering cost: the server's CPU per event, how many arrived, how many connections the server closed."""

    cpu_us: float
    events: int
    wanted: int
    closed: int


def prepare(server: Server, objects: int = OBJECTS) -> None:
    """Create the objects that are written while they are watched."""
    fill(server, lambda n: ("POST", FLUNDERS, flunder(f"old-{n}", n), "application/json"), objects)


async def watchers(server: Server, http2_connections: int, caller: Caller, *, by_name: bool = False) -> Watchers:
    """Watches that begin now, of everything, or each of one object."""
    listed = json.loads(await caller.ask("GET", f"{FLUNDERS}?limit=1"))["metadata"]["resourceVersion"]
    path = f"{FLUNDERS}?watch=1&resourceVersion={listed}&timeoutSeconds=600"
    selectors = [f"&fieldSelector=metadata.name%3Dold-{n}" if by_name else "" for n in range(WATCHERS)]
    return Watchers(server, [path + selector for selector in selectors], http2_connections)


async def write(caller: Caller, objects: int = OBJECTS) -> None:
    """Change one of the objects."""
    n = next(_numbers)
    body = b'{"spec":{"reference":"event-%d"}}' % n
    await caller.ask("PATCH", f"{FLUNDERS}/old-{n % objects}", body, "application/merge-patch+json")


async def _deliver(server: Server, http2: bool) -> Delivered:
    caller = Caller()
    await caller.connect(server)
    deliveries, connections = await (await watchers(server, HTTP2_CONNECTIONS if http2 else 0, caller)).open()
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
    _, connections = await (await watchers(server, HTTP2_CONNECTIONS if http2 else 0, caller)).open()
    await asyncio.sleep(SETTLED_S)
    grown = server.rss_mb() - before
    for connection in [*connections, caller]:
        connection.close()
    return grown


def idle_mb(server: Server, http2: bool) -> float:
    """How much memory watches add that nothing happens to, in MiB."""
    return in_loop(_idle(server, http2), 180)


async def _by_name(server: Server, watched: bool) -> float:
    caller = Caller()
    await caller.connect(server)
    connections: list[ClientConnection] = []
    if watched:
        deliveries, connections = await (await watchers(server, HTTP2_CONNECTIONS, caller, by_name=True)).open()
    before = server.cpu_s()
    for _ in range(WATCHERS):
        await write(caller, WATCHERS)
    if watched:
        await deliveries.all_of(WATCHERS)
    used = server.cpu_s() - before
    for connection in [*connections, caller]:
        connection.close()
    return used / WATCHERS * 1e6


def by_name_us(server: Server, watched: bool = True) -> float:
    """What a write costs while each object is watched by a watch of its own, or by none; in µs of the server's CPU."""
    return in_loop(_by_name(server, watched), 180)


async def _rounds(server: Server, http2: bool) -> float:
    caller = Caller()
    await caller.connect(server)
    for _ in range(ROUNDS):
        deliveries, connections = await (await watchers(server, WATCHERS if http2 else 0, caller)).open()
        for _ in range(EVENTS_A_ROUND):
            await write(caller)
        await deliveries.all_of(WATCHERS * EVENTS_A_ROUND)
        for connection in connections:
            connection.close()
        await asyncio.sleep(SETTLED_S)
    caller.close()
    await asyncio.sleep(GIVEN_BACK_S)
    return server.rss_mb()


def after_rounds_mb(server: Server, http2: bool = False) -> float:
    """How much memory a server holds that 1,000 watches came to and left, again and again, in MiB.

    Each on a connection of its own.
    """
    return in_loop(_rounds(server, http2), 600)


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
        prepare(server, WATCHERS)
        alone, watched = (by_name_us(server, each) for each in (False, True))
        print(f"watch, {WATCHERS:,} watchers of one object each: a write {alone:.0f} → {watched:.0f} µs", flush=True)
    for http2 in (True, False):
        with wardle() as server:
            prepare(server)
            began, name = server.rss_mb(), "HTTP/2" if http2 else "HTTP/1.1"
            ended = after_rounds_mb(server, http2)
            print(f"{ROUNDS} rounds of {WATCHERS:,} {name} connections: {began:.0f} → {ended:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
