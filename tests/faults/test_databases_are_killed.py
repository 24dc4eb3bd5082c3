"""The database is killed, suspended or away under load: its clients are told nothing wrong, and go on by themselves."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from served_crowd import crowd_at_servers, more
from server_process import ServerProcess
from thoroughness import rounds

from oarlock.testing.contracts.clients import Crowd
from stores import Store

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]

KILLS = int(os.environ.get("OARLOCK_FAULT_KILLS", rounds(2, 1)))
SUSPENSIONS = int(os.environ.get("OARLOCK_FAULT_PAUSES", 1))
SUSPENSION_S = float(os.environ.get("OARLOCK_FAULT_PAUSE_S", 2))
SEED = int(os.environ.get("OARLOCK_FAULT_SEED", 23))
DEADLINE_S = 35.0
"""Longer than any deadline of a backend."""

log = logging.getLogger("oarlock.testing.faults")


@asynccontextmanager
async def crowd_at_backends(store: Store) -> AsyncIterator[Crowd]:
    """Three backends as three servers have them, and a fourth to compare with."""
    async with AsyncExitStack() as stack:
        backends = [store.open() for _ in range(4)]
        for backend in backends:
            await backend.start()
            stack.push_async_callback(backend.close)
        async with Crowd(backends[1:], backends[0], SEED, kept=300) as crowd:
            yield crowd


async def kill_and_start(store: Store, away_s: float) -> None:
    """A crash of the database. It is started from this thread, with which it would end, and awaited beside it."""
    database = store.database
    assert database is not None
    database.kill()
    await asyncio.sleep(away_s)
    database.launch()
    await asyncio.to_thread(database.wait_until_ready)


async def judged(crowd: Crowd, what: str, slowest: float) -> None:
    verdict = await crowd.finish()
    notes = crowd.notes
    log.info("%s: %s; %d times resumed, %d times expired", what, verdict, notes.broken, notes.expired)
    log.info("longest call %.2f s, 10 events again within %.2f s", notes.longest_s, slowest)
    assert not verdict.problems, f"seed {SEED}: {verdict}"
    assert notes.longest_s < DEADLINE_S


async def test_a_database_is_killed_and_started_again(database_store: Store) -> None:
    dice = random.Random(SEED)
    slowest = 0.0
    async with crowd_at_backends(database_store) as crowd:
        for _ in range(KILLS):
            await more(crowd, dice.randrange(30, 200))
            await kill_and_start(database_store, dice.choice((0.0, 0.0, 0.5)))
            slowest = max(slowest, await more(crowd, 10))
        await judged(crowd, f"{KILLS} kills", slowest)


async def test_a_database_is_suspended(database_store: Store) -> None:
    """Connections stay open and nothing answers: whoever waits is told in time, and nothing is lost or done twice."""
    database = database_store.database
    assert database is not None
    slowest = 0.0
    async with crowd_at_backends(database_store) as crowd:
        for _ in range(SUSPENSIONS):
            await more(crowd, 50)
            database.suspend()
            try:
                await asyncio.sleep(SUSPENSION_S)
            finally:
                database.resume()
            slowest = max(slowest, await more(crowd, 10))
        await judged(crowd, f"{SUSPENSIONS} times {SUSPENSION_S:g} s", slowest)


async def test_servers_outlive_their_database(database_store: Store, tmp_path: Path) -> None:
    """Clients of the API get an error or an answer, watches go on or end, and soon all is as before."""
    dice = random.Random(SEED)
    slowest = 0.0
    async with crowd_at_servers(database_store, tmp_path, SEED) as (servers, crowd):
        pids = [server.pid for server in servers]
        for _ in range(KILLS):
            await more(crowd, dice.randrange(30, 100))
            await kill_and_start(database_store, dice.choice((0.0, 0.5)))
            slowest = max(slowest, await more(crowd, 10))
        await judged(crowd, f"{KILLS} kills", slowest)
        assert [server.pid for server in servers if _runs(server)] == pids


def _runs(server: ServerProcess) -> bool:
    return Path(f"/proc/{server.pid}").exists()
