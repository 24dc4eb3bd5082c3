"""The watch cache over each backend: whatever happens, what it shows is what the store has, at every revision.

Histories of writes by this process and by others, of compactions, broken watches, lost places, failovers and restarts
are made up by hypothesis. A model is kept from the store's own answers; clients list and watch as real ones do. At
every rest: the snapshot is the model, every revision that can be seen again is the model's of that revision, and
each client's replayed state is the model's, having heard every change exactly once.

Over a network, calls fail meanwhile, answers are lost and watches break. The model is learnt from the store itself.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import cache_audit
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.storage.backend import KV, Backend, Compacted, Unavailable, WriteResult
from oarlock.storage.cache.entry import CacheEvent, Entry, Subscription, TooOld
from oarlock.storage.cache.follower import CacheLimits
from oarlock.storage.cache.watch_cache import ResourceCache, WatchCache
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.contracts.network import NO_FAULTS, Faults, NetworkBackend
from oarlock.testing.contracts.support import FOREIGN, SkippingBackend

PREFIX = "/registry/example.com/things/"
END = PREFIX[:-1] + "0"
OTHERS = "/registry/example.com/others/"

TIGHT = CacheLimits(
    ring_min=3, ring_max=24, history_revs=12, roots=4, undo=6, page=2, slice_events=3, nudge_s=0.001, retry_s=0.001
)
"""Small bounds, so that short histories meet them all."""

State = dict[str, tuple[int, bytes]]


class Clock:
    def now(self) -> float:
        return 1_000.0

    def monotonic(self) -> float:
        return 1_000.0


def describe(key: str, value: bytes, rev: int, create_rev: int) -> Entry:
    namespace, _, name = key[len(PREFIX) :].rpartition("/")
    return Entry(key, namespace, name, rev, create_rev, value)


def later(entry: Entry, rev: int) -> Entry:
    return describe(entry.key, entry.body, rev, entry.create_rev)


def state_of(entries: Iterable[Entry]) -> State:
    return {entry.key: (entry.rev, entry.body) for entry in entries}


class Client:
    """Lists, watches from there, and keeps a state by what it hears, as an informer does."""

    def __init__(self) -> None:
        self.state: State = {}
        self.rev = 0
        self.subscription: Subscription | None = None
        self.lost: Exception | None = None
        self.relists = 0

    def begin(self, things: ResourceCache) -> None:
        snapshot = things.snapshot()
        self.state = state_of(chain.from_iterable(snapshot.range(PREFIX, END)))
        self.rev = snapshot.rev
        self.lost = None
        self.relists += 1
        self.subscription = things.subscribe(snapshot.rev, self.deliver, self.closed)

    def reconnect(self, things: ResourceCache) -> None:
        """After its connection was cut: from where it was, or from a list when that is too old."""
        if self.subscription is not None:
            self.subscription.close()
        try:
            self.subscription = things.subscribe(self.rev, self.deliver, self.closed)
        except TooOld as error:
            assert error.oldest == things.oldest > self.rev  # noqa: PT017  the exception is part of the protocol
            self.begin(things)

    def deliver(self, events: Sequence[CacheEvent]) -> None:
        assert self.lost is None
        for event in events:
            assert event.rev > self.rev, "in order, and once"
            assert event.entry.rev == event.rev
            key = event.entry.key
            before = self.state.pop(key, None)
            assert before == (event.previous and (event.previous.rev, event.previous.body))
            assert (event.type == "ADDED") == (before is None)
            if event.type != "DELETED":
                self.state[key] = (event.rev, event.entry.body)
            self.rev = event.rev

    def closed(self, why: Exception | None) -> None:
        self.lost = why
        self.subscription = None


class History:
    """One store, one process with a cache, and what must be true of them.

    The process reaches the store by `backend`, others by `store`.
    """

    def __init__(self, backend: Any, seed: int) -> None:
        self.backend = backend
        self.store: Backend = getattr(backend, "remote", backend)
        self.random = random.Random(seed)
        self.model: dict[int, State] = {}
        self.compacted = 0
        self.clients: list[Client] = []
        self.cache = WatchCache(backend, clock=Clock(), limits=TIGHT)
        self.things: ResourceCache
        self.others: ResourceCache

    async def start(self) -> None:
        await self.cache.start()
        self.things, self.others = await asyncio.gather(
            self.cache.resource(PREFIX, describe, later), self.cache.resource(OTHERS, describe, later)
        )

    # Steps

    async def write(self, name: str, prefix: str = PREFIX, *, ours: bool = True) -> None:
        """Change or delete a key, by this process or past its cache, and note what the store was then."""
        key = prefix + name
        current, _ = await self.store.get(key)
        through: Any = self.things.writes if ours and prefix == PREFIX else self.store
        try:
            await self._write(key, current, through)
        except Unavailable:
            assert self.faulty

    async def _write(self, key: str, current: KV | None, through: Any) -> None:
        if current is not None and self.random.random() < 0.3:
            result = await through.delete(key, expect=current.mod_rev)
        else:
            value = b"%d" % self.random.randrange(10**9)
            done: Any = await through.put(key, value, expect=current.mod_rev if current else 0)
            result = done if isinstance(done, WriteResult) else done[0]
            if result.ok and through is self.things.writes:
                assert (done[1].rev, done[1].body) == (result.rev, value)
        if result.ok and through is self.things.writes and self.things.ready and not self.faulty:
            assert self.cache.rev >= result.rev, "a process reads its own writes"

    @property
    def faulty(self) -> bool:
        return bool(getattr(self.backend, "faults", NO_FAULTS) != NO_FAULTS)

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Nothing fails meanwhile."""
        faults, self.backend.faults = getattr(self.backend, "faults", NO_FAULTS), NO_FAULTS
        try:
            yield
        finally:
            self.backend.faults = faults

    async def storm(self, names: Sequence[str]) -> None:
        """Several writers at once."""
        await asyncio.gather(*(self.write(name, ours=n % 2 == 0) for n, name in enumerate(names)))

    async def compact(self, back: int) -> None:
        rev = max(await self.store.current_rev() - back, 1)
        if rev > self.compacted:
            await self.store.compact(rev)
            self.compacted = rev

    async def fail_over(self, back: int) -> None:
        """The store loses its newest history: what was acknowledged is gone, and so are the model's newest states."""
        store: Any = self.store
        store.lose_after(max(await store.current_rev() - back, self.compacted, 1))
        self.compacted = await store.compact_rev()
        self.model = {}

    async def lose(self, names: Sequence[str]) -> None:
        """The watch is away while others write and the store forgets: our place is gone."""
        if isinstance(self.backend, NetworkBackend):
            faults, self.backend.faults = self.backend.faults, Faults(unavailable=1.0)
            self.backend.cut()
        else:
            await self.cache._follower.close()
        for name in names:
            await self.write(name, ours=False)
        await self.compact(0)
        if isinstance(self.backend, NetworkBackend):
            self.backend.faults = faults
        else:
            await self.cache._follower.begin(self.cache._watch_position.rev, self.cache._epoch)

    async def restart(self, names: Sequence[str]) -> None:
        """Another process takes over, and loads while the store is written to."""
        await self.cache.close()
        with self.calm():  # a start that fails is no start
            self.cache = WatchCache(self.backend, clock=Clock(), limits=TIGHT)
            await self.cache.start()
            loading = asyncio.ensure_future(self.cache.resource(PREFIX, describe, later))
            for name in names:
                await self.write(name, ours=False)
                await asyncio.sleep(0)
            self.things = await loading
            self.others = await self.cache.resource(OTHERS, describe, later)

    # What must be true

    async def rest(self) -> None:
        """Wait until the cache has everything, then look at everything."""
        with self.calm():
            if isinstance(self.backend, NetworkBackend):
                await self.backend.written()
            await self._rest()

    async def _rest(self) -> None:
        for _ in range(500):
            wait = self.cache.fresh()
            if wait is not None:
                await wait
            if self.things.ready and self.others.ready:
                break
            await asyncio.sleep(0.001)
        await self._learn()
        now = self.model[self.cache.rev]
        assert state_of(chain.from_iterable(self.things.snapshot().range(PREFIX, END))) == now
        assert state_of(list(self.things._state.live.values())) == now
        assert len(self.things) == len(now)
        assert await cache_audit.check(self.things) == []
        assert await cache_audit.check(self.others) == []
        for client in self.clients:
            if client.subscription is None:
                assert client.lost is None or isinstance(client.lost, TooOld)
                client.reconnect(self.things)
            assert client.state == now, "a client that heard every change has the state"
        for rev, state in self.model.items():
            snapshot = self.things.snapshot_at(rev)
            if snapshot is not None:
                assert snapshot.rev == rev
                assert state_of(chain.from_iterable(snapshot.range(PREFIX, END))) == state
            else:
                assert rev < self.things._state.ring.last
        await self._paged(self.random.choice(list(self.model)))

    async def _learn(self) -> None:
        """Ask the store for its state at every revision it still has: the model."""
        current = await self.store.current_rev()
        assert self.cache.rev >= current
        for rev in range(max(self.compacted, current - 40), current + 1):
            if rev > 0 and (rev not in self.model):
                page = await self.store.list(PREFIX, END, rev=rev)
                self.model[rev] = {kv.key: (kv.mod_rev, kv.value) for kv in page.kvs}
        self.model.setdefault(self.cache.rev, self.model[current])

    async def _paged(self, rev: int) -> None:
        """Pages at a revision, whether from memory or from the store, are the list at that revision."""
        start, found = PREFIX, []
        try:
            while True:
                slices, more, remaining = await self.things.list_at(rev, start, END, 2)
                entries = [entry for part in slices for entry in part]
                found += entries
                assert remaining == len(self.model[rev]) - len(found)
                assert more == (remaining > 0)
                if not more:
                    break
                start = entries[-1].key + "\0"
        except Compacted:
            assert rev < self.compacted
            return
        assert [entry.key for entry in found] == sorted(self.model[rev])
        assert state_of(found) == self.model[rev]


