"""What one event costs the watch cache: µs per applied event with 100,000 objects, for 0 and 1,000 subscriptions.

Run alone: ``python benchmarks/cache_update.py [objects]``. Describing is left out (the entries are drafts made
beforehand), the events are handed over one per batch, as a backend does under light load, and 64 per batch, as
group commit does. The last line takes a snapshot between all batches, as a LIST between all writes would.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from collections.abc import Sequence

from oarlock.storage.backend import Batch, Op, StoreEvent
from oarlock.storage.cache.entry import CacheEvent, Entry
from oarlock.storage.cache.watch_cache import ResourceCache, WatchCache
from oarlock.storage.memory import MemoryBackend

PREFIX = "/registry/example.com/things/"
EVENTS = 20_000


class WallClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class Fed(MemoryBackend):
    """A store whose watch is fed by the benchmark."""

    feed = None

    async def watch(self, start, end, *, after, deliver, failed):  # type: ignore[no-untyped-def]
        if start == "/registry/":
            self.feed = deliver
        return await super().watch(start, end, after=after, deliver=deliver, failed=failed)


def describe(key: str, value: bytes, rev: int, create_rev: int) -> Entry:
    _, _, _, _, namespace, name = key.split("/")
    return Entry(key, namespace, name, rev, create_rev, value)


def ignore(events: Sequence[CacheEvent]) -> None:
    pass


async def measure(cache: WatchCache, things: ResourceCache, backend: Fed, size: int, between: object = None) -> float:
    keys = [entry.key for part in things.snapshot().range(PREFIX, PREFIX[:-1] + "0") for entry in part]
    chosen = random.Random(size).choices(keys, k=EVENTS)
    rev = cache.rev
    value = b"x" * 1000
    batches = []
    for first in range(0, EVENTS, size):
        events = tuple(
            StoreEvent(rev + first + n + 1, Op.UPDATE, key, value, 1, 1, value)
            for n, key in enumerate(chosen[first : first + size])
        )
        batches.append(Batch(events, events[-1].rev))
    assert backend.feed is not None
    begin = time.perf_counter()
    for batch in batches:
        backend.feed(batch)
        if between is not None:
            things.snapshot()
    return (time.perf_counter() - begin) / EVENTS * 1e6


async def main(objects: int) -> None:
    backend = Fed(WallClock())
    cache = WatchCache(backend, clock=WallClock())
    await backend.start()
    for number in range(objects):
        await backend.put(f"{PREFIX}ns-{number % 50:03}/thing-{number:08}", b"x" * 1000, expect=0)
    await backend.compact(await backend.current_rev())
    await cache.start()
    things = await cache.resource(PREFIX, describe, lambda entry: entry.body)
    gc.collect()
    gc.freeze()  # as a server does once it has loaded
    begin = time.perf_counter()
    for number in range(EVENTS):
        describe(f"{PREFIX}ns-001/thing-{number:08}", b"x", 1, 1)
    own = (time.perf_counter() - begin) / EVENTS * 1e6
    for subscriptions in (0, 1_000):
        for _ in range(subscriptions):
            things.subscribe(cache.rev, ignore, lambda why: None)
        for size in (1, 64):
            figure = await measure(cache, things, backend, size)
            figure -= own
            print(f"{objects} objects, {subscriptions} subscriptions, {size} per batch: {figure:.1f} µs per event")
        if not subscriptions:
            figure = await measure(cache, things, backend, 1, between=True)
            print(f"{objects} objects, a snapshot after every event: {figure - own:.1f} µs per event")
    begin = time.perf_counter()
    for _ in range(100_000):
        cache.fresh()
    print(f"fresh() when it is: {(time.perf_counter() - begin) / 100_000 * 1e6:.2f} µs")
    parts = [[entry.body for entry in part] for part in things.snapshot().range(PREFIX, PREFIX[:-1] + "0")]
    begin = time.perf_counter()
    bodies: list[bytes] = []
    for part in things.snapshot().range(PREFIX, f"{PREFIX}ns-005/"):
        bodies += [entry.body for entry in part]
    print(f"collecting {len(bodies)} bodies: {(time.perf_counter() - begin) * 1e3:.2f} ms ({len(parts)} leaves in all)")
    await cache.close()
    await backend.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
