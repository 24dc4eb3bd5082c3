"""What does each store cost? The same server and the same load on SQLite, PostgreSQL, MariaDB and etcd, in one run.

    python benchmarks/stores.py [sqlite postgresql mariadb etcd] [--large] [--seconds 3]

The databases are started for it, on this machine, with every write durable; one that isn't installed is left out. The
rows are those of the table in docs/storage.md. CPU is that of the servers, and of the database's processes beside it.
With ``--large``: start to /readyz with 100,000 objects.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.load import Figure, Load, fill, run
from support.processes import tree_cpu_s
from support.wardle import FLUNDERS, ROOT, TOKEN, Server, flunder, wardle

sys.path.insert(0, str(ROOT / "tests" / "support"))
from databases import EtcdServer, MariadbServer, NoDatabase, PostgresServer

from oarlock.client.clock import SystemClock
from oarlock.storage.url import open_backend

DATABASES = {"postgresql": PostgresServer, "mariadb": MariadbServer, "etcd": EtcdServer}
STORES = ("sqlite", *DATABASES)
EVENTS = 300
LARGE = 100_000
IN_FLIGHT = 64


@dataclass(frozen=True)
class Store:
    """A running store: where to make a new, empty one, and how much CPU its processes have used."""

    name: str
    new_url: Callable[[], str]
    cpu_s: Callable[[], float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="*", metavar="STORE", default=STORES)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    for name in given.stores:
        try:
            with store(name) as running:
                report(running, given.seconds, large=given.large)
        except NoDatabase as missing:
            print(f"{name}: {missing}")


@contextmanager
def store(name: str) -> Iterator[Store]:
    if name == "sqlite":
        with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as folder:
            numbers = iter(range(1_000))
            yield Store(name, lambda: f"sqlite:///{folder}/store{next(numbers)}.db", lambda: 0.0)
    else:
        with DATABASES[name]() as database:
            yield Store(name, database.fresh, lambda: tree_cpu_s(database.pid))


def report(on: Store, seconds: float, *, large: bool) -> None:
    rate, own_us, database_us = asyncio.run(creates(on, seconds))
    print(f"{on.name}: {rate:,.0f} durable creates/s through the backend alone, {IN_FLIGHT} in flight,", end=" ")
    print(f"{own_us:.1f} + {database_us:.1f} µs CPU each")
    load = Load(seconds=seconds, most=40_000)
    with data_directory() as folder, wardle(on.new_url(), folder) as server:
        series = iter(range(10_000_000))

        def create(n: int) -> tuple[str, str, bytes, str]:
            number = next(series)
            return "POST", FLUNDERS, flunder(f"new-{number}", number), "application/json"

        show(on, "CREATE, 16 in flight", measured(on, server, create, load))
    url = on.new_url()
    with data_directory() as folder, wardle(url, folder) as server, wardle(url, folder) as other:
        fill(server, lambda n: ("POST", FLUNDERS, flunder(f"get-{n}", n), "application/json"), 100)
        figures = measured(on, server, lambda n: ("GET", f"{FLUNDERS}/get-{n % 100}", b"", ""), load)
        show(on, "GET, linearizable, two servers, 16 in flight", figures)
        times = asyncio.run(propagation(server, other))
        p99 = statistics.quantiles(times, n=100)[98]
        text = f"median {statistics.median(times):.2f} ms, p99 {p99:.2f} ms"
        print(f"{on.name}: write on one server to event on the other: {text}")
    if large:
        with data_directory() as folder:
            url = on.new_url()
            asyncio.run(filled(url))
            with wardle(url, folder):
                pass  # leaves the certificates behind
            with wardle(url, folder) as server:
                text = f"{server.ready_s * 1e3:,.0f} ms, RSS {server.rss_mb():,.0f} MB"
                print(f"{on.name}: start to /readyz with {LARGE:,} objects: {text}")


@contextmanager
def data_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as folder:
        yield Path(folder)


def measured(
    on: Store, server: Server, make: Callable[[int], tuple[str, str, bytes, str]], load: Load
) -> list[tuple[Figure, float]]:
    """Three runs, each with the database's CPU per operation in µs, by the server's."""
    figures = []
    for _ in range(3):
        before = on.cpu_s()
        figure = run(server, make, load)
        everything = figure.operations * (load.warm_s + load.seconds) / load.seconds
        figures.append((figure, (on.cpu_s() - before) / everything * 1e6))
    return sorted(figures, key=lambda each: each[0].cpu_us)


def show(on: Store, what: str, figures: list[tuple[Figure, float]]) -> None:
    figure, database_us = figures[len(figures) // 2]
    print(f"{on.name}: {figure.line(what)}; database about {database_us:,.0f} µs CPU")


async def creates(on: Store, seconds: float) -> tuple[float, float, float]:
    """Creates per second, and CPU µs of this process and of the database for each."""
    backend = open_backend(on.new_url(), SystemClock())
    await backend.start()
    count = 0
    stop = time.perf_counter() + seconds

    async def client(number: int) -> None:
        nonlocal count
        index = 0
        while time.perf_counter() < stop:
            result = await backend.put(f"/registry/pods/{number:03}/pod-{index:08}", b"x" * 1024, expect=0)
            assert result.ok
            index += 1
            count += 1

    own, database, begun = own_cpu_s(), on.cpu_s(), time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(IN_FLIGHT)))
    took = time.perf_counter() - begun
    own, database = own_cpu_s() - own, on.cpu_s() - database
    await backend.close()
    return count / took, own / count * 1e6, database / count * 1e6


def own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def propagation(writes_to: Server, watches: Server) -> list[float]:
    """How long after a create was sent to one server a watch at the other had its event, in ms."""
    head = f"host: localhost\r\nauthorization: Bearer {TOKEN}\r\naccept: application/json\r\nuser-agent: bench/1\r\n"

    async def connect(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=server.tls("http/1.1"), server_hostname="localhost"
        )

    watch, to_watch = await connect(watches)
    to_watch.write(f"GET {FLUNDERS}?watch=1 HTTP/1.1\r\n{head}\r\n".encode())
    await watch.readuntil(b"\r\n\r\n")
    answers, to_create = await connect(writes_to)
    times = []
    for number in range(EVENTS):
        name = f"event-{number}"
        body = flunder(name, number)
        begun = time.perf_counter()
        sized = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        to_create.write(f"POST {FLUNDERS} HTTP/1.1\r\n{head}{sized}\r\n".encode() + body)
        event = b""
        while f'"name":"{name}"'.encode() not in event:
            event = await asyncio.wait_for(watch.readline(), 30)
        times.append((time.perf_counter() - begun) * 1e3)
        answer = await answers.readuntil(b"\r\n\r\n")
        size = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        json.loads(await answers.readexactly(int(size[15:])))
        await asyncio.sleep(0.003)
    to_watch.close()
    to_create.close()
    return times


async def filled(url: str) -> None:
    """Write objects as the server would, without it."""
    backend = open_backend(url, SystemClock())
    await backend.start()
    numbers = iter(range(LARGE))

    async def client() -> None:
        for number in numbers:
            name = f"object-{number:06}"
            stored = (
                f'{{"apiVersion":"wardle.example.com/v1alpha1","kind":"Flunder","metadata":{{"name":"{name}",'
                f'"namespace":"default","uid":"00000000-0000-4000-8000-{number:012}",'
                f'"creationTimestamp":"2026-01-01T00:00:00Z"}},"spec":{{"reference":"{"x" * 700}"}}}}'
            )
            key = f"/registry/wardle.example.com/flunders/default/{name}"
            await backend.put(key, stored.encode(), expect=0)

    await asyncio.gather(*(client() for _ in range(IN_FLIGHT)))
    await backend.close()


if __name__ == "__main__":
    main()
