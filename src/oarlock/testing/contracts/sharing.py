"""Several servers on one store: four writers and three reflectors, while history is compacted.

    class TestMine(SharingContract):
        def backend(self, folder, clock): ...
        def replica(self, folder, clock): ...

``OARLOCK_FAULT_EVENTS`` is how many events there shall be, a few hundred unless it is set.

Must not know: any particular backend. See also: `clients`, `claims`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from oarlock.storage.backend import Backend, Compacted, Rev, StoreEvent, Unavailable
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.claims import ClientRecords, Verdict, judge
from oarlock.testing.contracts.clients import History, Reflector, WritingClient
from oarlock.testing.contracts.support import END, START, Suite, two_servers

__all__ = ["Crowd", "SharingContract", "events_wanted", "quiesce"]

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
        """Let the writers end and the reflectors catch up, and judge what all of them were told."""
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
    def test_m1_four_writers_and_three_reflectors(self, tmp_path: Path) -> None:
        async def scenario() -> None:
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

        asyncio.run(scenario())
