"""A server is suspended while it has the lock of the store: others are told in time, and soon the lock is free."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from server_process import environment

from oarlock.storage.backend import Backend, Unavailable
from oarlock.testing.contracts.support import END, START, eventually
from stores import Store, store_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WORKER = Path(__file__).with_name("store_worker.py")
SEED = int(os.environ.get("OARLOCK_FAULT_SEED", 41))
ATTEMPTS = 60
HELD_S = 1.0
"""A write takes some milliseconds: one that takes so long waits for the lock."""
FREE_S = 25.0
"""Within this time the database has ended the transaction of who doesn't go on with it."""

log = logging.getLogger("oarlock.testing.faults")


class WorkingProcess:
    """The worker, and what it was told is written, by key."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.acknowledged: dict[str, int] = {}

    async def listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            key, rev = line.decode().split()
            self.acknowledged[key] = int(rev)

    async def more(self, count: int) -> None:
        wanted = len(self.acknowledged) + count
        await eventually(lambda: len(self.acknowledged) >= wanted, "the worker writes no more")


@asynccontextmanager
async def working(store: Store) -> AsyncIterator[WorkingProcess]:
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(WORKER.parents[1] / "support")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), store.url, "worker", stdout=asyncio.subprocess.PIPE, env=env
    )
    worker = WorkingProcess(process)
    listening = asyncio.create_task(worker.listen())
    try:
        yield worker
    finally:
        process.kill()
        await process.wait()
        await listening


async def suspended_with_the_lock(worker: WorkingProcess, backend: Backend) -> asyncio.Task[object] | None:
    """Suspend the worker until a write of another waits for it; that write, or None if it was finished in time."""
    os.kill(worker.process.pid, signal.SIGSTOP)
    write = asyncio.create_task(backend.put(f"{START}mine-{time.monotonic()}", b"", expect=0))
    await asyncio.wait((write,), timeout=HELD_S)
    if not write.done():
        return write
    assert write.result().ok
    os.kill(worker.process.pid, signal.SIGCONT)
    return None


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
async def test_others_are_told_in_time_and_soon_the_lock_is_free(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = store_of(kind, request, tmp_path)
    dice = random.Random(SEED)
    backend = store.open()
    await backend.start()
    async with working(store) as worker:
        await worker.more(10)
        waiting = None
        for _ in range(ATTEMPTS):
            await asyncio.sleep(dice.random() / 50)
            began = time.monotonic()
            if (waiting := await suspended_with_the_lock(worker, backend)) is not None:
                break
        assert waiting is not None, f"seed {SEED}: it never had the lock"
        read_began = time.monotonic()
        await backend.list(START, END, limit=1)
        assert time.monotonic() - read_began < HELD_S, "who only reads needs no lock"
        errors = 0
        while True:
            try:
                await waiting
                break
            except Unavailable:
                errors += 1
            assert time.monotonic() - began < FREE_S, "the lock is never free"
            waiting = asyncio.ensure_future(backend.put(f"{START}mine-{time.monotonic()}", b"", expect=0))
        free_s = time.monotonic() - began
        os.kill(worker.process.pid, signal.SIGCONT)
        await worker.more(50)
    log.info("%s: %d errors, the lock was free after %.1f s", kind, errors, free_s)
    page = await backend.list(START, END)
    live = {kv.key: kv.mod_rev for kv in page.kvs}
    assert {key: live.get(key) for key in worker.acknowledged} == worker.acknowledged
    assert await backend.check() == []
    await backend.close()