NAMES = st.sampled_from(["a", "b", "c", "ns/a", "ns/b", "ns-x/a", "ü"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES),
        st.tuples(st.just("write_past"), NAMES),
        st.tuples(st.just("write_other"), st.sampled_from([OTHERS, FOREIGN])),
        st.tuples(st.just("storm"), st.lists(NAMES, min_size=2, max_size=8)),
        st.tuples(st.just("watch"), st.none()),
        st.tuples(st.just("reconnect"), st.none()),
        st.tuples(st.just("compact"), st.integers(0, 10)),
        st.tuples(st.just("break"), st.none()),
        st.tuples(st.just("fail_over"), st.integers(0, 6)),
        st.tuples(st.just("lose"), st.lists(NAMES, min_size=1, max_size=4)),
        st.tuples(st.just("restart"), st.lists(NAMES, max_size=6)),
        st.tuples(st.just("rest"), st.none()),
    ),
    max_size=25,
)
Steps = list[tuple[str, Any]]


async def live_through(backend: Backend, steps: Steps, seed: int) -> None:
    history = History(backend, seed)
    await history.start()
    try:
        for step, what in steps:
            await take(history, step, what)
        await history.rest()
        await history.write("a", ours=False)
        await history.rest()
    finally:
        await history.cache.close()


