"""Group commit on the event loop: writes that arrive during a commit form the next batch.

    queue → batch → BEGIN and lock → state → plan → rows → COMMIT → one report

A connection that is lost before COMMIT was sent has committed nothing; one that is lost after may have. What waits in
the queue has a bound, in writes and in bytes, and a batch has a deadline: when it passes, or a batch fails before its
COMMIT, those that wait behind it fail with it instead of waiting for the next deadline.

Must not know: watches, reads, keys' meaning. See also: `oarlock.storage.sql.reads`, and `backend`, which publishes.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Final

from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff
from oarlock.storage.backend import OutcomeUnknown, Rev, StorageError, StoreEvent, Unavailable, WriteResult
from oarlock.storage.sql.dialect import BatchPlan, QueuedWrite
from oarlock.storage.sql.reads import HistoryLost, write_batch
from oarlock.storage.sql.server.session import DatabaseSession, Driver, run

__all__ = ["CommitResult", "Connector", "GroupCommit", "Pool", "SqlDeadlines"]

_AGAIN = Backoff(0.05, 2.0)

Admit = Callable[[DatabaseSession], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class SqlDeadlines:
    """How long something may take, in seconds. Drivers have deadlines of their own for what the server waits for."""

    call_s: float = 30.0
    """A call in all, but for a write."""
    batch_s: float = 12.0
    """The writes of a batch. Drivers wait ten seconds for the lock of the store."""
    tail_s: float = 5.0
    """Reading the newest events. A connection that died silently must not keep them away for longer."""
    patience_s: float = 5.0
    """How long a call waits for a connection while the server can't be reached."""


class Connector:
    """Opens sessions. `admit` is awaited with each new one, and raises for one that may not be used."""

    def __init__(self, driver: Driver, admit: Admit, patience_s: float) -> None:
        self._driver: Final = driver
        self._patience_s: Final = patience_s
        self._admit: Final = admit
        self._one: Final = asyncio.Lock()
        self._pauses: Final = _AGAIN.pauses()
        self._not_before = 0.0
        self._error: StorageError = Unavailable("the store was not reached yet")

    async def open(self) -> DatabaseSession:
        """A new session. Raises `Unavailable`."""
        until = monotonic() + self._patience_s
        while True:
            async with self._one:
                wait = self._not_before - monotonic()
                if wait <= 0:
                    try:
                        session = await self._attempt()
                    except StorageError as error:
                        self._error = error
                        wait = self._pauses.take()
                        self._not_before = monotonic() + wait
                    else:
                        self._pauses.reset()
                        return session
            if monotonic() + wait >= until:
                last = self._error
                raise copy.copy(last) if isinstance(last, Unavailable) else Unavailable(str(last), 5.0)
            await asyncio.sleep(wait)

    async def _attempt(self) -> DatabaseSession:
        session: DatabaseSession | None = None
        try:
            session = await self._driver.connect()
            await self._admit(session)
        except BaseException as error:
            if session is not None:
                session.terminate()
            if isinstance(error, Exception):
                raise self._driver.translate(error) from error
            raise
        return session


class Pool:
    """At most `size` sessions, for calls that are independent of one another."""

    def __init__(self, connector: Connector, size: int) -> None:
        self._connector: Final = connector
        self._room: Final = asyncio.Semaphore(size)
        self._idle: Final[list[DatabaseSession]] = []
        self._busy: Final[set[DatabaseSession]] = set()
        self._closed = False

    async def take(self) -> DatabaseSession:
        """A session for one user, which gives it back. Raises `Unavailable`."""
        await self._room.acquire()
        try:
            session = None
            while self._idle and (session is None or session.closed):
                session = self._idle.pop()
            if session is None or session.closed:
                self._must_be_open()
                session = await self._connector.open()
                if self._closed:
                    session.terminate()
            self._must_be_open()
        except BaseException:
            self._room.release()
            raise
        self._busy.add(session)
        return session

    def give_back(self, session: DatabaseSession, sound: bool) -> None:
        """Return a session; one that isn't `sound`, because a call failed or was cancelled, is dropped."""
        self._busy.discard(session)
        if sound and not session.closed and not self._closed:
            self._idle.append(session)
        else:
            session.terminate()
        self._room.release()

    def drop(self) -> None:
        """Drop all sessions: calls that use one fail, and later ones get others."""
        for session in (*self._busy, *self._idle):
            session.terminate()
        self._idle.clear()

    async def close(self) -> None:
        """Close the idle sessions and drop those in use, whose calls fail."""
        self._closed = True
        for session in tuple(self._busy):
            session.terminate()
        while self._idle:
            await self._idle.pop().close()

    def _must_be_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")


