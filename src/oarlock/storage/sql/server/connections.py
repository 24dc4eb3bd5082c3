"""Sessions of a backend: opened when needed, verified, used again, and opened anew after they broke.

When the server can't be reached, one connection is tried at a time, with pauses that grow; who needs one waits a
moment, so that a restart of the database is a delay and no error, then gets `Unavailable`.

Must not know: what is asked, any particular database. See also: `session`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff
from oarlock.storage.backend import StorageError, Unavailable
from oarlock.storage.sql.server.session import DatabaseSession, Driver

__all__ = ["Connector", "Pool", "SqlDeadlines"]

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
