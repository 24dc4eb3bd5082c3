"""`MetricsExchange`: each worker's numbers in shared memory, so that ``/metrics`` of any worker sums all.

A worker writes its numbers into its own area: on request, before it answers with them itself, every few seconds,
and when it ends. An area has two halves with a checksum each, written in turn, so whoever reads one sees a whole
snapshot, even if the writer is killed or stopped in the middle. Who answers asks the others by datagram and waits a
quarter of a second at most; of one that doesn't answer, its last snapshot counts.

A new process goes on from the counters that the process before it wrote. So a sum never goes back: what was ever shown
had been written before. What a killed process counted after its last snapshot, some seconds at most, is lost.

Must not know: what is counted. See also: ``meta.metrics``, which sums.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import mmap
import os
import socket
import time
import zlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from oarlock.meta.dataclass import dataclass
from oarlock.meta.metrics import MetricFamily, ended_families, summed_families
from oarlock.net.futures import shared
from oarlock.server.metrics.page import Verdicts, write_metrics, write_verdicts
from oarlock.server.metrics.processes import WorkerProcess

HUNG_S = 3.0
"""A worker whose event loop hasn't run for this long is expected to do nothing."""

_PID, _STARTS, _CONNECTIONS, _SEEN_NS = range(4)
_CELLS = 8
_ACCEPTS_NONE = -1


class WorkerTable:
    """A row of numbers for each worker. Workers are numbered from 1."""

    def __init__(self, workers: int) -> None:
        self.workers = range(1, workers + 1)
        self._cells = memoryview(mmap.mmap(-1, max(mmap.PAGESIZE, _CELLS * 8 * (workers + 1)))).cast("q")

    # Written by the supervisor

    def begin(self, worker: int, pid: int) -> None:
        """A process has been started for `worker`."""
        self._cells[worker * _CELLS + _SEEN_NS] = 0
        self._cells[worker * _CELLS + _CONNECTIONS] = _ACCEPTS_NONE
        self._cells[worker * _CELLS + _PID] = pid
        self._cells[worker * _CELLS + _STARTS] += 1

    def end(self, worker: int) -> None:
        """The process of `worker` has ended."""
        self._cells[worker * _CELLS + _PID] = 0

    # Written by a worker

    def report(self, worker: int, connections: int) -> None:
        """`worker` runs, and has so many connections."""
        self._cells[worker * _CELLS + _CONNECTIONS] = connections
        self._cells[worker * _CELLS + _SEEN_NS] = time.monotonic_ns()

    # Read by all

    def pid(self, worker: int) -> int:
        """The process of `worker`, 0 while there is none."""
        return self._cells[worker * _CELLS + _PID]

    def restarts(self, worker: int) -> int:
        """How often the process of `worker` was replaced."""
        return max(self._cells[worker * _CELLS + _STARTS] - 1, 0)

    def responds(self, worker: int) -> bool:
        """Whether the event loop of `worker` has run lately."""
        age_ns = time.monotonic_ns() - self._cells[worker * _CELLS + _SEEN_NS]
        return self.pid(worker) != 0 and age_ns < HUNG_S * 1e9

    def least_connections(self) -> int | None:
        """The fewest connections that a worker has which accepts some and responds; None if there is no such worker."""
        counts = (self._cells[worker * _CELLS + _CONNECTIONS] for worker in self.workers if self.responds(worker))
        return min((count for count in counts if count != _ACCEPTS_NONE), default=None)


