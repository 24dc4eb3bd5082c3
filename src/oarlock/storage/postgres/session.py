"""`PostgresSession`: one connection, by asyncpg.

Must not know: what is asked. See also: `driver`, which opens it.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from oarlock.storage.sql.dialect import Rows, Statement
from oarlock.storage.sql.server.session import RevisionHint

__all__ = ["PostgresSession", "ReplicationNotWaited"]

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT meta.rev FROM meta FOR UPDATE"
"""In one message. What the next statement sees was committed by whoever had the lock before."""

_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_WAIT_CANCELLED = "57014"
"""The state of the warning "canceling wait for synchronous replication": committed here, and perhaps nowhere else."""


class ReplicationNotWaited(Exception):
    """A commit was answered before the standby had it, because somebody cancelled the wait."""


class PostgresSession:
    def __init__(self, connection: Any, channel: str, close_s: float) -> None:
        self.connection: Final = connection
        self._channel: Final = channel
        self._close_s: Final = close_s
        self._not_waited = False
        self._timeout_s: float | None = None  # None: the connection's own
        connection.add_log_listener(self._on_message)

    @property
    def closed(self) -> bool:
        return bool(self.connection.is_closed())

    async def fetch(self, statement: Statement) -> Rows:
        rows: Rows = await self.connection.fetch(statement.text, *statement.values, timeout=self._timeout_s)
        return rows

    async def begin(self) -> None:
        await self.connection.execute(_BEGIN)

    async def begin_snapshot(self, statement_s: float = 0) -> None:
        if statement_s:
            self._timeout_s = statement_s
            await self.connection.execute(f"{_SNAPSHOT}; SET LOCAL statement_timeout = {statement_s * 1000:.0f}")
        else:
            await self.connection.execute(_SNAPSHOT)

    async def commit(self) -> None:
        self._not_waited = False
        await self.connection.execute("COMMIT")
        if self._not_waited:
            raise ReplicationNotWaited("an administrator cancelled the wait for the standby")

    async def rollback(self) -> None:
        self._timeout_s = None
        await self.connection.execute("ROLLBACK")

    async def listen(self, hint: RevisionHint) -> None:
        def on_notification(_connection: object, _pid: object, _channel: object, payload: object) -> None:
            text = str(payload)
            hint(int(text) if text.isdigit() else 0)

        await self.connection.add_listener(self._channel, on_notification)

    async def close(self) -> None:
        try:
            await self.connection.close(timeout=self._close_s)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            self.terminate()

    def terminate(self) -> None:
        if not self.connection.is_closed():
            self.connection.terminate()

    def _on_message(self, _connection: object, message: Any) -> None:
        if message.sqlstate == _WAIT_CANCELLED:
            self._not_waited = True
