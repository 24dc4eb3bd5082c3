"""Clients of a store as servers are, which note everything that they get; and several of them on one store.

A `WritingClient` writes at random to a few keys that others write to as well. A `Reflector` lists in pages, watches,
breaks off at a random moment and resumes at another server, as an informer does. `History` is the watch that the others
are compared with: it never breaks off, and if it is broken, it resumes.

`SharingContract` runs four writers and three reflectors on several servers while history is compacted:

    class TestMine(SharingContract):
        def backend(self, folder, clock): ...
        def replica(self, folder, clock): ...

``OARLOCK_FAULT_EVENTS`` is how many events there shall be, a few hundred unless it is set.
Must not know: any particular backend. See also: `claims`, which judges the notes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

from oarlock.net.backoff import Backoff
from oarlock.storage.backend import (
    Backend,
    Batch,
    Compacted,
    Op,
    OutcomeUnknown,
    Page,
    Rev,
    StorageError,
    StoreEvent,
    Unavailable,
    Watch,
    WriteResult,
)
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.claims import (
    Claim,
    ClientRecords,
    Gap,
    ReadRecord,
    Verdict,
    WatchRecord,
    WriteOutcome,
    judge,
)
from oarlock.testing.contracts.support import END, START, Recorder, Suite, eventually, two_servers

T = TypeVar("T")
_PAUSE_S = 0.02
_AGAIN = Backoff(_PAUSE_S, 0.5)
_ASK_EVERY_S = 0.2
_LOOK_EVERY_S = 0.002


class WritingClient:
    """Creates, updates and deletes `keys` keys. `name` makes its values its own.

    `begin` is called before each write with the claim that holds if nothing more is heard, for a process that may be
    killed. `backend` may be exchanged at any time.
    """

    def __init__(
        self, backend: Backend, name: str, seed: int, *, keys: int = 12, begin: Callable[[Claim], None] | None = None
    ) -> None:
        self.backend = backend
        self.notes = ClientRecords()
        self.count = 0
        self._name = name
        self._dice = random.Random(f"{name} {seed}")
        self._keys = keys
        self._begin = begin
        self._revs: dict[str, Rev] = {}
        self._pauses = _AGAIN.pauses()

    async def write(self) -> Claim:
        """One write at random, and what was claimed of it. Waits a little after an error, longer after the next."""
        self.count += 1
        key = f"{START}{self._dice.randrange(self._keys)}"
        expect = self._revs.get(key, 0)
        value = None if expect and self._dice.random() < 0.25 else f"{self._name}-{self.count}".encode()
        claim = await attempt(self.backend, key, value, expect, self._begin)
        self.notes.claims.append(claim)
        self.notes.longest_s = max(self.notes.longest_s, claim.ended - claim.began)
        if claim.outcome is WriteOutcome.DONE:
            self._revs[key] = 0 if value is None else claim.rev
        elif claim.outcome is WriteOutcome.REFUSED:
            self._revs[key] = claim.rev
        else:
            await asyncio.sleep(self._pauses.take())
            return claim
        self._pauses.reset()
        return claim

    async def run(self, over: Callable[[], bool]) -> None:
        while not over():
            await self.write()
            await asyncio.sleep(0)


async def attempt(
    backend: Backend, key: str, value: bytes | None, expect: Rev, begin: Callable[[Claim], None] | None = None
) -> Claim:
    """Write once; what may be claimed of it afterwards. Errors that don't say what became of it are raised."""
    began = time.monotonic()

    def claim(outcome: WriteOutcome, rev: Rev = 0) -> Claim:
        return Claim(key, value, expect, outcome, rev, began, time.monotonic())

    if begin is not None:
        begin(claim(WriteOutcome.UNKNOWN))
    try:
        result: WriteResult
        if value is None:
            result = await backend.delete(key, expect=expect)
        else:
            result = await backend.put(key, value, expect=expect)
    except OutcomeUnknown:
        return claim(WriteOutcome.UNKNOWN)
    except Unavailable:
        return claim(WriteOutcome.UNAVAILABLE)
    if result.ok:
        return claim(WriteOutcome.DONE, result.rev)
    return claim(WriteOutcome.REFUSED, result.current.mod_rev if result.current else 0)