log = logging.getLogger("oarlock.storage.sql")

_BATCH_WRITES = 256
_BATCH_BYTES = 8 * 1024 * 1024

_QUEUED_WRITES = 20_000
_QUEUED_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The outcome of a batch: results in order, or one error for all; events complete above `floor` up to `rev`."""

    writes: Sequence[QueuedWrite]
    results: Sequence[WriteResult] = ()
    error: StorageError | None = None
    floor: Rev = 0
    events: Sequence[StoreEvent] = ()
    rev: Rev = 0


class GroupCommit:
    """The writer of one process. `report` is called with every `CommitResult`.

    `now_ms` tells the host's time or None, `seen` the highest revision that was seen. `committing` is the revision of
    the batch whose COMMIT is on its way.
    """

    def __init__(
        self,
        driver: Driver,
        connector: Connector,
        now_ms: Callable[[], int | None],
        seen: Callable[[], Rev],
        report: Callable[[CommitResult], None],
        batch_s: float,
    ) -> None:
        self._driver: Final = driver
        self._connector: Final = connector
        self._now_ms: Final = now_ms
        self._seen: Final = seen
        self._report: Final = report
        self._batch_s: Final = batch_s
        self._queue: Final[deque[QueuedWrite]] = deque()
        self._queued_bytes = 0
        self._arrival: Final = asyncio.Event()
        self._session: DatabaseSession | None = None
        self._closed = False
        self.committing: Rev = 0
        self._task: Final = asyncio.create_task(self._run(), name="oarlock store: writer")

    def submit(self, write: QueuedWrite) -> None:
        if self._closed:
            raise Unavailable("the store is closed")
        if len(self._queue) >= _QUEUED_WRITES or self._queued_bytes >= _QUEUED_BYTES:
            raise Unavailable(f"{self._driver.name} takes writes more slowly than they come: too many wait", 1.0)
        self._queue.append(write)
        self._queued_bytes += len(write.value or b"")
        self._arrival.set()

    async def close(self) -> None:
        """Execute what was submitted, then end the session."""
        self._closed = True
        self._arrival.set()
        await self._task
        if self._session is not None:
            await self._session.close()

    async def _run(self) -> None:
        while True:
            if not self._queue:
                if self._closed:
                    return
                self._arrival.clear()
                await self._arrival.wait()
                continue
            await self._commit(self._next())

    def _next(self) -> list[QueuedWrite]:
        batch: list[QueuedWrite] = []
        size = 0
        queue = self._queue
        while queue and len(batch) < _BATCH_WRITES and size < _BATCH_BYTES:
            write = queue.popleft()
            batch.append(write)
            size += len(write.value or b"")
        self._queued_bytes -= size
        return batch

    async def _commit(self, batch: list[QueuedWrite]) -> None:
        try:
            async with asyncio.timeout(self._batch_s):
                try:
                    plan = await self._transaction(batch)
                except HistoryLost:
                    # Nothing was written; a new session begins another epoch before it is used.
                    self._drop_session()
                    plan = await self._transaction(batch)
        except Exception as error:
            self._drop_session()
            self._fail(batch, error)
        else:
            floor = plan.floor if plan.events else 0
            self._report(CommitResult(batch, plan.results, None, floor, plan.events, plan.rev if plan.events else 0))
        finally:
            self.committing = 0

    async def _transaction(self, batch: list[QueuedWrite]) -> BatchPlan:
        session = self._session
        if session is None or session.closed:
            session = self._session = await self._connector.open()
        seen = self._seen()
        await session.begin()
        plan = await run(session, write_batch(self._driver.dialect, batch, self._now_ms(), seen))
        if plan.events:
            self.committing = plan.rev
            await session.commit()
        else:
            await session.rollback()
        return plan

    def drop(self) -> None:
        """Drop the session: the batch that uses it fails, later ones get another."""
        self._drop_session()

    def _drop_session(self) -> None:
        if self._session is not None:
            self._session.terminate()
            self._session = None

    def _fail(self, batch: list[QueuedWrite], error: Exception) -> None:
        translated = self._driver.translate(error)
        unknown = self.committing and not self._driver.refused(error)
        if self._queue and (not unknown or isinstance(error, TimeoutError)):
            # The next batch would fail as this did, and its writes would have waited twice as long.
            waiting = list(self._queue)
            self._queue.clear()
            self._queued_bytes = 0
            self._report(CommitResult(waiting, error=translated))
        if unknown:
            translated = OutcomeUnknown(f"{self._driver.name}: the commit was not answered: {translated}")
            log.warning("%s; the outcome of %d writes is unknown", translated, len(batch))
        self._report(CommitResult(batch, error=translated))
