"""Several processes on one SQLite file: reads stay linearizable (R4), one of them may die or hang (M1)."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import oarlock
from oarlock.storage.backend import Unavailable
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import END, START, Recorder, eventually, refused

WORKER = Path(__file__).with_name("sqlite_worker.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(oarlock.__path__[0]).parent)}


class Worker:
    """A process with a store, which does what it is told."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), "commands", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
        )

    def tell(self, *command: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the worker has died"
        return json.loads(line)

    def ask(self, *command: object) -> Any:
        self.tell(*command)
        return self.hear()

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[[], Worker]]:
    workers: list[Worker] = []

    def start() -> Worker:
        workers.append(Worker(tmp_path / "store.db"))
        return workers[-1]

    yield start
    for each in workers:
        each.end()


def knows(worker: Worker) -> bool:
    return worker.ask("known") is not None


def until(true: Callable[[], bool], why: str) -> None:
    give_up = time.monotonic() + 10
    while not true():
        assert time.monotonic() < give_up, why
        time.sleep(0.005)


def no_read_is_older_than_what_was_seen_before(done: list[tuple[str, float, float, int]]) -> None:
    """Linearizability of a counter: an operation that begins after another has ended sees at least its revision.

    A put's revision must be larger than any seen before it began.
    """
    ended = sorted(done, key=lambda op: op[2])
    seen, at, by = 0, 0, None
    for what, begun, _, rev in sorted(done, key=lambda op: op[1]):
        while at < len(ended) and ended[at][2] < begun:
            if ended[at][3] > seen:
                seen, by = ended[at][3], ended[at]
            at += 1
        assert rev > seen if what == "put" else rev >= seen, f"{what} at {begun} answered {rev} after {by}"


class History:
    """A process that reads and writes at random, and what it did and was answered."""

    def __init__(self, path: Path, seed: int, lives: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), "history", str(path), str(seed), str(lives), "500"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
        )
        assert self.process.stdout is not None
        self.known = json.loads(self.process.stdout.readline())

    def done(self) -> list[tuple[str, float, float, int]]:
        """End the first life, and wait for the others."""
        output, _ = self.process.communicate(b"go on\n", timeout=60)
        assert self.process.returncode == 0
        return [tuple(op) for op in self.known] + [tuple(op) for line in output.splitlines() for op in json.loads(line)]


@pytest.mark.parametrize(("processes", "lives"), [(2, 10), (4, 6)])
def test_r4_reads_are_linearizable_while_processes_come_and_go(tmp_path: Path, processes: int, lives: int) -> None:
    """The first is alone until the second has begun, whose first life lasts until the third has begun, and so on."""
    path = tmp_path / "store.db"
    running = [History(path, seed, lives) for seed in range(processes)]
    with ThreadPoolExecutor(processes) as pool:
        done = [op for ops in pool.map(History.done, running) for op in ops]
    puts = [op[3] for op in done if op[0] == "put"]
    assert len(puts) == len(set(puts)) > 50
    assert [bool(process.known) for process in running] == [True] + [False] * (processes - 1)
    no_read_is_older_than_what_was_seen_before(done)


def test_r4_whoever_is_alone_stops_being_so_before_another_writes(worker: Callable[[], Worker]) -> None:
    for _ in range(2):
        alone, other = worker(), worker()
        assert alone.ask("start") is not None
        assert other.ask("start") is None, "two processes believe to be alone"
        assert alone.ask("known") is None
        for key in "abcdefgh":
            _, rev = other.ask("put", START + key + str(time.monotonic()), 0)
            assert alone.ask("current") >= rev
            assert alone.ask("known") is None
        other.ask("close")
        until(partial(knows, alone), "the last one doesn't notice that it is alone")
        assert alone.ask("known") >= rev
        alone.ask("close")


def test_m1_a_dead_holder_frees_the_store(worker: Callable[[], Worker]) -> None:
    dead = worker()
    dead.ask("start")
    _, rev = dead.ask("put", "/t/a", 0)
    dead.signal(signal.SIGKILL)
    dead.process.wait()
    heir = worker()
    assert heir.ask("start") == rev, "the store of a dead process must be free at once"
    assert heir.ask("put", "/t/b", 0) == [True, rev + 1]
    assert heir.ask("check") == []


def test_m1_a_dead_neighbour_is_noticed(worker: Callable[[], Worker]) -> None:
    first, second = worker(), worker()
    first.ask("start")
    second.ask("start")
    _, rev = second.ask("put", "/t/a", 0)
    assert first.ask("known") is None
    second.signal(signal.SIGKILL)
    second.process.wait()
    until(partial(knows, first), "a dead neighbour is never forgotten")
    assert first.ask("known") == rev