async def take(history: History, step: str, what: Any) -> None:
    if step == "write":
        await history.write(what)
    elif step == "write_past":
        await history.write(what, ours=False)
    elif step == "write_other":
        await history.write("x", what)
    elif step == "storm":
        await history.storm(what)
    elif step == "watch":
        if history.things.ready:
            client = Client()
            client.begin(history.things)
            history.clients.append(client)
    elif step == "reconnect":
        if history.clients and history.things.ready:
            history.random.choice(history.clients).reconnect(history.things)
    elif step == "compact":
        await history.compact(what)
    elif step == "break":
        watch = history.cache._follower._watch
        if watch is not None:
            watch.close()
            history.cache._follower._on_failure(Unavailable("cut"))
    elif step == "fail_over":
        if hasattr(history.store, "lose_after"):
            await history.fail_over(what)
    elif step == "lose":
        await history.lose(what)
    elif step == "restart":
        await history.restart(what)
    else:
        await history.rest()


@asynccontextmanager
async def memory() -> AsyncIterator[Backend]:
    backend = MemoryBackend(Clock())
    await backend.start()
    yield backend
    await backend.close()


@asynccontextmanager
async def skipping() -> AsyncIterator[Backend]:
    backend = SkippingBackend(Clock(), seed=1)
    await backend.start()
    yield backend
    await backend.close()


