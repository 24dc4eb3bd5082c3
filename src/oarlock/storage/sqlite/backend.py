"""`SqliteBackend` (``sqlite:///path``): a durable store in one file, which several processes may share.

    put, delete ──► writer ──► result──► feed (watches) ──► the caller
    get, list   ──► reader thread
    other processes' commits ──► hint or poll ──► tailer thread ──► feed

While this process is alone it knows the current revision without asking. When another one asks to join, it first
stops relying on that, then shares the lock (`locks.Membership`): no read is ever answered from a
counter that another process may have passed. Nor is anything answered that isn't in the file at the path: when
one of the store's files is deleted, moved or replaced (`presence`), reads and writes fail until it is back.

Must not know: kinds, JSON, users. See also: `writer`, `feed`.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

import apsw

from oarlock.meta.context import Clock
from oarlock.net.futures import shared
from oarlock.storage.backend import (
    KEEP_TTL,
    KV,
    Caps,
    Compacted,
    Damaged,
    Deliver,
    Failed,
    Findings,
    OutcomeUnknown,
    Page,
    Rev,
    StorageError,
    TooLarge,
    Unavailable,
    WriteResult,
)
from oarlock.storage.memory import DEFAULT_MAX_VALUE
from oarlock.storage.sql import compaction, reads
from oarlock.storage.sql.background import REAP_EVERY_S, BackgroundTasks, ignore_failure, reap
from oarlock.storage.sql.dialect import QueuedWrite
from oarlock.storage.sql.watching import Feed, Tailer, begin_watch
from oarlock.storage.sqlite import check, schema
from oarlock.storage.sqlite.batches import Batches, BatchResult
from oarlock.storage.sqlite.check import SQLITE
from oarlock.storage.sqlite.files import Files
from oarlock.storage.sqlite.locks import FilesMissing
from oarlock.storage.sqlite.writer import Writer
from oarlock.storage.sqlite.writer_thread import ReaderThread, in_background
from oarlock.storage.watchers import RangeWatch

__all__ = ["SqliteBackend"]

_POLL_EVERY_S = 0.1
_POLLS_PER_REFRESH = 10
_CHECK_CACHE_KIB = 4_096
_LOG_BYTES = 40 * 1024 * 1024
"""Twice what the log usually takes, and less than what makes the writer wait until it can be used again."""

log = logging.getLogger("oarlock.storage.sqlite")


class SqliteBackend:
    """A store in the file `path`; the folder ``path.d`` beside it has locks and sockets.

    `create`: create the file if it doesn't exist. `join_timeout_s`: how long to wait for a process that holds the
    store alone. `lock_timeout_s`: how long a write may wait for another process's commit. Both in seconds.
    `commit_on_loop`: commit on the event loop while no other process may write, where the kernel can sync without a
    thread; otherwise a thread commits always.
    """

    def __init__(
        self,
        path: str | Path,
        clock: Clock,
        *,
        create: bool = True,
        max_value: int = DEFAULT_MAX_VALUE,
        join_timeout_s: float = 5.0,
        lock_timeout_s: float = 10.0,
        commit_on_loop: bool = True,
    ) -> None:
        self.caps = Caps(durable=True, max_value=max_value)
        self._path: Final = Path(path)
        self._clock: Final = clock
        self._create: Final = create
        self._join_timeout_s: Final = join_timeout_s
        self._lock_timeout_s: Final = lock_timeout_s
        self._commit_on_loop: Final = commit_on_loop
        self._alone = False
        self._files_missing = False
        self._joins = 0
        self._polls = 0
        self._next_poll: asyncio.TimerHandle | None = None
        self._one_check: Final = threading.Lock()
        self._checks: dict[asyncio.Future[Findings], threading.Event] = {}
        self._closing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._background = BackgroundTasks()
        opening = partial(Files.open, self._path, create=self._create, join_timeout_s=self._join_timeout_s)
        self._files = files = await asyncio.to_thread(opening)
        self._feed = Feed(files.meta.rev)
        log_path = files.log_path if self._commit_on_loop else None
        batches = Batches(files, self._clock)
        self._writer = Writer(files, batches, self._report, lambda: self._feed.last, lambda: self._alone, log_path)
        self._reader = ReaderThread("oarlock store: reads", str(self._path), files.reads)
        self._tail_reader = tail = ReaderThread("oarlock store: tailer", str(self._path), files.tail)
        self._tailer = Tailer(self._feed, lambda after, limit: tail.read(reads.log_after(SQLITE, after, limit)))
        self._alone = files.membership.alone
        self._presence = files.presence
        if not self._alone:
            self._poll()
        self._loop.add_reader(files.peers.socket, self._on_message)
        self._background.spawn(self._reap_forever())

    async def close(self) -> None:
        if hasattr(self, "_files"):
            if self._closing is None:
                self._closing = asyncio.create_task(self._close())
            await shared(self._closing)

    async def epoch(self) -> str:
        self._must_be_in_place()
        return (await self._reader.ask(reads.read_meta(SQLITE))).epoch

    def known_rev(self) -> Rev | None:
        # Every read asks this: the result of the last check is read here, without a function call.
        if self._alone and (monotonic() < self._presence.good_until or self._in_place()):
            return self._feed.last
        return None

    async def current_rev(self) -> Rev:
        return self._feed.last if self._alone and self._in_place() else (await self._read_revs())[0]

    def current_rev_sync(self) -> Rev | None:
        """The current revision, linearizable, read from the file at once; None if that isn't possible now."""
        if not self._in_place():
            return None
        try:
            rev, _ = self._read_revs_at_once()
        except apsw.Error:
            return None
        return None if self._must_wait_for(rev) else rev

    async def compact_rev(self) -> Rev:
        return (await self._read_revs())[1]

    # Reads

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        self._must_be_in_place(rev)
        if rev:
            kv, at = await self._reader.read(reads.get_at(SQLITE, key, rev))
        else:
            kv, at = await self._reader.ask(reads.get(SQLITE, key))
        return kv, await self._published(at)

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        self._must_be_in_place(rev)
        page = await self._reader.read(reads.list_range(SQLITE, (start, end), rev, limit))
        for kv in page.kvs:
            if not kv.value and isinstance(kv.value, Damaged):
                log.error("%s can't be read: %s", kv.key, kv.value.why)
        await self._published(page.rev)
        return page

    async def count(self, start: str, end: str) -> tuple[int, Rev]:
        self._must_be_in_place()
        keys, rev = await self._reader.ask(reads.count(SQLITE, (start, end)))
        return keys, await self._published(rev)

    async def _published(self, rev: Rev) -> Rev:
        """Wait until what was read at `rev` may be answered."""
        if self._must_wait_for(rev):
            if self._writer.lost is not None:
                raise copy.copy(self._writer.lost)
            await self._feed.reached(rev)
        return rev

    def _must_wait_for(self, rev: Rev) -> bool:
        """Whether `rev` was read too early: a read may see our own commit before it is durable and published.

        What isn't durable must not be read, and while this process is alone its counter must not lag behind a read.
        """
        return rev > self._feed.last and (self._alone or self._writer.unsynced)

    def _must_be_in_place(self, rev: Rev = 0) -> None:
        """Raise `FilesMissing` for a read of the current state unless the files are in place.

        Reads of past revisions are still valid.
        """
        if not rev and not self._in_place():
            self._presence.ensure()

    # Writes

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        if len(value) > self.caps.max_value:
            raise TooLarge(len(value), self.caps.max_value)
        return await self._write(key, value, expect, ttl_ms)

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        return await self._write(key, None, expect, None)

    async def reap(self) -> int:
        """Delete expired keys; returns how many were deleted."""
        now_ms = int(self._clock.now() * 1000)
        return await reap(lambda limit: self._reader.ask(reads.expired(SQLITE, now_ms, limit)), self.delete)

    def _write(self, key: str, value: bytes | None, expect: Rev, ttl_ms: int | None) -> asyncio.Future[WriteResult]:
        if not key.isascii():
            _must_be_text(key)
        future: asyncio.Future[WriteResult] = self._loop.create_future()
        self._writer.submit(QueuedWrite(key, value, expect, ttl_ms, future))
        return future

    def _report(self, batch_result: BatchResult) -> None:
        if batch_result.rev:
            # Watches first: whoever gets a result may rely on every watch of this process having had the event.
            self._feed.take(batch_result.floor, batch_result.events, batch_result.rev)
        error = batch_result.error
        if error is None and not self._presence.confirm():
            self._on_missing_files()
            # It was committed to, or decided by, a file that may never be at the path again.
            error = (OutcomeUnknown if batch_result.rev else FilesMissing)(self._presence.problem, 5.0)
        if error is not None:
            if self._writer.lost is not None:
                self._feed.give_up(self._writer.lost)
            for write in batch_result.writes:
                if not write.future.done():
                    write.future.set_exception(copy.copy(error))
            return
        for write, result in zip(batch_result.writes, batch_result.results, strict=True):
            if not write.future.done():
                write.future.set_result(result)

    # Watching

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> RangeWatch:
        watch = RangeWatch((start, end), after, deliver, failed)
        reader = self._reader
        await begin_watch(
            watch,
            self._feed,
            lambda span, between, limit: reader.read(reads.log_of_range(SQLITE, span, between, limit)),
        )
        return watch

    async def request_progress(self) -> None:
        rev = await self.current_rev()
        if self._feed.last < rev:
            await self._feed.reached(rev)
        else:
            self._feed.watchers.publish((), self._feed.last)

    # History

    async def compact(self, rev: Rev) -> None:
        await self._writer.run(compaction.publish(SQLITE, rev))
        while await self._writer.run(compaction.sweep(SQLITE)):
            pass

    async def begin_epoch(self, above: Rev) -> Rev:
        await self._compacted()  # most of it now, so that the transaction isn't long
        rev = await self._writer.run(compaction.begin_epoch(SQLITE, above))
        self._feed.take(rev, (), rev)
        return rev  # other processes see it at their next look at the store

    async def _compacted(self) -> None:
        try:
            await self.compact((await self._read_revs())[0])
        except Compacted:
            pass

    async def disk_bytes(self) -> int:
        real = self._path.resolve()
        return sum(file.stat().st_size for file in (real, Path(f"{real}-wal"), Path(f"{real}-shm")) if file.exists())

    async def check(self, *, quick: bool = False) -> Findings:
        if not quick:
            return await asyncio.to_thread(self._check)
        stop = threading.Event()
        job = in_background(partial(self._quick_check, self._may_go_on(stop)), "oarlock store: check")
        self._checks[job] = stop
        job.add_done_callback(lambda _: self._checks.pop(job, None))
        try:
            return await shared(job)
        except asyncio.CancelledError:
            stop.set()
            raise

    def _may_go_on(self, stop: threading.Event) -> Callable[[], bool]:
        """A function that says whether a check may go on. Its snapshot keeps the log from being reset.

        A long log would slow down writers, so the check stops when the log has grown.
        """
        wal = f"{self._path.resolve()}-wal"

        def go_on() -> bool:
            try:
                return not stop.is_set() and os.path.getsize(wal) <= _LOG_BYTES
            except FileNotFoundError:
                return False

        return go_on

    def _quick_check(self, go_on: Callable[[], bool]) -> Findings:
        with self._one_check:
            try:
                findings = check.quick(self._files.check, go_on)
            except apsw.InterruptError:
                why = "the check was broken off: so much is written that it would have held up others"
                raise Unavailable(why) from None
            except apsw.Error as error:
                findings = [f"SQLite: {error}"]
        if findings:
            self._presence.ensure_now()
        return findings

    def _check(self) -> Findings:
        self._presence.ensure_now()
        try:
            connection = schema.connect(self._path, cache_kib=_CHECK_CACHE_KIB)
            try:
                return check.check(connection)
            finally:
                connection.close()
        except apsw.Error as error:
            return [f"SQLite: {error}"]

    # Other processes

    async def _read_revs(self) -> tuple[Rev, Rev]:
        """The current revision and the compacted revision, linearizable."""
        self._must_be_in_place()
        try:
            rev, compact_rev = self._read_revs_at_once()
        except apsw.ConnectionClosedError:
            raise Unavailable("the store is closed") from None
        except apsw.Error:
            # Busy for a moment, while another process recovers or truncates the log; the loop must not wait.
            rev, compact_rev = await self._reader.ask(reads.revs(SQLITE))
        return await self._published(rev), compact_rev

    def _read_revs_at_once(self) -> tuple[Rev, Rev]:
        """The same in a few microseconds on the event loop. Raises SQLite's own errors."""
        rev, compact_rev = self._files.sync_reader.execute(SQLITE.revs).get
        if rev > self._feed.last:
            self._read_on()
        return rev, compact_rev

    def _read_on(self) -> None:
        """Publish what other processes have committed. Our own commits on the loop are published when synced."""
        if not (self._alone or self._writer.unsynced):
            self._tailer.poll()

    def _on_message(self) -> None:
        kinds = self._files.peers.receive()
        if b"j" in kinds:
            self._share()
        if b"r" in kinds:
            self._read_on()

    def _share(self) -> None:
        """Another process wants to join. The order matters: first `known_rev` becomes None, then the lock is shared."""
        self._stop_being_alone()
        if self._presence.check():
            return  # who came by that path must not begin another history, while this one is being read
        if self._writer.lost is not None:
            return  # nobody may build on a commit that the disk may not have
        self._background.spawn(ignore_failure(self._writer.between(self._files.membership.share)))

    def _stop_being_alone(self) -> None:
        self._joins += 1
        self._alone = False
        if self._next_poll is None:
            self._poll()

    # The files at the path

    def _in_place(self) -> bool:
        """Whether the files of the store were at the path when last checked, a moment ago."""
        if self._presence.checked_lately():
            return True
        self._on_missing_files()
        return False

    def _on_missing_files(self) -> None:
        """The files are not in place. Should they come back, others may have written meanwhile."""
        if not self._files_missing:
            self._files_missing = True
            self._stop_being_alone()
            self._background.spawn(ignore_failure(self._writer.between(self._files.save)))

    async def _check_files(self) -> None:
        """Runs once a second: detects what no read or write has."""
        if self._in_place() and self._files.content.changed():
            await ignore_failure(self._writer.between(self._files.check_content))

    # The others

    def _poll(self) -> None:
        """Runs every 0.1 s beside other processes. Finds commits whose hint was lost, and dead or stuck processes."""
        self._next_poll = self._loop.call_later(_POLL_EVERY_S, self._poll)
        self._polls += 1
        try:
            self._read_revs_at_once()
        except apsw.Error:
            pass
        self._writer.give_up_waiting(self._lock_timeout_s)
        self._files_missing = self._files_missing and not self._in_place()
        if self._polls % _POLLS_PER_REFRESH == 0 and not self._files.peers.refresh():
            self._background.spawn(self._try_alone(self._joins))

    async def _try_alone(self, joins: int) -> None:
        await ignore_failure(self._writer.between(self._files.membership.join))
        if self._files.membership.alone and self._in_place():
            # Nobody else can commit any more. What they did commit is published before `known_rev` is answered.
            await ignore_failure(self._catch_up())
            if joins == self._joins and self._files.membership.alone and self._in_place():
                self._alone = True
                if self._next_poll is not None:
                    self._next_poll.cancel()
                    self._next_poll = None

    async def _catch_up(self) -> None:
        rev, _ = await self._read_revs()
        await self._feed.reached(rev)

    # Closing

    async def _reap_forever(self) -> None:
        while True:
            await asyncio.sleep(REAP_EVERY_S)
            await self._check_files()
            await ignore_failure(self.reap())

    async def _close(self) -> None:
        self._loop.remove_reader(self._files.peers.socket)
        if self._next_poll is not None:
            self._next_poll.cancel()
        for stop in self._checks.values():
            stop.set()
        await self._background.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)
        clean = True
        try:
            await asyncio.wait_for(self._writer.close(), self._lock_timeout_s)
        except TimeoutError:
            # Another process may hang while it holds the commit lock: closing must still be possible.
            clean = False
            self._writer.abandon("the store is closed while another process holds its commit lock")
        await self._tailer.close()
        await self._tail_reader.close()
        await self._reader.close()
        self._alone = False
        self._feed.close(Unavailable("the store is closed"))
        if clean:
            await asyncio.to_thread(self._files.close)
        else:
            self._files.leave()


def _must_be_text(key: str) -> None:
    try:
        key.encode()
    except UnicodeEncodeError:
        raise StorageError(f"the key {key!r} is not text") from None
