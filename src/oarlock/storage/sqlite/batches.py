"""`Batches`: the transactions on the connection that writes. Whoever calls it has the connection to itself.

Must not know: threads, who commits next. See also: `writer`, which decides that, and `sql.reads`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

import apsw

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import OutcomeUnknown, Rev, StorageError, StoreEvent, WriteResult
from oarlock.storage.sql.dialect import QueuedWrite, StatementSteps
from oarlock.storage.sql.reads import StoreBroken, log_after, write_batch
from oarlock.storage.sqlite.check import SQLITE, run, run_in_snapshot
from oarlock.storage.sqlite.files import Files
from oarlock.storage.sqlite.schema import translate

__all__ = ["BatchResult", "Batches"]

T = TypeVar("T")

_RESTART_AFTER_S = 30.0

_TRUNCATE_PAGES = 16_000
"""A reader has kept the write-ahead log from being reused: wait for it."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch: results in order, or one error for all; events complete above `floor` up to `rev`."""

    writes: Sequence[QueuedWrite]
    results: Sequence[WriteResult] = ()
    error: StorageError | None = None
    floor: Rev = 0
    events: Sequence[StoreEvent] = ()
    rev: Rev = 0


class Batches:
    """`broken` is the error after which this process must not write again; `log_pages` is how long the log is."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files: Final = files
        self._clock: Final = clock
        self._connection: Final = files.connection
        self.broken: StorageError | None = None
        self.log_pages = 0
        self._connection.set_wal_hook(self._log_grew)

    def must_be_able(self) -> None:
        """Raise the reason why this process can't commit, if there is one."""
        if self.broken is not None:
            raise self.broken
        if self._files.presence.problem:
            self._files.presence.ensure_now()
        self._files.membership.ensure()

    def begin(self) -> None:
        """Begin a transaction that writes. Raises what SQLite does, `apsw.BusyError` if another program writes."""
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self, writes: list[QueuedWrite]) -> BatchResult:
        """Decide and commit `writes` in the transaction that was begun. Raises `StorageError`."""
        connection = self._connection
        committing = False
        try:
            batch_plan = run(connection, write_batch(SQLITE, writes, int(self._clock.now() * 1000)))
            if not batch_plan.events:
                connection.execute("ROLLBACK")
                return BatchResult(writes, batch_plan.results)
            committing = True
            connection.execute("COMMIT")
        except Exception as error:
            translated = self.translate(error)
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if committing and isinstance(translated, StoreBroken):
                # The commit may be on the disk although SQLite was told it isn't.
                raise OutcomeUnknown(str(translated), translated.retry_after_s) from error
            raise translated from error
        return BatchResult(writes, batch_plan.results, None, batch_plan.floor, batch_plan.events, batch_plan.rev)

    def with_others(self, batch_result: BatchResult, base: Rev) -> BatchResult:
        """The result, preceded by what other processes committed since `base`: the loop publishes without a gap."""
        count = batch_result.floor - base
        try:
            log_range = run_in_snapshot(self._connection, log_after(SQLITE, base, count))
        except Exception as error:
            # The writes are durable and must be acknowledged; the feed sees the gap and ends the watches.
            self.translate(error)
            return batch_result
        floor = min(log_range.floor, batch_result.floor)
        others = [event for event in log_range.events if event.rev <= batch_result.floor]
        return BatchResult(
            batch_result.writes, batch_result.results, None, floor, [*others, *batch_result.events], batch_result.rev
        )

    def transact(self, steps: StatementSteps[T]) -> T:
        """Run `steps` in a transaction of its own under the commit lock."""
        self.must_be_able()
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

    def checkpoint(self) -> None:
        """Checkpoint the write-ahead log into the file. A failure loses nothing: the data stays in the log."""
        pages, self.log_pages = self.log_pages, 0
        if self.broken is not None or self._files.presence.problem or not pages:
            return
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if pages >= _TRUNCATE_PAGES else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            with self._files.commit_lock.held():
                if self._files.is_ours():
                    self._connection.wal_checkpoint(mode=mode)
        except Exception as error:
            self.translate(error)

    def sync_failed(self, errno: int) -> OutcomeUnknown:
        """A commit's sync failed: it may be on the disk or not, and nothing must be written after it."""
        error = self.translate(OSError(errno, os.strerror(errno)))
        return OutcomeUnknown(str(error), _RESTART_AFTER_S)

    def translate(self, error: Exception) -> StorageError:
        """The `StorageError` for `error`, which may be the one that breaks the store."""
        translated = translate(error, str(self._files.path), self._connection)
        if isinstance(translated, StoreBroken):
            self.broken = translated
        return translated

    def _log_grew(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.log_pages = pages
        return apsw.SQLITE_OK
