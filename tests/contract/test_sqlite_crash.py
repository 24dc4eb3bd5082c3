"""W4 and M1: writers are killed at random, many times; nothing acknowledged is lost and the store stays sound."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import oarlock
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import END, START, fold

WORKER = Path(__file__).with_name("sqlite_worker.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(oarlock.__path__[0]).parent)}

KILLS = 54
WRITERS = 3
CLIENTS = 4
HISTORY_KEPT = 5_000


class Writer:
    """A process that writes until it is killed, and what it said was acknowledged."""

    def __init__(self, path: Path, name: str) -> None:
        self.acknowledged: list[Any] = []
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), "writers", str(path), name, str(CLIENTS)],
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                self.acknowledged.append(json.loads(line))

    def kill(self) -> list[Any]:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._listener.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.acknowledged


async def look(path: Path, acknowledged: dict[str, tuple[str, int]]) -> int:
    """Open the store the writers left, check it against what they were promised, and forget some history."""
    backend = SqliteBackend(path, VirtualClock())
    await backend.start()
    try:
        assert await backend.check() == []
        page = await backend.list(START, END)
        live = {kv.key: (kv.value.decode(), kv.mod_rev) for kv in page.kvs}
        for key, (value, rev) in acknowledged.items():
            there = live.get(key)
            assert there is not None, f"{key} at {rev} was acknowledged and is lost"
            # The next write of the same key may have been carried out without having been acknowledged.
            assert there == (value, rev) or (there[0] == "second" and there[1] > rev), f"{key}: {there}, not {rev}"
        compacted = await backend.compact_rev()
        if compacted:
            past = await backend.list(START, END, rev=compacted)
            state = {kv.key: (kv.value, kv.mod_rev) for kv in past.kvs}
            events: list[Any] = []
            await backend.watch(
                START,
                END,
                after=compacted,
                deliver=lambda batch: events.extend(batch.events),
                failed=lambda error: events.append(error),
            )
            assert fold(state, events) == {kv.key: (kv.value, kv.mod_rev) for kv in page.kvs}
        if page.rev - compacted > HISTORY_KEPT:
            await backend.compact(page.rev - HISTORY_KEPT // 2)
        return page.rev
    finally:
        await backend.close()


def said(writers: list[Writer]) -> int:
    return sum(len(writer.acknowledged) for writer in writers)


def until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not true():
        assert time.monotonic() < give_up, "nobody writes any more"
        time.sleep(0.002)


@pytest.mark.slow
def test_no_acknowledged_write_is_lost_when_writers_are_killed(tmp_path: Path) -> None:
    dice = random.Random(20_240)
    path = tmp_path / "store.db"
    acknowledged: dict[str, tuple[str, int]] = {}
    writers = [Writer(path, f"w{number}") for number in range(WRITERS)]
    started = len(writers)
    revs: dict[int, str] = {}
    try:
        for kill in range(1, KILLS + 1):
            more = said(writers) + dice.randrange(10, 60)
            until(lambda more=more: said(writers) >= more)
            # Every ninth time all die at once: nobody is left who could have finished anything for anybody.
            victims = list(writers) if kill % 9 == 0 else [dice.choice(writers)]
            for victim in victims:
                for key, value, rev in victim.kill():
                    acknowledged[key] = (value, rev)
                    assert revs.setdefault(rev, key) == key, f"revision {rev} was given twice"
                writers.remove(victim)
            if kill % 9 == 0:
                last = asyncio.run(look(path, acknowledged))
                assert last >= max(revs, default=0)
            for _ in victims:
                writers.append(Writer(path, f"w{started}"))
                started += 1
    finally:
        for writer in writers:
            for key, value, rev in writer.kill():
                acknowledged[key] = (value, rev)
    asyncio.run(look(path, acknowledged))
    assert len(acknowledged) > 10 * KILLS / 2, "each key is acknowledged twice"