async def list_in_pages(
    backend: Backend, span: tuple[str, str], limit: int, between: Callable[[], Awaitable[None]] | None = None
) -> ReadRecord:
    """A list of `span`, all pages at one revision. `between` is awaited before each page but the first."""
    start, end = span
    began = time.monotonic()
    page = await backend.list(start, end, limit=limit)
    rev = page.rev
    items = {kv.key: kv.mod_rev for kv in page.kvs}
    while page.more:
        if between is not None:
            await between()
        page = await backend.list(page.kvs[-1].key + "\0", end, rev=rev, limit=limit)
        assert page.rev == rev, f"a page of {rev} is of {page.rev}"
        assert items.keys().isdisjoint(kv.key for kv in page.kvs), "a page repeats a key"
        items.update((kv.key, kv.mod_rev) for kv in page.kvs)
    return ReadRecord(start, end, rev, items, began)


class Reflector:
    """Lists, then watches, again and again, each time at one of `servers`. `state` is what it would show.

    `keep`: how many events it has at most seen of one server before it goes to another.
    """

    def __init__(self, servers: Sequence[Backend], seed: int, *, keep: int = 60) -> None:
        self.notes = ClientRecords()
        self.state: dict[str, Rev] | None = None
        self.rev: Rev = 0
        self._servers = servers
        self._dice = random.Random(seed)
        self._keep = keep
        self._pauses = _AGAIN.pauses()

    async def run(self, over: Callable[[], bool]) -> None:
        while not over():
            await self._turn(partial(_enough, over, self._dice.randrange(1, self._keep), self._dice.random()))

    async def reach(self, rev: Rev) -> None:
        """Go on until everything up to `rev` is seen."""
        while self.state is None or self.rev < rev:
            await self._turn(lambda seen: seen.rev >= rev, ask=True)

    async def _turn(self, over: Callable[[Recorder], bool], *, ask: bool = False) -> None:
        """One list if need be, and one watch until it is `over` or breaks. With `ask`, it requests progress."""
        backend = self._dice.choice(self._servers)
        try:
            if self.state is None or self._dice.random() < 0.2:
                self.state = None
                await self._list(backend)
            await self._watch(backend, over, ask)
        except Compacted:
            self.notes.expired += 1
            self.state = None
        except Unavailable:
            self.notes.broken += 1
            await asyncio.sleep(self._pauses.take())
        else:
            self._pauses.reset()

    async def _list(self, backend: Backend) -> None:
        limit = self._dice.choice((0, 1, 2, 5))

        async def pause() -> None:
            if self._dice.random() < 0.3:
                await asyncio.sleep(self._dice.random() * _PAUSE_S)

        listing = await self._timed(list_in_pages(backend, (START, END), limit, pause))
        self.notes.listings.append(listing)
        self.state, self.rev = dict(listing.items), listing.rev

    async def _watch(self, backend: Backend, over: Callable[[Recorder], bool], ask: bool) -> None:
        after = self.rev
        seen = Recorder(after)
        requested = 0.0
        watch = await self._timed(backend.watch(START, END, after=after, deliver=seen.deliver, failed=seen.failed))
        try:
            while seen.error is None and not over(seen):
                if ask and time.monotonic() - requested > _ASK_EVERY_S:
                    requested = time.monotonic()
                    await self._timed(backend.request_progress())
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            watch.close()
            self._take(after, seen)
        if seen.error is not None:
            raise seen.error

    def _take(self, after: Rev, seen: Recorder) -> None:
        self.notes.stretches.append(WatchRecord(after, seen.rev, seen.events))
        assert self.state is not None
        for event in seen.events:
            if event.value is None:
                self.state.pop(event.key, None)
            else:
                self.state[event.key] = event.rev
        self.rev = seen.rev

    async def _timed(self, call: Awaitable[T]) -> T:
        began = time.monotonic()
        try:
            return await call
        finally:
            self.notes.longest_s = max(self.notes.longest_s, time.monotonic() - began)