def test_m1_a_holder_that_hangs_is_named(worker: Callable[[], Worker]) -> None:
    stopped, joiner = worker(), worker()
    stopped.ask("start")
    stopped.ask("put", "/t/a", 0)
    stopped.signal(signal.SIGSTOP)
    refusal = joiner.ask("start")
    assert f"(pid {stopped.process.pid})" in refusal["Unavailable"]
    assert "does not answer" in refusal["Unavailable"]
    stopped.signal(signal.SIGCONT)
    assert worker().ask("start") is None, "it answers again"


def test_m1_a_commit_lock_that_is_never_freed(tmp_path: Path, worker: Callable[[], Worker]) -> None:
    """Writes wait, then fail with one line; reads and watches go on; when the lock is free so are the writes."""

    async def scenario() -> None:
        neighbour = worker()
        neighbour.ask("start")
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock(), lock_timeout_s=0.2)
        await backend.start()
        seen = Recorder(await backend.current_rev())
        await backend.watch(START, END, after=seen.rev, deliver=seen.deliver, failed=seen.failed)
        _, rev = neighbour.ask("put", "/t/a", 0)
        await seen.until(rev)
        with (tmp_path / "store.db.d" / "commit.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            results = await asyncio.gather(
                refused(backend.put("/t/b", b"", expect=0), Unavailable),
                refused(backend.put("/t/c", b"", expect=0), Unavailable),
            )
            assert "held the commit lock" in str(results[0])
            assert (await backend.get("/t/a"))[0] is not None
            assert await backend.current_rev() == rev
        result = await backend.put("/t/b", b"", expect=0)
        assert (result.ok, result.rev) == (True, rev + 1), "a write that was given up was carried out"
        assert [event.rev for event in seen.events] == [rev, rev + 1]
        await backend.close()

    asyncio.run(scenario())


def test_m1_a_store_can_be_closed_while_another_process_hangs(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock(), lock_timeout_s=0.1)
        await backend.start()
        with (tmp_path / "store.db.d" / "commit.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            writes = [asyncio.create_task(backend.put(f"/t/{i}", b"", expect=0)) for i in range(3)]
            await asyncio.sleep(0)
            await backend.close()
            for write in writes:
                assert "closed while another process" in str(await refused(write, Unavailable))
        await eventually(lambda: list((tmp_path / "store.db.d").glob("*.sock")) == [], "a socket is left")

    asyncio.run(scenario())


def test_events_of_others_arrive_without_being_asked_for(worker: Callable[[], Worker]) -> None:
    writer, watcher = worker(), worker()
    after = writer.ask("start")
    watcher.ask("start")
    watcher.ask("watch", after)
    rev = writer.ask("fill", 600, 10)
    assert watcher.ask("events") == list(range(after + 1, rev + 1))
    own = watcher.ask("put", "/t/own", 0)[1]
    assert watcher.ask("events")[-1] == own == rev + 1


def test_the_store_can_be_compacted_beside_a_server(tmp_path: Path, worker: Callable[[], Worker]) -> None:
    server, operator = worker(), worker()
    server.ask("start")
    rev = server.ask("fill", 100, 10)
    operator.ask("start")
    assert operator.ask("compact", rev - 10) == rev - 10
    operator.ask("close")
    assert "Compacted" in server.ask("compact", rev - 20)
    assert server.ask("count") == 100
    assert server.ask("check") == []


def test_sockets_of_the_dead_are_removed(tmp_path: Path, worker: Callable[[], Worker]) -> None:
    for _ in range(3):
        dead = worker()
        dead.ask("start")
        dead.signal(signal.SIGKILL)
        dead.process.wait()
    survivor = worker()
    survivor.ask("start")
    assert len(list((tmp_path / "store.db.d").glob("*.sock"))) == 1
    survivor.ask("close")
    assert list((tmp_path / "store.db.d").glob("*.sock")) == []


def test_a_lost_hint_only_costs_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = SqliteBackend(tmp_path / "store.db", VirtualClock())
        second = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await first.start()
        await second.start()
        seen = Recorder(await second.current_rev())
        await second.watch(START, END, after=seen.rev, deliver=seen.deliver, failed=seen.failed)
        # Whoever has no socket gets no hints.
        for socket in (tmp_path / "store.db.d").glob("*.sock"):
            socket.unlink()
        rev = (await first.put("/t/a", b"", expect=0)).rev
        await eventually(lambda: seen.rev >= rev, "nobody looked")
        await second.close()
        await first.close()

    asyncio.run(scenario())
