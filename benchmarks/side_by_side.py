"""One table of what a server costs, beside what was measured of a Go server and its store, and beside our goals.

    python benchmarks/side_by_side.py [ROW …] [--record]

Without rows, all of them, in some minutes. CPU is that of the server's process alone (``/proc/PID/stat``), the median
of three runs; the load generator's doesn't count. `--record` writes the table and the plot into docs/performance.md.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import watch
import write
from support.calibration import unit_us
from support.load import Load, fill, median_of
from support.performance_page import Result, peer_rows, record, shown
from support.wardle import FLUNDERS, Server, flunder, wardle

ONE_PERCENT = "?labelSelector=bucket%3Db7"


@dataclass
class Servers:
    """The servers that rows share, each started when a row first needs it, with the objects that it has so far."""

    stack: ExitStack
    running: dict[str, Server] = field(default_factory=dict)
    objects: dict[str, int] = field(default_factory=dict)

    def having(self, name: str, count: int) -> Server:
        """The server called `name`, with at least `count` objects."""
        if name not in self.running:
            self.running[name] = self.stack.enter_context(wardle())
        server, there = self.running[name], self.objects.get(name, 0)
        if there < count:
            fill(server, _new, count - there, there)
            self.objects[name] = count
        return server


def _new(n: int) -> tuple[str, str, bytes, str]:
    return "POST", FLUNDERS, flunder(f"object-{n:06d}", n), "application/json"


Measure = Callable[[Servers], float]


def _get(query: str = "", in_flight: int = 16, http2: bool = False) -> Measure:
    def measure(servers: Servers) -> float:
        server = servers.having("few", 1000)
        load = Load(in_flight=in_flight, seconds=2, warm_s=0.5, http2=http2)
        return median_of(server, lambda n: ("GET", f"{FLUNDERS}/object-{n % 1000:06d}{query}", b"", ""), load).cpu_us

    return measure


def _list(objects: int, query: str = "", encoding: str = "", http2: bool = False) -> Measure:
    def measure(servers: Servers) -> float:
        server = servers.having("few" if objects == 1000 else "many", objects)
        load = Load(in_flight=1, seconds=2, warm_s=0.5, http2=http2, accept_encoding=encoding)
        return median_of(server, lambda n: ("GET", FLUNDERS + query, b"", ""), load).cpu_us

    return measure


def _create(in_flight: int) -> Measure:
    def measure(servers: Servers) -> float:
        server = servers.having("written", write.OBJECTS)
        numbers = iter(range(1_000_000))

        def make(n: int) -> tuple[str, str, bytes, str]:
            number = next(numbers)
            return "POST", FLUNDERS, flunder(f"new-{in_flight}-{number}", number), "application/json"

        return median_of(server, make, Load(in_flight=in_flight, seconds=2, warm_s=0.5)).cpu_us

    return measure


def _written(servers: Servers) -> Server:
    """A server with the objects that the requests of benchmarks/write.py change."""
    if "changed" not in servers.running:
        server = servers.having("changed", 0)
        fill(server, lambda n: ("POST", FLUNDERS, flunder(f"old-{n}", n), "application/json"), write.OBJECTS)
    return servers.running["changed"]


def _update(servers: Servers) -> float:
    return write.updates(_written(servers), Load(seconds=2, warm_s=0.5)).cpu_us


def _merge_patch(servers: Servers) -> float:
    def patch(n: int) -> tuple[str, str, bytes, str]:
        body = b'{"metadata":{"annotations":{"example.com/n":"%d"}}}' % n
        return "PATCH", f"{FLUNDERS}/old-{n % write.OBJECTS}", body, write.PATCHES["merge"]

    return median_of(_written(servers), patch, Load(seconds=2, warm_s=0.5)).cpu_us


def _apply(servers: Servers) -> float:
    return median_of(_written(servers), write.apply, Load(seconds=2, warm_s=0.5)).cpu_us


def _watch(http2: bool) -> Measure:
    def measure(servers: Servers) -> float:
        if "watched" not in servers.running:
            server = servers.having("watched", 0)
            fill(server, lambda n: ("POST", FLUNDERS, flunder(f"watched-{n}", n), "application/json"), 10)
        return asyncio.run(watch.deliver(servers.running["watched"], http2)).cpu_us

    return measure


def _start(servers: Servers) -> float:
    folder = servers.having("few", 0).folder / "start"
    folder.mkdir(exist_ok=True)
    times = []
    for n in range(6):
        with wardle(folder=folder) as server:
            times.append(server.ready_s * 1e3)
        if not n:
            times.clear()  # it made the certificates
    return statistics.median(times)


def _memory(objects: int) -> Measure:
    return lambda servers: servers.having("filled", objects).rss_mb()


ROWS: dict[str, tuple[str, str, Measure]] = {
    "get-http2": ("GET, 16 in flight, HTTP/2", "µs", _get(http2=True)),
    "get-http1": ("GET, 16 in flight, HTTP/1.1", "µs", _get()),
    "get-rv0-http2": ("GET, resourceVersion=0, HTTP/2", "µs", _get("?resourceVersion=0", http2=True)),
    "get-rv0-http1": ("GET, resourceVersion=0, HTTP/1.1", "µs", _get("?resourceVersion=0")),
    "get-one": ("GET, one in flight, HTTP/1.1", "µs", _get(in_flight=1)),
    "list-1000": ("LIST of 1,000", "µs", _list(1000)),
    "list-1000-gzip": ("LIST of 1,000, gzip", "µs", _list(1000, encoding="gzip")),
    "list-1000-selector": ("LIST, selector for 1 % of 1,000", "µs", _list(1000, ONE_PERCENT)),
    "list-10000": ("LIST of 10,000, HTTP/1.1", "µs", _list(10_000)),
    "list-10000-http2": ("LIST of 10,000, HTTP/2", "µs", _list(10_000, http2=True)),
    "list-10000-selector": ("LIST, selector for 1 % of 10,000", "µs", _list(10_000, ONE_PERCENT)),
    "page-500": ("page of 500 out of 10,000", "µs", _list(10_000, "?limit=500")),
    "create-1": ("CREATE, one in flight", "µs", _create(1)),
    "create-16": ("CREATE, 16 in flight", "µs", _create(16)),
    "create-64": ("CREATE, 64 in flight", "µs", _create(64)),
    "update": ("UPDATE, 16 in flight", "µs", _update),
    "merge-patch": ("merge PATCH, 16 in flight", "µs", _merge_patch),
    "apply": ("APPLY, 16 in flight", "µs", _apply),
    "watch-http2": ("watch event, 1,000 watchers on 10 HTTP/2 connections", "µs", _watch(http2=True)),
    "watch-1000-connections": ("watch event, 1,000 watchers on 1,000 connections", "µs", _watch(http2=False)),
    "start": ("start to ready (wall time)", "ms", _start),
    "rss-1000": ("memory with 1,000 objects", "MiB", _memory(1000)),
    "rss-10000": ("memory with 10,000 objects", "MiB", _memory(10_000)),
    "rss-100000": ("memory with 100,000 objects", "MiB", _memory(100_000)),
}
"""By name: what it is, its unit, how it is measured."""


def measured(names: Iterable[str]) -> list[Result]:
    """Measure the rows, and print each when it is there."""
    results = []
    with ExitStack() as stack:
        servers = Servers(stack)
        for name in names:
            what, unit, measure = ROWS[name]
            peer = peer_rows()[name]
            results.append(Result(name, what, unit, measure(servers), peer.server + peer.store, peer.goal))
            print(shown(results[-1]), flush=True)
    return results


def main() -> None:
    names = [word for word in sys.argv[1:] if not word.startswith("--")] or list(ROWS)
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        sys.exit(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    if "--record" in sys.argv and len(names) < len(ROWS):
        sys.exit("--record writes the whole table: leave the rows out")
    before = unit_us()
    results = measured(names)
    load = os.getloadavg()[0]
    machine = (
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}, "
        f"calibration {before:.0f} µs before, {unit_us():.0f} µs after"
    )
    print(machine)
    if "--record" in sys.argv:
        record(results, machine, Path(__file__).resolve().parents[1] / "docs")


if __name__ == "__main__":
    main()
