"""`WorkerTable`: what the workers of one server and their supervisor know of one another, in shared memory.

Made before the workers are forked. Each number has one writer, so nothing is locked: a reader sees the old one or the
new. See also: `supervisor`, which writes who is alive; `exchange`, for what is larger than a number.
"""

from __future__ import annotations

import mmap
import time

__all__ = ["AcceptShare", "WorkerTable"]

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
