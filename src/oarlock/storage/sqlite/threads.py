"""A thread with its own connection that runs queries for the event loop.

Results are returned in one wake-up of the loop per drained queue, not one per query.

Must not know: what is asked. See also: `writer`, the thread that changes things.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

import apsw

from oarlock.storage.backend import StorageError, Unavailable
from oarlock.storage.sql.statements import StatementSteps
from oarlock.storage.sqlite.errors import translate
from oarlock.storage.sqlite.steps import run, run_in_snapshot

__all__ = ["ReaderThread", "in_background", "post"]

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
