"""What the driver of a database server provides, and how operations run on it.

Must not know: any particular database. See also: `oarlock.storage.sql.dialect`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from oarlock.storage.backend import Rev, StorageError
from oarlock.storage.sql.compaction import begin_epoch
from oarlock.storage.sql.dialect import Dialect, Rows, Statement, StatementSteps
from oarlock.storage.sql.reads import Meta, read_meta

__all__ = ["DatabaseSession", "Driver", "RevisionHint", "run", "verify"]

T = TypeVar("T")

RevisionHint = Callable[[Rev], None]
"""Called with a revision that somebody may have committed; 0 when it isn't known which."""


class DatabaseSession(Protocol):
    """One connection to the server. Methods raise the driver's own errors; every one has a deadline.

    After an error, and after a call that was cancelled, it is terminated by its user.
    """

    @property
    def closed(self) -> bool:
        """Whether it is known to be of no use any more."""
        ...

    async def fetch(self, statement: Statement) -> Rows: ...

    async def begin(self) -> None:
        """Begin a transaction in which each statement sees what is committed, and take the lock of the store."""
        ...

    async def begin_snapshot(self, statement_s: float = 0) -> None:
        """Begin a transaction that only reads, and sees one state.

        Each statement of it may take `statement_s` seconds; 0: as always.
        """
        ...

    async def commit(self) -> None:
        """Commit, durably."""
        ...

    async def rollback(self) -> None: ...

    async def listen(self, hint: RevisionHint) -> None:
        """Call `hint` soon after commits of anybody, as long as the session lives, if the server can tell."""
        ...

    async def close(self) -> None: ...

    def terminate(self) -> None:
        """Drop the connection without waiting for anything. What has no COMMIT is rolled back by the server."""
        ...


class Driver(Protocol):
    """Connects to the database of one store."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def name(self) -> str:
        """The store as messages show it, without a password."""
        ...

    @property
    def poll_s(self) -> float:
        """How often to look for commits whose hint was lost; where there are no hints, for all. At most 1."""
        ...

    @property
    def max_key(self) -> int:
        """The largest key in bytes."""
        ...

    async def connect(self) -> DatabaseSession:
        """A new session, on a server that takes writes. Raises its own errors, or `StorageError`."""
        ...

    async def prepare(self, session: DatabaseSession, create: bool) -> None:
        """Make sure that the tables are there and of a known version; with `create`, make them if absent.

        Several processes may do it at once. Raises `StorageError` with a one-line message.
        """
        ...

    @property
    def look_around_s(self) -> float:
        """How often `overtaken` is asked; 0 if the driver can't tell."""
        ...

    async def overtaken(self) -> str:
        """Why the sessions of now must not be used any more: another server has taken over. ``""`` if none has."""
        ...

    async def origin(self, session: DatabaseSession) -> str:
        """Identifies the history that the server continues; another after a failover or restore, where it can tell."""
        ...

    def translate(self, error: Exception) -> StorageError:
        """The error of the protocol for one of the driver's. It is `Unavailable` for what may be tried again."""
        ...

    def refused(self, error: Exception) -> bool:
        """Whether `error`, raised by a COMMIT, is the server's word that the transaction was rolled back."""
        ...


async def run(session: DatabaseSession, steps: StatementSteps[T]) -> T:
    """The result of an operation."""
    try:
        statement = next(steps)
        while True:
            try:
                rows = await session.fetch(statement)
            except Exception as error:
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result


log = logging.getLogger("oarlock.storage.sql")


async def verify(driver: Driver, session: DatabaseSession, seen: Rev) -> Meta:
    """The row of ``meta``, in a history that continues the one in which `seen` was seen.

    Begins another epoch if it has to be, which only the first of several processes does.
    """
    dialect = driver.dialect
    origin = await driver.origin(session)
    meta, why = await run(session, _compare(dialect, origin, seen))
    if not why:
        return meta
    await session.begin()
    # Somebody else may have done it while this process waited for the lock.
    meta, why = await run(session, _compare(dialect, origin, seen))
    if not why:
        await session.rollback()
        return meta
    meta = await run(session, _begin_again(dialect, origin, seen))
    await session.commit()
    log.warning("%s: %s: a new epoch begins at revision %d, and clients list again", driver.name, why, meta.rev)
    return meta


def _compare(dialect: Dialect, origin: str, seen: Rev) -> StatementSteps[tuple[Meta, str]]:
    """The row of ``meta``, and why it isn't of the history that was seen; ``""`` if it is."""
    rows = yield Statement(dialect.origin)
    meta, recorded = Meta(*rows[0][:4]), rows[0][4]
    why = ""
    if meta.rev < seen:
        why = f"the store is at revision {meta.rev} and was at {seen}"
    elif recorded != origin:
        why = f"the database was restored, or another server took over (it is {origin}, it was {recorded})"
    return meta, why


def _begin_again(dialect: Dialect, origin: str, seen: Rev) -> StatementSteps[Meta]:
    yield from begin_epoch(dialect, seen)
    yield Statement(dialect.note_origin, (origin,))
    return (yield from read_meta(dialect))
