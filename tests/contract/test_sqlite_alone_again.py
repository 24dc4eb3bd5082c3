"""The step in which a process declares itself alone again: only once it has published all that others committed, and
not when somebody knocks meanwhile.

What has to happen between two steps is made to: the thread that would be too quick is given something to wait for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import eventually

TURNS = 50


class Held:
    """A thread of a store that does nothing until `go_on` is set."""

    def __init__(self, run: Callable[[Callable[..., Any]], Any]) -> None:
        self._reached = threading.Event()
        self.go_on = threading.Event()
        self._task = asyncio.ensure_future(run(self._wait))

    def _wait(self, *unused: object) -> None:
        self._reached.set()
        assert self.go_on.wait(30)

    async def reached(self) -> None:
        await asyncio.to_thread(self._reached.wait, 30)


@asynccontextmanager
async def stores(path: Path, *names: str) -> AsyncIterator[list[SqliteBackend]]:
    opened = [SqliteBackend(path, VirtualClock()) for _ in names]
    for backend in opened:
        await backend.start()
    try:
        yield opened
    finally:
        for backend in opened:
            await backend.close()


async def stays_unknown(backend: SqliteBackend) -> None:
    for _ in range(TURNS):
        assert backend.known_rev() is None
        await asyncio.sleep(0.002)


def test_not_before_what_others_committed_is_published(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stores(tmp_path / "store.db", "first", "second") as (first, second):
            tail = Held(first._tail_reader.run)
            await tail.reached()
            rev = (await second.put("/t/a", b"", expect=0)).rev
            await second.close()
            await eventually(lambda: first._files.membership.alone, "it never gets the lock for itself")
            assert first._feed.last < rev
            await stays_unknown(first)
            tail.go_on.set()
            await eventually(lambda: first.known_rev() == rev, "it never says that it is alone")

    asyncio.run(scenario())


def test_not_when_somebody_has_knocked_meanwhile(tmp_path: Path) -> None:
    """Whoever knocked will be let in by the writer thread, which is busy; then it may commit at any moment."""

    async def scenario() -> None:
        async with stores(tmp_path / "store.db", "first", "second") as (first, second):
            tail = Held(first._tail_reader.run)
            await tail.reached()
            rev = (await second.put("/t/a", b"", expect=0)).rev
            await second.close()
            await eventually(lambda: first._files.membership.alone, "it never gets the lock for itself")
            writer = Held(first._writer.between)
            await writer.reached()
            third = SqliteBackend(tmp_path / "store.db", VirtualClock(), join_timeout_s=30)
            joins = first._joins
            starting = asyncio.ensure_future(third.start())
            await eventually(lambda: first._joins > joins, "nobody hears the knocking")
            tail.go_on.set()
            await eventually(lambda: first._feed.last >= rev, "it never catches up")
            assert first._files.membership.alone, "the lock isn't shared yet: only the knocking tells"
            await stays_unknown(first)
            writer.go_on.set()
            await starting
            new = (await third.put("/t/b", b"", expect=0)).rev
            assert first.known_rev() is None
            assert await first.current_rev() == new
            await third.close()
            await eventually(lambda: first.known_rev() == new, "it never says that it is alone")

    asyncio.run(scenario())