class AcceptShare:
    """The part of one worker in accepting connections from sockets that all workers share.

    A few HTTP/2 connections carry all requests of most clients. So a worker that has more than another leaves the next
    connection to that one for a moment; with many connections, small differences don't matter. One that isn't `ready`
    leaves them to those that are.
    """

    def __init__(self, table: WorkerTable, worker: int) -> None:
        self.ready = False
        self._table = table
        self._worker = worker

    def report(self, connections: int) -> None:
        """Tell the others how many connections this worker has."""
        self._table.report(self._worker, connections if self.ready else _ACCEPTS_NONE)

    def stop(self) -> None:
        """This worker accepts no more."""
        self._table.report(self._worker, _ACCEPTS_NONE)

    def is_ahead(self, connections: int) -> bool:
        """Whether another worker should have the next connection, when this one has `connections`."""
        self.report(connections)
        least = self._table.least_connections()
        return least is not None and (not self.ready or connections > least + least // 4)

    def must_wait(self) -> bool:
        """Whether this worker isn't ready while another is."""
        return not self.ready and self._table.least_connections() is not None


log = logging.getLogger("oarlock.server")

SNAPSHOT_BYTES = 8 * 1024 * 1024
"""The largest snapshot, about 40,000 series. Memory is only taken for what is written."""
ANSWER_S = 0.25
"""How long the other workers may take to write their numbers on request, in seconds."""
PUBLISH_S = 5.0
"""How often a worker writes its numbers without a request, in seconds."""

_HEADER = 4 * 8
_COUNT, _LENGTHS = 0, 1
_ASK, _ANSWER = b"?", b"!"
_MESSAGE_BYTES = 16


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """The numbers of one process at a moment, with what its predecessors counted."""

    pid: int
    families: tuple[MetricFamily, ...]
    verdicts: Verdicts
    collections: tuple[dict[str, int], ...]


class MetricsArea:
    """The shared memory of one worker's snapshots, and the sockets on which others request one."""

    def __init__(self) -> None:
        self._bytes = memoryview(mmap.mmap(-1, _HEADER + 2 * SNAPSHOT_BYTES))
        self._cells = self._bytes[:_HEADER].cast("q")
        self.inbox, self.outbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.inbox.setblocking(False)
        self.outbox.setblocking(False)

    def write(self, snapshot: bytes) -> None:
        """Replace the snapshot. Only this worker may call it, from one thread at a time."""
        half = (self._cells[_COUNT] + 1) & 1
        begin = _HEADER + half * SNAPSHOT_BYTES
        self._cells[_LENGTHS + half] = 0
        self._bytes[begin + 4 : begin + 4 + len(snapshot)] = snapshot
        self._bytes[begin : begin + 4] = zlib.crc32(snapshot).to_bytes(4)
        self._cells[_LENGTHS + half] = len(snapshot)
        self._cells[_COUNT] += 1

    def read(self) -> bytes | None:
        """The snapshot; None if there is none, or if it was replaced twice while it was read."""
        for _ in range(2):
            half = self._cells[_COUNT] & 1
            begin, length = _HEADER + half * SNAPSHOT_BYTES, self._cells[_LENGTHS + half]
            snapshot = bytes(self._bytes[begin + 4 : begin + 4 + length])
            if length and zlib.crc32(snapshot) == int.from_bytes(self._bytes[begin : begin + 4]):
                return snapshot
        return None

    def send(self, message: bytes) -> None:
        """Send to the worker. If its inbox is full it is behind anyway."""
        try:
            self.outbox.send(message)
        except OSError:
            pass


class MetricsExchange:
    """The part of one worker."""

    def __init__(self, table: WorkerTable, areas: Sequence[MetricsArea], worker: int) -> None:
        self._table = table
        self._areas = dict(zip(table.workers, areas, strict=True))
        self._worker = worker
        self._own = self._areas[worker]
        self._inherited = self._read(worker)
        self._latest: dict[int, WorkerSnapshot] = {}
        self._waiting: set[int] = set()
        self._answered = asyncio.Event()
        self._publishing = asyncio.Lock()
        self._gathering: asyncio.Task[list[WorkerSnapshot]] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._too_large = False

    def attach(self, families: Callable[[], tuple[MetricFamily, ...]], verdicts: Callable[[], Verdicts]) -> None:
        self._families, self._verdicts = families, verdicts
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._own.inbox.fileno(), self._on_message)
        self._timer = self._loop.call_later(PUBLISH_S, self._publish_again)

    async def close(self) -> None:
        """Write the last numbers, and answer no other worker any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._loop.remove_reader(self._own.inbox.fileno())
            await self._publish()

    # Pages

    async def numbers(self) -> bytes:
        own, *others = await self._gathered()
        processes = [self._process(self._worker, own), *self._other_processes()]
        processes.sort(key=lambda process: process.name)
        return await self._loop.run_in_executor(None, _numbers_text, own, others, processes)

    async def verdicts(self) -> bytes:
        every = [counts.verdicts for counts in await self._gathered()]
        return await self._loop.run_in_executor(None, write_verdicts, _summed_verdicts(every))

    def _process(self, worker: int, snapshot: WorkerSnapshot) -> WorkerProcess:
        return WorkerProcess(str(worker), snapshot.pid, self._table.restarts(worker), snapshot.collections)

    def _other_processes(self) -> list[WorkerProcess]:
        others = [
            self._process(worker, snapshot)
            for worker, snapshot in self._latest.items()
            if snapshot.pid == self._table.pid(worker)
        ]
        return [*others, WorkerProcess("supervisor", os.getppid())]

    # What the others have written

    async def _gathered(self) -> list[WorkerSnapshot]:
        """The snapshots of all workers, this one's first. Who asks while they are gathered gets the same."""
        if self._gathering is None:
            self._gathering = self._loop.create_task(self._gather())
            self._gathering.add_done_callback(self._on_gathered)
        return await shared(self._gathering)

    def _on_gathered(self, _: object) -> None:
        self._gathering = None

    async def _gather(self) -> list[WorkerSnapshot]:
        self._waiting = {area for area in self._areas if area != self._worker and self._table.responds(area)}
        self._answered.clear()
        for worker in self._waiting:
            self._areas[worker].send(_ASK + bytes([self._worker]))
        own = await self._publish()
        if self._waiting:
            try:
                async with asyncio.timeout(ANSWER_S):
                    await self._answered.wait()
            except TimeoutError:
                pass
        others = [area for area in self._areas if area != self._worker]
        found = await self._loop.run_in_executor(None, lambda: [self._read(other) for other in others])
        for worker, snapshot in zip(others, found, strict=True):
            if snapshot is not None:
                self._latest[worker] = snapshot
        return [own, *(self._as_it_counts(worker, counts) for worker, counts in self._latest.items())]

    def _as_it_counts(self, worker: int, snapshot: WorkerSnapshot) -> WorkerSnapshot:
        return snapshot if snapshot.pid == self._table.pid(worker) else _ended(snapshot)

    def _read(self, worker: int) -> WorkerSnapshot | None:
        written = self._areas[worker].read()
        return None if written is None else msgspec.msgpack.decode(written, type=WorkerSnapshot)

    def _on_message(self) -> None:
        asking: set[int] = set()
        while True:
            try:
                message = self._own.inbox.recv(_MESSAGE_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            if message[:1] == _ASK:
                asking.add(message[1])
            else:
                self._waiting.discard(message[1])
                if not self._waiting:
                    self._answered.set()
        if asking:
            self._in_background(self._answer(asking))

    async def _answer(self, asking: set[int]) -> None:
        await self._publish()
        for worker in asking:
            self._areas[worker].send(_ANSWER + bytes([self._worker]))

    # What this one writes

    def _publish_again(self) -> None:
        self._timer = self._loop.call_later(PUBLISH_S, self._publish_again)
        self._in_background(self._answer(set()))

    async def _publish(self) -> WorkerSnapshot:
        async with self._publishing:
            snapshot = self._snapshot()
            await self._loop.run_in_executor(None, self._write, snapshot)
        return snapshot

    def _snapshot(self) -> WorkerSnapshot:
        families, verdicts = self._families(), self._verdicts()
        if self._inherited is not None:
            before = _ended(self._inherited)
            families = summed_families((*families, *before.families))
            verdicts = _summed_verdicts([verdicts, before.verdicts])
        return WorkerSnapshot(os.getpid(), families, verdicts, tuple(gc.get_stats()))

    def _write(self, snapshot: WorkerSnapshot) -> None:
        written = msgspec.msgpack.encode(snapshot)
        if len(written) <= SNAPSHOT_BYTES - 4:
            self._own.write(written)
        elif not self._too_large:
            self._too_large = True
            log.error(
                "the metrics of this worker are missing in other workers' /metrics: they have %d bytes", len(written)
            )

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _ended(snapshot: WorkerSnapshot) -> WorkerSnapshot:
    """What a process that has ended leaves: its counters."""
    verdicts = {key: (True, passed, failed) for key, (_, passed, failed) in snapshot.verdicts.items()}
    return replace(snapshot, families=ended_families(snapshot.families), verdicts=verdicts)


def _summed_verdicts(every: Sequence[Verdicts]) -> Verdicts:
    """How often checks passed and failed in all processes; the last result is good if it was in each."""
    total: Verdicts = {}
    for verdicts in every:
        for check, (last, passed, failed) in verdicts.items():
            last_before, passed_before, failed_before = total.get(check, (True, 0, 0))
            total[check] = last_before and last, passed_before + passed, failed_before + failed
    return total


def _numbers_text(own: WorkerSnapshot, others: Sequence[WorkerSnapshot], processes: Sequence[WorkerProcess]) -> bytes:
    every = (family for snapshot in (own, *others) for family in snapshot.families)
    return write_metrics(summed_families(every), processes)
