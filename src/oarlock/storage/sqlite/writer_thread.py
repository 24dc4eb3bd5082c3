"""The thread that writes where the loop can't wait: jobs, and every commit while other processes may write.

    queue → batch → commit lock → BEGIN IMMEDIATE → current state → plan → rows → COMMIT → unlock → one wake-up

Writes that arrive during a commit form the next batch. One wake-up of the loop carries events and results together.

Must not know: watches, reads, keys' meaning. See also: `writer`, which says when the thread has the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

import apsw

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import Rev, StorageError, Unavailable
from oarlock.storage.sql.dialect import QueuedWrite, StatementSteps
from oarlock.storage.sqlite.batches import Batches, BatchResult
from oarlock.storage.sqlite.check import run, run_in_snapshot
from oarlock.storage.sqlite.files import Files
from oarlock.storage.sqlite.schema import translate

__all__ = ["Job", "ReaderThread", "WriterThread", "in_background", "post"]

T = TypeVar("T")

_NICE = 10

_Job = tuple[Callable[[apsw.Connection], Any], asyncio.Future[Any]]


def post(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: object) -> None:
    """Run `call` on the loop; does nothing if the loop is closed, since then nobody waits."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        pass


def in_background(call: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Run `call` in a low-priority daemon thread of its own, which nobody waits for at exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)  # on Linux, of this thread alone
        try:
            answer: tuple[asyncio.Future[Any], Any, Exception | None] = (future, call(), None)
        except Exception as error:
            answer = (future, None, error)
        post(loop, _settle, [answer])

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


class ReaderThread:
    """Runs functions with a connection in a thread, one after another. Used from one event loop."""

    def __init__(self, name: str, path: str, connection: apsw.Connection) -> None:
        self._path: Final = path
        self._connection: Final = connection
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._loop: Final = asyncio.get_running_loop()
        self._done: Final = asyncio.Event()
        self._closed = False
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def run(self, job: Callable[[apsw.Connection], T]) -> T:
        """The job's result. Its errors are translated to `StorageError`."""
        if self._closed:
            raise Unavailable("the store is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put((job, future))
        return await future

    async def ask(self, steps: StatementSteps[T]) -> T:
        """Run an operation of one statement."""
        return await self.run(partial(run, steps=steps))

    async def read(self, steps: StatementSteps[T]) -> T:
        """Run an operation of several statements on one state of the store."""
        return await self.run(partial(run_in_snapshot, steps=steps))

    async def close(self) -> None:
        """Finish submitted jobs, then close the connection."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await self._done.wait()

    def _run(self) -> None:
        stop = False
        while not stop:
            jobs = [self._queue.get()]
            try:
                while True:
                    jobs.append(self._queue.get_nowait())
            except Empty:
                pass
            answers: list[tuple[asyncio.Future[Any], Any, StorageError | None]] = []
            for job in jobs:
                if job is None:
                    stop = True
                    continue
                try:
                    answers.append((job[1], job[0](self._connection), None))
                except Exception as error:
                    answers.append((job[1], None, translate(error, self._path, self._connection)))
            post(self._loop, _settle, answers)
        self._connection.close()
        post(self._loop, self._done.set)


def _settle(answers: Sequence[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
    for future, result, error in answers:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


_BATCH_WRITES = 256
_BATCH_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    """What to run between two batches, and the future for its result."""

    run: Callable[[], Any]
    future: asyncio.Future[Any]


class WriterThread:
    """`report` is called on the loop with every `BatchResult`, `job_done` after every job.

    `published` returns the revision that the loop has published.
    """

    def __init__(
        self,
        files: Files,
        batches: Batches,
        report: Callable[[BatchResult], None],
        job_done: Callable[[Job], None],
        published: Callable[[], Rev],
    ) -> None:
        self._files: Final = files
        self._batches: Final = batches
        self._report: Final = report
        self._job_done: Final = job_done
        self._published: Final = published
        self._loop: Final = asyncio.get_running_loop()
        self._queue: SimpleQueue[QueuedWrite | Job | None] = SimpleQueue()
        self._claim = threading.Lock()
        self._pending: list[QueuedWrite] = []
        self._pending_since = 0.0
        self._posted_rev: Rev = published()
        self._stopped: Final = asyncio.Event()
        threading.Thread(target=self._run, name="oarlock store: writer", daemon=True).start()

    # On the loop

    def put(self, item: QueuedWrite | Job) -> None:
        """Do `item` after everything that was put before it."""
        self._queue.put(item)

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
        """Execute what was put, checkpoint, and end the thread."""
        self._queue.put(None)
        await self._stopped.wait()

    # In the thread

    def _run(self) -> None:
        job: Job | None = None
        while True:
            batch, job = self._next()
            if batch:
                self._commit(batch)
            if job is not None:
                self._do(job)
            elif not batch:
                break
        self._batches.checkpoint()
        post(self._loop, self._stopped.set)

    def _next(self) -> tuple[list[QueuedWrite], Job | None]:
        """What to commit together, and a job to run after it; both empty at the end."""
        item = self._queue.get()
        if not isinstance(item, QueuedWrite):
            return [], item
        batch = [item]
        return batch, self._fill(batch)

    def _fill(self, batch: list[QueuedWrite]) -> Job | None:
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
            self._batches.must_be_able()
            self._pending_since = time.monotonic()
            self._pending = batch
            with self._files.commit_lock.held():
                with self._claim:
                    writes, self._pending = self._pending, []
                if not writes:
                    return
                self._batches.begin()
                batch_result = self._batches.commit(writes)
            if batch_result.events and (base := max(self._posted_rev, self._published())) < batch_result.floor:
                batch_result = self._batches.with_others(batch_result, base)
        except Exception as error:
            self._pending = []
            batch_result = BatchResult(batch, error=self._batches.translate(error))
        if batch_result.rev:
            self._posted_rev = max(self._posted_rev, batch_result.rev)
        post(self._loop, self._report, batch_result)
        if batch_result.events and not self._files.membership.alone:
            self._files.peers.send(b"r")

    def _do(self, job: Job) -> None:
        result, error = None, None
        try:
            result = job.run()
        except Exception as raised:
            error = self._batches.translate(raised)
        post(self._loop, self._settle, job, result, error)

    def _settle(self, job: Job, result: object, error: StorageError | None) -> None:
        if not job.future.done():
            if error is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(error)
        self._job_done(job)
