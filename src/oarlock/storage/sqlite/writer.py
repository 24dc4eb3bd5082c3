"""The one thread of this process that writes: group commit, checkpoints, and the locks between processes.

    queue → batch → commit lock → BEGIN IMMEDIATE → current state → plan → rows → COMMIT → unlock → one wake-up

Writes that arrive during a commit form the next batch, which shares the cost of one commit. One wake-up of the loop
carries events and results together; the loop publishes the events first, then resolves the results.

Must not know: watches, reads, keys' meaning. See also: `sql.commits`, `locks`, and `backend` for the loop's side.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

import apsw

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import Event, OutcomeUnknown, Rev, StorageError, Unavailable, WriteResult
from oarlock.storage.sql.commits import write_batch
from oarlock.storage.sql.errors import StoreBroken
from oarlock.storage.sql.plan import QueuedWrite
from oarlock.storage.sql.reads import log_after
from oarlock.storage.sql.statements import Steps
from oarlock.storage.sqlite.dialect import SQLITE
from oarlock.storage.sqlite.errors import translate
from oarlock.storage.sqlite.files import Files
from oarlock.storage.sqlite.steps import run, run_in_snapshot
from oarlock.storage.sqlite.threads import post

__all__ = ["BatchResult", "Writer"]

T = TypeVar("T")

_BATCH_WRITES = 256
_BATCH_BYTES = 8 * 1024 * 1024

_IDLE_S = 0.25
"""Nothing to write for so long: a good moment for a checkpoint."""

_CHECKPOINT_PAGES = 4_000
"""Checkpoint under load above this (16 MiB): rare enough not to be felt, often enough to bound the file."""

_TRUNCATE_PAGES = 16_000
"""A reader has kept the write-ahead log from being reused: wait for it."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch: results in order, or one error for all; events complete above `floor` up to `rev`."""

    writes: Sequence[QueuedWrite]
    results: Sequence[WriteResult] = ()
    error: StorageError | None = None
    floor: Rev = 0
    events: Sequence[Event] = ()
    rev: Rev = 0


@dataclass(frozen=True, slots=True)
class _Job:
    run: Callable[[], Any]
    future: asyncio.Future[Any]


