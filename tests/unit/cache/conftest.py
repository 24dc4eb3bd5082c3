"""A store in memory with faults on demand, objects that are plain text, and a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest
from virtual_time import HastyLoop

from oarlock.storage.backend import Batch, StorageError
from oarlock.storage.cache.entry import CacheEvent, Entry
from oarlock.storage.cache.follower import CacheLimits
from oarlock.storage.cache.watch_cache import WatchCache
from oarlock.storage.memory import MemoryBackend

PREFIX = "/registry/example.com/things/"
END = "/registry/example.com/things0"

QUICK = CacheLimits(nudge_s=0.002, fresh_s=0.05, retry_s=0.001)
"""Short waits, so that a test of what happens at their end is short too."""


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Waits are the loop's own: short or long, they take no time, and none is shorter on a busy machine."""
    return "asyncio", {"loop_factory": HastyLoop}


class StillClock:
    def __init__(self) -> None:
        self.time = 1_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


class Faulty(MemoryBackend):
    """A memory store whose watches can be held back or broken, and that may not know its own revision."""

    def __init__(self, clock: StillClock, **options: Any) -> None:
        super().__init__(clock, **options)
        self.knows = True
        self.terse = False
        self.copies = False
        self.held: list[tuple[Any, Batch]] | None = None
        self.asked = 0
        self.nudged = 0
        self.watches: list[Any] = []
        self.begun = 0
        self.refuse: StorageError | None = None
        self.on_list: Callable[[], Awaitable[None]] | None = None

    def known_rev(self) -> int | None:
        return super().known_rev() if self.knows else None

    async def current_rev(self) -> int:
        self.asked += 1
        return await super().current_rev()

    async def request_progress(self) -> None:
        self.nudged += 1
        await super().request_progress()

    async def list(self, start: str, end: str, *, rev: int = 0, limit: int = 0) -> Any:
        page = await super().list(start, end, rev=rev, limit=limit)
        if self.on_list is not None:
            await self.on_list()
        return page

    async def watch(self, start: str, end: str, *, after: int, deliver: Any, failed: Any) -> Any:
        if self.refuse is not None:
            raise self.refuse

        def maybe(batch: Batch) -> None:
            if self.terse:
                batch = Batch(tuple(event._replace(prev_value=None) for event in batch.events), batch.rev)
            if self.copies:
                copied = [event._replace(value=bytes(bytearray(event.value or b""))) for event in batch.events]
                batch = Batch(tuple(copied), batch.rev)
            if self.held is None or start != "/registry/":
                deliver(batch)
            else:
                self.held.append((deliver, batch))

        watch = await super().watch(start, end, after=after, deliver=maybe, failed=failed)
        self.begun += 1
        if start == "/registry/":
            self.watches.append(watch)
        return watch

    def hold(self) -> None:
        """Keep what the cache's watch would be delivered."""
        self.held = []

    def release(self) -> None:
        """Deliver it, and from now on at once."""
        held, self.held = self.held or [], None
        for deliver, batch in held:
            deliver(batch)

    def break_watch(self, error: StorageError) -> None:
        """End the cache's watch."""
        self.watches[-1].fail(error)


def describe(key: str, value: bytes, rev: int, create_rev: int) -> Entry:
    parts = key[len(PREFIX) :].split("/")
    broken = "" if value.isascii() else "not ASCII"
    return Entry(
        key, parts[0] if len(parts) > 1 else "", parts[-1], rev, create_rev, b"%s@%d" % (value, rev), broken=broken
    )


def restore(entry: Entry) -> bytes:
    return entry.body.rpartition(b"@")[0]


def later(entry: Entry, rev: int) -> Entry:
    return describe(entry.key, restore(entry), rev, entry.create_rev)


def texts(events: Sequence[CacheEvent]) -> list[str]:
    return [f"{event.type} {event.entry.name} {event.entry.body.decode()}" for event in events]


class Heard:
    """A watcher that writes down what it hears."""

    def __init__(self) -> None:
        self.events: list[CacheEvent] = []
        self.batches: list[int] = []
        self.ended: list[Exception | None] = []

    def deliver(self, events: Sequence[CacheEvent]) -> None:
        self.events += events
        self.batches.append(len(events))

    def closed(self, why: Exception | None) -> None:
        self.ended.append(why)

    @property
    def texts(self) -> list[str]:
        return texts(self.events)


@pytest.fixture
def kit() -> SimpleNamespace:
    """The names above, for test files that can't import them."""
    return SimpleNamespace(
        PREFIX=PREFIX,
        END=END,
        QUICK=QUICK,
        Clock=StillClock,
        Faulty=Faulty,
        Heard=Heard,
        describe=describe,
        later=later,
        restore=restore,
        texts=texts,
    )


class World:
    """A started store and cache, and short words for what tests do with them."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.backend = Faulty(self.clock)
        self.limits = QUICK
        self.cache = WatchCache(self.backend, clock=self.clock, limits=QUICK)
        self.things: Any = None

    async def load(self) -> Any:
        self.things = await self.cache.resource(PREFIX, describe, later)
        return self.things

    async def restart(self, limits: CacheLimits = QUICK) -> Any:
        """Another process on the same store."""
        await self.cache.close()
        self.cache = WatchCache(self.backend, clock=self.clock, limits=limits)
        await self.cache.start()
        return await self.load()

    async def write(self, name: str, value: str | bytes, prefix: str = PREFIX) -> int:
        """As another process would: past the cache."""
        key = prefix + name
        current, _ = await self.backend.get(key)
        data = value.encode() if isinstance(value, str) else value
        result = await self.backend.put(key, data, expect=current.mod_rev if current else 0)
        assert result.ok
        return result.rev

    async def erase(self, name: str) -> int:
        current, _ = await self.backend.get(PREFIX + name)
        assert current is not None
        return (await self.backend.delete(PREFIX + name, expect=current.mod_rev)).rev

    def names(self, snapshot: Any = None) -> list[str]:
        """What is here: ``name=value``."""
        snapshot = self.things.snapshot() if snapshot is None else snapshot
        entries = chain.from_iterable(snapshot.range(PREFIX, END))
        return [f"{entry.key[len(PREFIX) :]}={restore(entry).decode()}" for entry in entries]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.backend.start()
    await world.cache.start()
    yield world
    await world.cache.close()
    await world.backend.close()
