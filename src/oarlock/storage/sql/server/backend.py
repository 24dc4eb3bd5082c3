"""`SqlServerBackend`: a store in a database server, which any number of processes share.

Every process is one of several: what is current is asked from the server, and all events come in the log's order.
Events of this process's own commits take the short way if nothing of others lies between; the rest is read by the
tailer, woken by hints and, since hints may be lost, by a poll.

Must not know: any particular database, kinds, JSON, users. See also: `writer`, `session`.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from oarlock.meta.context import Clock
from oarlock.net.futures import shared
from oarlock.storage.backend import (
    KEEP_TTL,
    KV,
    Caps,
    Compacted,
    Deliver,
    Failed,
    Findings,
    Page,
    Rev,
    StorageError,
    TooLarge,
    Unavailable,
    WriteResult,
)
from oarlock.storage.memory import DEFAULT_MAX_VALUE
from oarlock.storage.sql import check, compaction, reads
from oarlock.storage.sql.background import REAP_EVERY_S, BackgroundTasks, ignore_failure, reap
from oarlock.storage.sql.dialect import KeyRange, QueuedWrite, StatementSteps
from oarlock.storage.sql.reads import HistoryLost, LogRange, StoreBroken
from oarlock.storage.sql.server.session import DatabaseSession, Driver, run, verify
from oarlock.storage.sql.server.writer import CommitResult, Connector, GroupCommit, Pool, SqlDeadlines
from oarlock.storage.sql.watching import Feed, Tailer, begin_watch
from oarlock.storage.watchers import RangeWatch

__all__ = ["SqlServerBackend"]

T = TypeVar("T")

MakeSteps = Callable[[], StatementSteps[T]]
"""Makes an operation, again if it has to be run again."""

_READERS = 4
_CHECK_S = 3600.0

log = logging.getLogger("oarlock.storage.sql")


class SqlServerBackend:
    """The store of `driver`. With `create`, `start` makes its tables if absent.

    Times to live go by the database's clock, unless a test passes its own `clock`.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        create: bool = True,
        max_value: int = DEFAULT_MAX_VALUE,
        clock: Clock | None = None,
        deadlines: SqlDeadlines = SqlDeadlines(),  # noqa: B008 (frozen)
    ) -> None:
        self.caps = Caps(durable=True, max_value=max_value)
        self._driver: Final = driver
        self._dialect: Final = driver.dialect
        self._create: Final = create
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        self._seen: Rev = 0  # the highest revision that any answer of this process had
        self._tail: DatabaseSession | None = None
        self._tailing: Final = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    @property
    def lineage(self) -> str:
        """In which of its histories the database was seen, if the driver can tell; see `Traced`."""
        return str(getattr(self._driver, "lineage", ""))

    @lineage.setter
    def lineage(self, remembered: str) -> None:
        if hasattr(self._driver, "lineage"):
            self._driver.lineage = remembered

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._background = BackgroundTasks()
        driver = self._driver
        session: DatabaseSession | None = None
        try:
            async with asyncio.timeout(self._deadlines.call_s):
                session = await driver.connect()
                await driver.prepare(session, self._create)
                meta = await verify(driver, session, 0)
        except Exception as error:
            raise StorageError(f"cannot open the store {driver.name}: {driver.translate(error)}") from error
        finally:
            if session is not None:
                session.terminate()
        self._seen = meta.rev
        self._feed = Feed(meta.rev)
        self._connector = Connector(driver, self._admit, self._deadlines.patience_s)
        self._pool = Pool(self._connector, _READERS)
        self._writer = GroupCommit(
            driver, self._connector, self._host_ms, self._highest, self._report, self._deadlines.batch_s
        )
        self._tailer = Tailer(self._feed, self._read_log)
        self._background.spawn(self._poll_forever())
        self._background.spawn(self._reap_forever())
        if driver.look_around_s:
            self._background.spawn(self._look_around_forever())

    async def close(self) -> None:
        if hasattr(self, "_tailer"):
            if self._closing is None:
                self._closing = asyncio.create_task(self._close())
            await shared(self._closing)

    async def epoch(self) -> str:
        meta = await self._ask(partial(reads.read_meta, self._dialect), lambda meta: meta.rev)
        return meta.epoch

    def known_rev(self) -> Rev | None:
        """None: others may write to the store at any time."""
        return None

    async def current_rev(self) -> Rev:
        return (await self._revs())[0]

    async def compact_rev(self) -> Rev:
        return (await self._revs())[1]

    # Reads

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        self._must_be_key(key)
        if rev:
            return await self._read(partial(reads.get_at, self._dialect, key, rev), _unknown)
        return await self._ask(partial(reads.get, self._dialect, key), _second)

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        steps = partial(reads.list_range, self._dialect, (start, end), rev, limit)
        return await self._read(steps, _unknown if rev else _rev_of_page)

    async def count(self, start: str, end: str) -> tuple[int, Rev]:
        return await self._ask(partial(reads.count, self._dialect, (start, end)), _second)

    async def _revs(self) -> tuple[Rev, Rev]:
        """The current revision and the compacted revision, linearizable."""
        rev, compact_rev = await self._ask(partial(reads.revs, self._dialect), _first)
        if rev > self._feed.last:
            self._tailer.poll()
        return rev, compact_rev

    def _highest(self) -> Rev:
        return self._seen

    def _note(self, rev: Rev) -> None:
        if rev > self._seen:
            self._seen = rev

    # Writes

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        if len(value) > self.caps.max_value:
            raise TooLarge(len(value), self.caps.max_value)
        return await self._write(key, value, expect, ttl_ms)

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        return await self._write(key, None, expect, None)

    def _write(self, key: str, value: bytes | None, expect: Rev, ttl_ms: int | None) -> asyncio.Future[WriteResult]:
        self._must_be_key(key)
        future: asyncio.Future[WriteResult] = self._loop.create_future()
        self._writer.submit(QueuedWrite(key, value, expect, ttl_ms, future))
        return future

    def _must_be_key(self, key: str) -> None:
        """Raise for a key that would make the statement of its whole batch fail."""
        if len(key) <= self._driver.max_key and key.isascii() and "\0" not in key:
            return
        try:
            size = len(key.encode())
        except UnicodeEncodeError:
            raise StorageError(f"the key {key!r} is not text") from None
        if size > self._driver.max_key:
            raise StorageError(f"the key has {size} bytes; {self._driver.name} takes {self._driver.max_key}")
        if "\0" in key:
            raise StorageError(f"the key {key!r} has a NUL in it")

    def _report(self, outcome: CommitResult) -> None:
        if outcome.rev:
            self._note(outcome.rev)
            if outcome.floor == self._feed.last:
                self._feed.take(outcome.floor, outcome.events, outcome.rev)
            elif outcome.rev > self._feed.last:
                self._tailer.poll()  # others have committed in between
        elif outcome.error is not None:
            self._tailer.poll()  # it may have been committed all the same
        for index, write in enumerate(outcome.writes):
            if write.future.done():
                continue
            if outcome.error is not None:
                write.future.set_exception(copy.copy(outcome.error))
            else:
                write.future.set_result(outcome.results[index])

    async def reap(self) -> int:
        """Delete expired keys; returns how many were deleted."""
        now_ms = self._host_ms()
        if now_ms is None:
            now_ms = await self._ask(partial(reads.clock_ms, self._dialect), _unknown)
        due = partial(reads.expired, self._dialect, now_ms)
        return await reap(lambda limit: self._ask(partial(due, limit), _unknown), self.delete)

    def _host_ms(self) -> int | None:
        return None if self._clock is None else int(self._clock.now() * 1000)

    # Watching

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> RangeWatch:
        watch = RangeWatch((start, end), after, deliver, failed)
        await begin_watch(watch, self._feed, self._read_range)
        return watch

    async def request_progress(self) -> None:
        rev = await self.current_rev()
        if self._feed.last >= rev:
            self._feed.watchers.publish((), self._feed.last)
            return
        try:
            async with asyncio.timeout(self._deadlines.call_s):
                await self._feed.reached(rev)
        except TimeoutError:
            raise Unavailable(f"{self._driver.name}: the log was not read up to revision {rev}") from None

    async def _read_range(self, span: KeyRange, between: tuple[Rev, Rev], limit: int) -> LogRange:
        return await self._read(partial(reads.log_of_range, self._dialect, span, between, limit), _head)

    # History

    async def compact(self, rev: Rev) -> None:
        await self._transact(partial(compaction.publish, self._dialect, rev))
        while await self._transact(partial(compaction.sweep, self._dialect)):
            pass

    async def begin_epoch(self, above: Rev) -> Rev:
        try:
            await self.compact(await self.current_rev())  # most of it now, so that the transaction isn't long
        except Compacted:
            pass
        rev = await self._transact(partial(compaction.begin_epoch, self._dialect, max(above, self._seen)))
        self._note(rev)
        self._feed.take(rev, (), rev)
        return rev

    async def check(self, *, quick: bool = False) -> Findings:
        steps = check.check_counters if quick else check.check
        return await self._read(partial(steps, self._dialect), _unknown, _CHECK_S)

    # Sessions

    async def _admit(self, session: DatabaseSession) -> None:
        """Every session sees the history that this process has read, or another epoch that says it isn't."""
        meta = await verify(self._driver, session, self._seen)
        self._note(meta.rev)
        if meta.rev > self._feed.last:
            self._tailer.poll()

    async def _ask(self, steps: MakeSteps[T], head: Callable[[T], Rev]) -> T:
        """Run an operation of one statement, whose result tells the store's revision by `head`."""
        return await self._with_session(lambda session, seen: run(session, reads.not_below(seen, steps(), head)), head)

    async def _read(self, steps: MakeSteps[T], head: Callable[[T], Rev], within_s: float = 0) -> T:
        """Run an operation of several statements on one state of the store."""
        return await self._with_session(
            lambda session, seen: _in_snapshot(session, reads.not_below(seen, steps(), head), within_s), head, within_s
        )

    async def _transact(self, steps: MakeSteps[T]) -> T:
        """Run an operation in a transaction that has the lock."""
        return await self._with_session(lambda session, seen: _in_transaction(session, steps()), _unknown)

    async def _with_session(
        self, work: Callable[[DatabaseSession, Rev], Awaitable[T]], head: Callable[[T], Rev], within_s: float = 0
    ) -> T:
        """The result of `work` with a session, on a store that is not below what this process has seen."""
        if asyncio.current_task() is None:
            # A request runs without a task until it first waits. A deadline needs one.
            return await asyncio.create_task(self._with_session(work, head, within_s))
        try:
            async with asyncio.timeout(within_s or self._deadlines.call_s):
                try:
                    result = await self._with_one_session(work)
                except HistoryLost:
                    # A new session begins another epoch before it is used, and then the others see that.
                    (await self._connector.open()).terminate()
                    result = await self._with_one_session(work)
        except StorageError:
            raise
        except Exception as error:
            raise self._driver.translate(error) from error
        rev = head(result)
        if _NO_REV > rev > self._seen:
            self._seen = rev
        return result

    async def _with_one_session(self, work: Callable[[DatabaseSession, Rev], Awaitable[T]]) -> T:
        seen = self._seen
        session = await self._pool.take()
        sound = False
        try:
            result = await work(session, seen)
            sound = True
            return result
        except StorageError:
            sound = True  # refusals of an operation itself come after its statements, which were answered
            raise
        finally:
            self._pool.give_back(session, sound)

    # The others

    async def _read_log(self, after: Rev, limit: int) -> LogRange:
        try:
            async with self._tailing, asyncio.timeout(self._deadlines.tail_s):
                return await self._read_tail(after, limit)
        except StorageError:
            raise
        except Exception as error:
            raise self._driver.translate(error) from error

    async def _read_tail(self, after: Rev, limit: int) -> LogRange:
        try:
            session = self._tail
            if session is None or session.closed:
                session = self._tail = await self._connector.open()
                await session.listen(self._on_hint)
            steps = reads.log_after(self._dialect, after, limit)
            return await _in_snapshot(session, reads.not_below(after, steps, _head))
        except StoreBroken:
            raise
        except BaseException:
            # After `HistoryLost` too: a new session begins another epoch before it is used.
            if self._tail is not None:
                self._tail.terminate()
                self._tail = None
            raise

    def _on_hint(self, rev: Rev) -> None:
        # What this process commits at this moment is published when the answer comes.
        if (not rev or rev > self._feed.last) and (not rev or rev != self._writer.committing):
            self._tailer.poll()

    async def _poll_forever(self) -> None:
        self._tailer.poll()
        while True:
            await asyncio.sleep(self._driver.poll_s)
            await ignore_failure(self._revs())
            if self._tail is None or self._tail.closed:
                self._tailer.poll()

    async def _look_around_forever(self) -> None:
        """Leave a server that another has taken over from, although it still answers."""
        while True:
            await asyncio.sleep(self._driver.look_around_s)
            why = await self._driver.overtaken()
            if why:
                log.warning("%s: another server took over (%s): its sessions are left", self._driver.name, why)
                self._pool.drop()
                self._writer.drop()
                if self._tail is not None:
                    self._tail.terminate()

    async def _reap_forever(self) -> None:
        while True:
            await asyncio.sleep(REAP_EVERY_S)
            await ignore_failure(self.reap())

    async def _close(self) -> None:
        await self._background.cancel()
        await self._writer.close()
        await self._tailer.close()
        self._feed.close(Unavailable("the store is closed"))
        if self._tail is not None:
            await self._tail.close()
        await self._pool.close()


async def _in_snapshot(session: DatabaseSession, steps: StatementSteps[T], within_s: float = 0) -> T:
    await session.begin_snapshot(within_s)
    try:
        result = await run(session, steps)
    except StorageError:
        await session.rollback()
        raise
    await session.rollback()
    return result


async def _in_transaction(session: DatabaseSession, steps: StatementSteps[T]) -> T:
    await session.begin()
    try:
        result = await run(session, steps)
    except StorageError:
        await session.rollback()
        raise
    await session.commit()
    return result


_NO_REV = 2**63
"""What `head` returns of a result that doesn't tell the store's revision: above all of them."""


def _unknown(result: object) -> Rev:
    return _NO_REV


def _first(result: tuple[Rev, object]) -> Rev:
    return result[0]


def _second(result: tuple[object, Rev]) -> Rev:
    return result[1]


def _rev_of_page(page: Page) -> Rev:
    return page.rev


def _head(log_range: LogRange) -> Rev:
    return log_range.head