class Writer:
    """The writer thread.

    `report` is called on the loop with every `BatchResult`; `published` returns the revision the loop has published.
    """

    def __init__(
        self, files: Files, clock: Clock, report: Callable[[BatchResult], None], published: Callable[[], Rev]
    ) -> None:
        self._files: Final = files
        self._clock: Final = clock
        self._connection: Final = files.connection
        self._report: Final = report
        self._published: Final = published
        self._loop: Final = asyncio.get_running_loop()
        self._queue: SimpleQueue[QueuedWrite | _Job | None] = SimpleQueue()
        self._claim = threading.Lock()
        self._pending: list[QueuedWrite] = []
        self._pending_since = 0.0
        self._posted_rev: Rev = published()
        self._wal_pages = 0
        self._stopped: Final = asyncio.Event()
        self._closed = False
        self.broken: StorageError | None = None
        self._connection.set_wal_hook(self._wal_grew)
        threading.Thread(target=self._run, name="oarlock store: writer", daemon=True).start()

    # On the loop

    def submit(self, write: QueuedWrite) -> None:
        if self._closed:
            raise Unavailable("the store is closed")
        if self.broken is not None:
            raise Unavailable(str(self.broken), 30.0)
        self._queue.put(write)

    async def run(self, steps: Steps[T]) -> T:
        """Run `steps` between two batches, in a transaction of its own under the commit lock."""
        return await self.between(partial(self._transact, steps))

    async def between(self, job: Callable[[], T]) -> T:
        """Run `job` between two batches, in the writer thread."""
        if self._closed:
            raise Unavailable("the store is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Job(job, future))
        return await future

    def give_up_waiting(self, after_s: float) -> None:
        """Fail the writes that have waited longer than `after_s` seconds for another process to finish its commit."""
        if self._pending and time.monotonic() - self._pending_since >= after_s:
            self.abandon(f"another process has held the commit lock of {self._files.path} for {after_s:g} s")

    def abandon(self, why: str) -> None:
        """Fail every write that hasn't begun; none of them will be executed."""
        with self._claim:
            writes, self._pending = self._pending, []
        jobs = []
        try:
            while True:
                item = self._queue.get_nowait()
                if isinstance(item, QueuedWrite):
                    writes.append(item)
                else:
                    jobs.append(item)
        except Empty:
            pass
        for job in jobs:
            self._queue.put(job)
        self._report(BatchResult(writes, error=Unavailable(f"{why}: see if that process is stopped")))

    async def close(self) -> None:
        """Execute what was submitted, checkpoint, and end the thread. The caller closes the files."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await self._stopped.wait()

    # In the thread

    def _run(self) -> None:
        job: _Job | None = None
        while True:
            batch, job = self._next()
            if batch:
                self._commit(batch)
            if self._wal_pages >= _CHECKPOINT_PAGES:
                self._checkpoint()
            if job is not None:
                self._do(job)
            elif not batch:
                break
        self._checkpoint()
        post(self._loop, self._stopped.set)

    def _next(self) -> tuple[list[QueuedWrite], _Job | None]:
        """What to commit together, and a job to run after it; both empty at the end."""
        try:
            item = self._queue.get(timeout=_IDLE_S if self._wal_pages else None)
        except Empty:
            self._checkpoint()
            item = self._queue.get()
        if not isinstance(item, QueuedWrite):
            return [], item
        batch = [item]
        return batch, self._fill(batch)

    def _fill(self, batch: list[QueuedWrite]) -> _Job | None:
        size = sum(len(write.value or b"") for write in batch)
        try:
            while len(batch) < _BATCH_WRITES and size < _BATCH_BYTES:
                item = self._queue.get_nowait()
                if not isinstance(item, QueuedWrite):
                    if item is None:
                        self._queue.put(None)
                    return item
                batch.append(item)
                size += len(item.value or b"")
        except Empty:
            pass
        return None

    def _commit(self, batch: list[QueuedWrite]) -> None:
        try:
            self._must_be_able()
            self._pending_since = time.monotonic()
            self._pending = batch
            with self._files.commit_lock.held():
                with self._claim:
                    writes, self._pending = self._pending, []
                if not writes:
                    return
                batch_result = self._transaction(writes)
            if batch_result.events and (base := max(self._posted_rev, self._published())) < batch_result.floor:
                batch_result = self._with_others(batch_result, base)
        except Exception as error:
            self._pending = []
            batch_result = BatchResult(batch, error=self._translate(error))
        if batch_result.rev:
            self._posted_rev = max(self._posted_rev, batch_result.rev)
        post(self._loop, self._report, batch_result)
        if batch_result.events and not self._files.membership.alone:
            self._files.peers.send(b"r")

    def _must_be_able(self) -> None:
        """Raise the reason why this process can't commit, if there is one."""
        if self.broken is not None:
            raise self.broken
        if self._files.presence.problem:
            self._files.presence.ensure_now()
        self._files.membership.ensure()

    def _transaction(self, writes: list[QueuedWrite]) -> BatchResult:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        committing = False
        try:
            batch_plan = run(connection, write_batch(SQLITE, writes, int(self._clock.now() * 1000)))
            if not batch_plan.events:
                connection.execute("ROLLBACK")
                return BatchResult(writes, batch_plan.results)
            committing = True
            connection.execute("COMMIT")
        except Exception as error:
            translated = self._translate(error)
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if committing and isinstance(translated, StoreBroken):
                # The commit may be on the disk although SQLite was told it isn't.
                raise OutcomeUnknown(str(translated), translated.retry_after_s) from error
            raise translated from error
        return BatchResult(writes, batch_plan.results, None, batch_plan.floor, batch_plan.events, batch_plan.rev)

    def _with_others(self, batch_result: BatchResult, base: Rev) -> BatchResult:
        """The result, preceded by what other processes committed since `base`: the loop publishes without a gap."""
        count = batch_result.floor - base
        try:
            log_range = run_in_snapshot(self._connection, log_after(SQLITE, base, count))
        except Exception as error:
            # The writes are durable and must be acknowledged; the feed sees the gap and ends the watches.
            self._translate(error)
            return batch_result
        floor = min(log_range.floor, batch_result.floor)
        others = [event for event in log_range.events if event.rev <= batch_result.floor]
        return BatchResult(
            batch_result.writes, batch_result.results, None, floor, [*others, *batch_result.events], batch_result.rev
        )

    def _transact(self, steps: Steps[T]) -> T:
        self._must_be_able()
        with self._files.commit_lock.held():
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = run(connection, steps)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        return result

    def _do(self, job: _Job) -> None:
        try:
            result, error = job.run(), None
        except Exception as raised:
            result, error = None, self._translate(raised)
        post(self._loop, _settle, job.future, result, error)

    def _checkpoint(self) -> None:
        """Checkpoint the write-ahead log into the file. A failure loses nothing: the data stays in the log."""
        pages, self._wal_pages = self._wal_pages, 0
        if self.broken is not None or self._files.presence.problem or not pages:
            return
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if pages >= _TRUNCATE_PAGES else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            with self._files.commit_lock.held():
                if self._files.is_ours():
                    self._connection.wal_checkpoint(mode=mode)
        except Exception as error:
            self._translate(error)

    def _wal_grew(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _translate(self, error: Exception) -> StorageError:
        translated = translate(error, str(self._files.path), self._connection)
        if isinstance(translated, StoreBroken):
            self.broken = translated
        return translated


def _settle(future: asyncio.Future[Any], result: object, error: StorageError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