@asynccontextmanager
async def network() -> AsyncIterator[Backend]:
    backend = NetworkBackend(MemoryBackend(Clock()), seed=2)
    await backend.start()
    yield backend
    await backend.close()


@asynccontextmanager
async def bad_network() -> AsyncIterator[Backend]:
    backend = NetworkBackend(SkippingBackend(Clock(), seed=3), seed=3)
    await backend.start()
    backend.faults = Faults(unavailable=0.05, unknown=0.1, cut=0.1)
    yield backend
    await backend.close()


@asynccontextmanager
async def sqlite() -> AsyncIterator[Backend]:
    with tempfile.TemporaryDirectory() as folder:
        backend = SqliteBackend(Path(folder) / "store.db", Clock())
        await backend.start()
        try:
            yield backend
        finally:
            await backend.close()


@examples(150)
@given(steps=STEPS, seed=st.integers(0, 1 << 30))
def test_over_memory(steps: Steps, seed: int) -> None:
    run(memory, steps, seed)


@examples(150)
@given(steps=STEPS, seed=st.integers(0, 1 << 30))
def test_over_a_store_that_skips_revisions(steps: Steps, seed: int) -> None:
    run(skipping, steps, seed)


@examples(100)
@given(steps=STEPS, seed=st.integers(0, 1 << 30))
def test_over_a_network(steps: Steps, seed: int) -> None:
    run(network, steps, seed)


@examples(100)
@given(steps=STEPS, seed=st.integers(0, 1 << 30))
def test_over_a_network_where_things_fail(steps: Steps, seed: int) -> None:
    run(bad_network, steps, seed)


@examples(20)
@given(steps=STEPS, seed=st.integers(0, 1 << 30))
def test_over_sqlite(steps: Steps, seed: int) -> None:
    run(sqlite, steps, seed)


def run(opened: Callable[[], Any], steps: Steps, seed: int) -> None:
    async def main() -> None:
        async with opened() as backend:
            await live_through(backend, steps, seed)

    asyncio.run(main())


@pytest.mark.parametrize("opened", [memory, skipping, sqlite, network, bad_network])
def test_a_long_storm(opened: Callable[[], Any]) -> None:
    """Many concurrent writers with watchers that come and go: nothing lost, nothing twice."""

    async def main() -> None:
        async with opened() as backend:
            history = History(backend, 7)
            await history.start()
            names = [f"ns/{n:02}" for n in range(20)]
            for turn in range(12):
                client = Client()
                client.begin(history.things)
                history.clients.append(client)
                await history.storm(names)
                if turn % 4 == 3:
                    history.random.choice(history.clients).reconnect(history.things)
            await history.rest()
            assert [client.relists for client in history.clients].count(1) >= 8
            await history.cache.close()

    asyncio.run(main())


def test_two_caches_of_one_file_read_each_others_writes(tmp_path: Path) -> None:
    """R4 through the cache: what one acknowledged, the other shows to a read that begins later."""

    async def main() -> None:
        backends = [SqliteBackend(tmp_path / "store.db", Clock()) for _ in range(2)]
        for backend in backends:
            await backend.start()
        caches = [WatchCache(backend, clock=Clock()) for backend in backends]
        things = []
        for cache in caches:
            await cache.start()
            things.append(await cache.resource(PREFIX, describe, later))
        client = Client()
        client.begin(things[1])
        rev = 0
        for n in range(60):
            writer, reader = n % 2, 1 - n % 2
            result, _ = await things[writer].writes.put(f"{PREFIX}a", b"%d" % n, expect=rev)
            assert result.ok
            rev = result.rev
            wait = caches[reader].fresh()
            if wait is not None:
                await wait
            entry = things[reader].get(f"{PREFIX}a")
            assert entry is not None
            assert (entry.rev, entry.body) == (rev, b"%d" % n)
        await caches[1].wait_for(rev)
        assert client.state == {f"{PREFIX}a": (rev, b"59")}
        for one in things:
            assert await cache_audit.check(one) == []
        for cache, backend in zip(caches, backends, strict=True):
            await cache.close()
            await backend.close()

    asyncio.run(main())
