"""`Writer`: group commit on the event loop, or in a thread while other processes may write.

    alone:      write → waiting → (one turn of the loop) → BEGIN … COMMIT → fdatasync by the kernel → report → the next
    otherwise:  write → the thread's queue → … → report

Alone, nobody can hold the lock, so the loop commits a batch itself in well under a millisecond; what takes time is the
disk, and the kernel waits for that (`disk_sync`). What may take long or wait for others (checkpoints, compaction,
joining processes) are jobs of the thread. The connection belongs to one of the two at a time.

While the loop commits, SQLite leaves the sync to us (``synchronous=NORMAL``): nothing is published or acknowledged
before the log has been synced, and checkpoints sync as always.

Must not know: watches, reads, keys' meaning. See also: `batches`, `writer_thread`, and `backend`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from errno import EIO
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from oarlock.storage.backend import Rev, StorageError, Unavailable
from oarlock.storage.sql.dialect import QueuedWrite, StatementSteps
from oarlock.storage.sqlite.batches import Batches, BatchResult
from oarlock.storage.sqlite.disk_sync import DiskSync
from oarlock.storage.sqlite.files import Files
from oarlock.storage.sqlite.writer_thread import Job, WriterThread

__all__ = ["Writer"]

T = TypeVar("T")

_BATCH_WRITES = 64
_BATCH_BYTES = 1024 * 1024
"""How much the loop commits in one turn: a few milliseconds of its time."""

_IDLE_S = 0.25
"""Nothing written for so long: a good moment for a checkpoint."""

_CHECKPOINT_PAGES = 4_000
"""Checkpoint under load above this (16 MiB): rare enough not to be felt, often enough to bound the file."""

_BUSY_MS = 5_000
"""How long the thread waits for another program that holds the file."""


class Writer:
    """`report` is called on the loop with every `BatchResult`; `published` returns the revision it has published.

    `alone` says whether the loop may commit: no other process can write, and what others wrote is published.
    `log_path` is the file to sync for commits on the loop; None: the thread commits always.
    `lost` is the error of a sync that failed: the file has a commit that may never be durable.
    """

    def __init__(
        self,
        files: Files,
        batches: Batches,
        report: Callable[[BatchResult], None],
        published: Callable[[], Rev],
        alone: Callable[[], bool],
        log_path: Path | None,
    ) -> None:
        self.lost: StorageError | None = None
        self._files: Final = files
        self._alone: Final = alone
        self._report: Final = report
        self._batches: Final = batches
        self._thread: Final = WriterThread(files, batches, self._on_report, self._on_job, published)
        self._loop: Final = asyncio.get_running_loop()
        self._waiting: deque[QueuedWrite] = deque()
        self._jobs: deque[Job] = deque()
        self._last: QueuedWrite | Job | None = None  # what was put into the thread last, until it is known to be done
        self._on_loop = False  # whose the connection is
        self._scheduled = False
        self._unsynced: BatchResult | None = None
        self._drained: asyncio.Future[None] | None = None
        self._closed = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._wrote = False
        self._sync: DiskSync | None = None
        if log_path is not None:
            # Where the kernel or the file system can't, the thread commits.
            with suppress(OSError):
                self._sync = DiskSync(log_path, self._on_synced)

    @property
    def unsynced(self) -> bool:
        """Whether the file has a commit that isn't durable: it must not be read yet, or never if the sync failed."""
        return self._unsynced is not None or self.lost is not None

    def submit(self, write: QueuedWrite) -> None:
        if self._closed:
            raise Unavailable("the store is closed")
        if self._batches.broken is not None:
            raise Unavailable(str(self._batches.broken), 30.0)
        self._waiting.append(write)
        self._schedule()

    async def run(self, steps: StatementSteps[T]) -> T:
        """Run `steps` between two batches, in a transaction of its own under the commit lock."""
        return await self.between(partial(self._batches.transact, steps))

    async def between(self, job: Callable[[], T]) -> T:
        """Run `job` between two batches, in the writer thread."""
        if self._closed:
            raise Unavailable("the store is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append(Job(job, future))
        self._schedule()
        return await future

    def give_up_waiting(self, after_s: float) -> None:
        """Fail the writes that have waited longer than `after_s` seconds for another process to finish its commit."""
        self._thread.give_up_waiting(after_s)

    def abandon(self, why: str) -> None:
        """Fail every write that hasn't begun; none of them will be executed."""
        self._release()
        self._put_all(self._waiting)
        self._thread.abandon(why)

    async def close(self) -> None:
        """Execute what was submitted, checkpoint, and end the thread. The caller closes the files."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._schedule()
        self._drained = self._loop.create_future()
        await self._drained
        if self._sync is not None:
            self._sync.stop_listening()
            await asyncio.to_thread(self._sync.close)
        await self._thread.close()

    # Who commits

    def _schedule(self) -> None:
        if not self._scheduled and self._unsynced is None:
            self._scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        """Do what is next: writes on the loop if it has the connection or may take it, all else in the thread."""
        self._scheduled = False
        if self._sync is None or not self._alone() or self._batches.broken is not None:
            self._release()
            self._put_all(self._waiting)
            self._put_all(self._jobs)
        elif self._jobs:
            self._release()
            self._put_all(self._jobs)
        elif self._waiting and self._acquire():
            self._commit()
        if self._drained is not None and not self._drained.done() and not (self._waiting or self._unsynced):
            self._drained.set_result(None)

    def _put_all(self, items: deque[Any]) -> None:
        while items:
            self._last = items.popleft()
            self._thread.put(self._last)

    def _release(self) -> None:
        """Give the connection to the thread."""
        if self._on_loop:
            self._on_loop = False
            self._files.connection.execute("PRAGMA synchronous=FULL")
            self._files.connection.set_busy_timeout(_BUSY_MS)

    def _acquire(self) -> bool:
        """Take the connection, if the thread has done everything; otherwise `_next` is called when it has."""
        if self._on_loop:
            return True
        if isinstance(self._last, QueuedWrite):
            self._put_all(deque([Job(_noop, self._loop.create_future())]))
        if self._last is not None:
            return False
        self._on_loop = True
        self._files.connection.set_busy_timeout(0)
        self._files.connection.execute("PRAGMA synchronous=NORMAL")
        return True

    def _on_job(self, job: Job) -> None:
        if job is self._last:
            self._last = None
        self._schedule()

    # Commits of the loop

    def _commit(self) -> None:
        writes = self._batch()
        try:
            self._batches.must_be_able()
            with self._files.commit_lock.tried() as locked:
                try:
                    if not locked:
                        raise apsw.BusyError
                    self._batches.begin()
                except apsw.BusyError:
                    # A program that isn't ours holds the file: the thread waits for it.
                    self._release()
                    self._put_all(deque(writes))
                    return
                batch_result = self._batches.commit(writes)
        except Exception as error:
            batch_result = BatchResult(writes, error=self._batches.translate(error))
        if batch_result.events and self._sync is not None:
            self._unsynced = batch_result
            try:
                self._sync.begin()
            except OSError as error:
                self._on_synced(error.errno or EIO)
        else:
            self._finish(batch_result)

    def _batch(self) -> list[QueuedWrite]:
        writes: list[QueuedWrite] = []
        size = 0
        while self._waiting and len(writes) < _BATCH_WRITES and size < _BATCH_BYTES:
            writes.append(self._waiting.popleft())
            size += len(writes[-1].value or b"")
        return writes

    def _on_synced(self, errno: int) -> None:
        batch_result, self._unsynced = self._unsynced, None
        if batch_result is None:
            return
        if errno:
            self.lost = self._batches.sync_failed(errno)
            batch_result = BatchResult(batch_result.writes, error=self.lost)
        self._finish(batch_result)

    def _finish(self, batch_result: BatchResult) -> None:
        if self._waiting or self._jobs or self._drained is not None:
            self._schedule()  # before anybody is told: the disk has work while the answers are made
        self._on_report(batch_result)

    def _on_report(self, batch_result: BatchResult) -> None:
        self._wrote = True
        pages = self._batches.log_pages
        if pages >= _CHECKPOINT_PAGES:
            self._checkpoint()
        elif pages and self._idle_timer is None and not self._closed:
            self._idle_timer = self._loop.call_later(_IDLE_S, self._on_idle)
        self._report(batch_result)

    def _on_idle(self) -> None:
        self._idle_timer = None
        if self._wrote:
            self._wrote = False
            self._idle_timer = self._loop.call_later(_IDLE_S, self._on_idle)
        else:
            self._checkpoint()

    def _checkpoint(self) -> None:
        self._jobs.append(Job(self._batches.checkpoint, self._loop.create_future()))
        self._schedule()


def _noop() -> None:
    """A job that is done when everything before it is."""
