"""What objects in the watch cache cost: resident memory of a process that has loaded 10,000 or 100,000 of 1 KB.

Run alone: ``python benchmarks/cache_memory.py [objects…]``. Each figure is of a process of its own that reads a
SQLite file another process has written, so that nothing but the cache (and the backend's pages) is counted. Also
prints how long loading took and the longest time the loop was kept while it loaded.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

from oarlock.storage.cache.entry import Entry, Interner
from oarlock.storage.cache.watch_cache import WatchCache
from oarlock.storage.sqlite.backend import SqliteBackend

PREFIX = "/registry/example.com/things/"
INTERNER = Interner()


class WallClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def describe(key: str, value: bytes, rev: int, create_rev: int) -> Entry:
    _, _, _, _, namespace, name = key.split("/")
    labels = INTERNER.labels({"app": f"app-{hash(name) % 50}", "tier": "back"})
    body = value[:40] + b'"resourceVersion":"%d",' % rev + value[40:]
    return Entry(key, sys.intern(namespace), name, rev, create_rev, body, labels, ("",))


def resident_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


async def fill(path: str, objects: int) -> None:
    backend = SqliteBackend(path, WallClock())
    await backend.start()
    for first in range(0, objects, 500):
        await asyncio.gather(
            *(
                backend.put(f"{PREFIX}ns-{number % 50:03}/thing-{number:08}", b"x" * 1000, expect=0)
                for number in range(first, min(first + 500, objects))
            )
        )
    await backend.close()


async def longest_turn(longest: list[float]) -> None:
    last = time.perf_counter()
    while True:
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest[0] = max(longest[0], now - last)
        last = now
        await asyncio.sleep(0.001)
        last = time.perf_counter()


async def load(path: str, objects: int) -> None:
    before = resident_mb()
    backend = SqliteBackend(path, WallClock())
    await backend.start()
    cache = WatchCache(backend, clock=WallClock())
    await cache.start()
    longest = [0.0]
    watcher = asyncio.create_task(longest_turn(longest))
    begin = time.perf_counter()
    things = await cache.resource(PREFIX, describe, lambda entry: entry.body)
    took = time.perf_counter() - begin
    watcher.cancel()
    after = resident_mb()
    assert len(things) == objects
    each = (after - before) * 1e3 / max(objects, 1)
    print(
        f"{objects} objects: {after:.0f} MB resident, {each:.2f} KB per object, "
        f"loaded in {took * 1e3:.0f} ms, loop kept for {longest[0] * 1e3:.1f} ms at most"
    )
    await cache.close()
    await backend.close()


def run_fill(path: str, objects: int) -> None:
    asyncio.run(fill(path, objects))


def run_load(path: str, objects: int) -> None:
    asyncio.run(load(path, objects))


if __name__ == "__main__":
    for objects in [int(argument) for argument in sys.argv[1:]] or [0, 10_000, 100_000]:
        with tempfile.TemporaryDirectory() as folder:
            for work in (run_fill, run_load):
                process = get_context("spawn").Process(target=work, args=(f"{folder}/store.db", objects))
                process.start()
                process.join()