def _enough(over: Callable[[], bool], events: int, seconds: float, seen: Recorder) -> bool:
    return over() or len(seen.events) >= events or time.monotonic() > seen.began + seconds


class History:
    """All events of the range after the list `page`, from a watch that resumes when it is broken.

    When the store begins another epoch, a `Gap` tells what has become of the state in between.
    """

    def __init__(self, backend: Backend, page: Page) -> None:
        self.backend = backend
        self.gaps: list[Gap] = []
        self.events: list[StoreEvent] = []
        self.rev = page.rev
        self.broken = 0
        self._start = {kv.key: kv for kv in page.kvs}
        self._epoch = ""
        self._failure: StorageError | None = None
        self._watch: Watch | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._epoch = await self.backend.epoch()
        self._task = asyncio.create_task(self._follow())
        await eventually(lambda: self._watch is not None, "the watch that all are compared with can't be begun")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._watch is not None:
            self._watch.close()

    def check(self) -> None:
        """Raises why nothing is watched any more, if that is so."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def up_to(self, rev: Rev) -> Sequence[StoreEvent]:
        """The events, once all up to `rev` are there."""
        async with asyncio.timeout(60):
            while self.rev < rev:
                self.check()
                try:
                    await self.backend.request_progress()
                except Unavailable:
                    pass
                await asyncio.sleep(0.02)
        return self.events

    def _deliver(self, batch: Batch) -> None:
        self.events.extend(batch.events)
        self.rev = batch.rev

    async def _follow(self) -> None:
        while True:
            failure: asyncio.Future[StorageError] = asyncio.get_running_loop().create_future()
            try:
                self._watch = await self.backend.watch(
                    START, END, after=self.rev, deliver=self._deliver, failed=failure.set_result
                )
                raise await failure
            except Compacted:
                await self._begin_again()
            except Unavailable:
                self.broken += 1
                await asyncio.sleep(_PAUSE_S)

    async def _begin_again(self) -> None:
        """Go on in another epoch. In the same one nothing may be missing, as the others keep behind this watch."""
        while True:
            try:
                epoch = await self.backend.epoch()
                page = await self.backend.list(START, END)
                break
            except Unavailable:
                await asyncio.sleep(_PAUSE_S)
        assert epoch != self._epoch, "history was compacted that nobody has asked to compact"
        self._epoch = epoch
        now = {kv.key: kv for kv in page.kvs}
        self.gaps.append(Gap(self.rev, page.rev, {key: kv.mod_rev for key, kv in now.items()}))
        state = {key: kv.mod_rev for key, kv in self._start.items()}
        for event in self.events:
            state[event.key] = 0 if event.value is None else event.rev
        for kv in sorted(page.kvs, key=lambda kv: kv.mod_rev):
            if state.get(kv.key) != kv.mod_rev:
                self.events.append(StoreEvent(kv.mod_rev, Op.UPDATE, kv.key, kv.value, kv.create_rev))
        lost = [key for key, rev in state.items() if rev and key not in now]
        self.events.extend(StoreEvent(page.rev, Op.DELETE, key, None, 0) for key in lost)
        self.rev = page.rev


WRITERS, REFLECTORS = 4, 3
_PACE_S = 0.01
_QUIET_S = 0.1
log = logging.getLogger("oarlock.testing.faults")


def events_wanted(by_default: int = 400) -> int:
    return int(os.environ.get("OARLOCK_FAULT_EVENTS", by_default))


class Crowd:
    """Writers and reflectors on `servers`, from ``async with`` until `finish`. `seed` makes the choices repeatable.

    `watched` is the server whose watch is believed; it compacts, too, to the last `kept` events (0: never). `shown` is
    what the watches of `servers` show of an event.
    """

    def __init__(
        self,
        servers: Sequence[Backend],
        watched: Backend,
        seed: int,
        *,
        kept: int = 40,
        shown: Callable[[StoreEvent], StoreEvent] = lambda event: event,
    ) -> None:
        self.servers = servers
        self.seed = seed
        self._watched = watched
        self._kept = kept
        self._shown = shown
        self._dice = random.Random(seed)
        self._over = False
        self._tasks: list[asyncio.Task[None]] = []
        self.writers = [WritingClient(servers[n % len(servers)], f"w{n}", seed) for n in range(WRITERS)]
        self.reflectors = [Reflector(servers, seed * 10 + n) for n in range(REFLECTORS)]

    async def __aenter__(self) -> Crowd:
        page = await self._watched.list(START, END)
        self._start = {kv.key: (kv.value, kv.mod_rev) for kv in page.kvs}
        self.history = History(self._watched, page)
        await self.history.start()
        runs = [writer.run(self._ended) for writer in self.writers]
        runs += [reflector.run(self._ended) for reflector in self.reflectors]
        self._tasks = [asyncio.create_task(run) for run in (*runs, self._compact())]
        return self

    async def __aexit__(self, *unused: object) -> None:
        self._over = True
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self.history.close()

    async def events(self, count: int) -> None:
        """Wait until there have been `count` events."""
        while len(self.history.events) < count:
            self.history.check()
            for task in self._tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(_PACE_S)

    async def finish(self) -> Verdict:
        """Let the writers end and the reflectors catch up, and judge what all of them received."""
        self._over = True
        await asyncio.gather(*self._tasks)
        history = await self.history.up_to(await quiesce(self._watched))
        rev = history[-1].rev
        async with asyncio.timeout(60):
            await asyncio.gather(*(reflector.reach(rev) for reflector in self.reflectors))
        page = await self._watched.list(START, END)
        verdict = judge(self.notes, history, self._start, self._shown, self.history.gaps)
        live = {kv.key: kv.mod_rev for kv in page.kvs}
        for number, reflector in enumerate(self.reflectors):
            if reflector.state != live:
                verdict.problems.append(f"reflector {number} ends with {reflector.state}, the store has {live}")
        return verdict

    @property
    def notes(self) -> ClientRecords:
        notes = ClientRecords()
        for each in [writer.notes for writer in self.writers] + [reflector.notes for reflector in self.reflectors]:
            notes.add(each)
        return notes

    def _ended(self) -> bool:
        return self._over

    async def _compact(self) -> None:
        """Now and then forget all but the last events, nearer than a slow page may take."""
        done = 0
        while self._kept and not self._over:
            await asyncio.sleep(_PACE_S)
            events = self.history.events
            if len(events) - done > self._kept:
                done = len(events)
                try:
                    await self._watched.compact(events[-self._dice.randrange(1, self._kept // 3)].rev)
                except (Compacted, Unavailable):
                    pass


async def quiesce(backend: Backend) -> Rev:
    """The revision, once nothing has been written for a moment: writes of unknown outcome may still come."""
    before, rev = -1, await backend.current_rev()
    while before != rev:
        await asyncio.sleep(_QUIET_S)
        before, rev = rev, await backend.current_rev()
    return rev


class SharingContract(Suite):
    """M1, without processes of their own: servers on one store in one process."""

    @two_servers
    async def test_m1_four_writers_and_three_reflectors(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(self.opened(tmp_path, clock))]
            for _ in range(2):
                replica = self.replica(tmp_path, clock)
                await replica.start()
                stack.push_async_callback(replica.close)
                servers.append(replica)
            async with Crowd(servers, servers[0], seed=1) as crowd:
                await crowd.events(events_wanted())
                verdict = await crowd.finish()
                assert not verdict.problems, f"seed 1: {verdict}"
                notes = crowd.notes
                log.info("%s; %d times expired, longest call %.3f s", verdict, notes.expired, notes.longest_s)
