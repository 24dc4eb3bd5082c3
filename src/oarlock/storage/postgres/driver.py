"""`PostgresDriver`: connects to the database of a URL, with the settings that the store relies on.

Must not know: batches, watches. See also: `oarlock.storage.sql.server.session` for what a driver provides.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import asyncpg

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import StorageError, Unavailable
from oarlock.storage.postgres import errors, tables
from oarlock.storage.postgres.dialect import PostgresDialect
from oarlock.storage.postgres.hosts import Lineage, SeenHost, choose_host, look_at, parse_lineage, refuse_older
from oarlock.storage.postgres.session import PostgresSession
from oarlock.storage.postgres.url import PostgresUrl
from oarlock.storage.sql.dialect import Statement
from oarlock.storage.sql.server.session import DatabaseSession

__all__ = ["PostgresDriver", "PostgresTimeouts"]

_OLDEST = 13


@dataclass(frozen=True, slots=True)
class PostgresTimeouts:
    """How long the server waits for something, in seconds."""

    lock_s: float = 10.0
    """For the lock of the store."""
    statement_s: float = 25.0
    idle_s: float = 15.0
    """For the next statement of a transaction: then it ends it, and with it the lock."""
    close_s: float = 2.0


_TIMEOUTS = PostgresTimeouts()

_SETTINGS = """
SET search_path = "{schema}";
SELECT set_config('synchronous_commit', 'on', false)
  WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
SET statement_timeout = {statement_ms:.0f};
SET lock_timeout = {lock_ms:.0f};
SET idle_in_transaction_session_timeout = {idle_ms:.0f};
SET jit = off;
"""

_ORIGIN = (
    # The timeline is another after each promotion and each recovery to a point in time, the table's number after a
    # dump was restored. All of it can be read with ordinary rights.
    "SELECT format('system %s timeline %s table %s', (SELECT system_identifier FROM pg_control_system()),"
    " left(pg_walfile_name(pg_current_wal_lsn()), 8), 'meta'::regclass::oid)"
)

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}

_UNREACHABLE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What a host that can't be asked raises."""

log = logging.getLogger("oarlock.storage.postgres")


class PostgresDriver:
    """The store in one schema of a database."""

    poll_s = 0.5
    look_around_s = 15.0
    max_key = 2_600

    def __init__(self, url: PostgresUrl, timeouts: PostgresTimeouts = _TIMEOUTS) -> None:
        self._timeouts: Final = timeouts
        self.name: Final = url.name
        self._url: Final = url
        self._known: Lineage | None = None
        self._used = ""
        self._channel: Final = f"oarlock_{url.schema}"
        self.dialect: Final = PostgresDialect(self._channel)
        self._settings: Final = _SETTINGS.format(
            schema=url.schema,
            statement_ms=timeouts.statement_s * 1000,
            lock_ms=timeouts.lock_s * 1000,
            idle_ms=timeouts.idle_s * 1000,
        )

    @property
    def lineage(self) -> str:
        """The newest history of the database that was seen; ``""`` before. Set, it is what was remembered."""
        return "" if self._known is None else str(self._known)

    @lineage.setter
    def lineage(self, remembered: str) -> None:
        self._known = parse_lineage(remembered)

    async def connect(self) -> DatabaseSession:
        host = await self._primary()
        connection = host.connection
        try:
            _keep_alive(connection)
            async with asyncio.timeout(self._url.connect_timeout_s):
                await connection.execute(self._settings)
        except BaseException:
            connection.terminate()
            raise
        self._known, self._used = host.lineage, host.name
        return PostgresSession(connection, self._channel, self._timeouts.close_s)

    async def _primary(self) -> SeenHost:
        """A new connection to the host that may be written to."""
        hosts = self._url.hosts
        if len(hosts) < 2:
            host = await self._look()
            try:
                refuse_older(host, self._known)
            except StorageError:
                host.connection.terminate()
                raise
            return host
        for place in hosts:
            # The host that was right goes on to be, unless its history is another one now.
            if _shown(place) == self._used:
                try:
                    host = await self._look(place)
                except _UNREACHABLE:
                    break
                if host.writable and host.lineage == self._known:
                    return host
                host.connection.terminate()
        return await self._newest(hosts)

    async def _newest(self, places: Sequence[tuple[str, int]]) -> SeenHost:
        """The right one of all hosts that can be reached."""
        looks = [asyncio.create_task(self._look(place)) for place in places]
        chosen: SeenHost | None = None
        try:
            await asyncio.wait(looks)
            found = [look.result() for look in looks if look.exception() is None]
            if not found:
                why = (
                    f"{_shown(place)}: {errors.translate(error)}"
                    for place, look in zip(places, looks, strict=True)
                    if isinstance(error := look.exception(), Exception)
                )
                raise Unavailable("; ".join(why), 1.0)
            chosen = choose_host(found, self._known, self._used)
            return chosen
        finally:
            for look in looks:
                if not look.done():
                    look.cancel()
                elif not look.cancelled() and look.exception() is None and look.result() is not chosen:
                    look.result().connection.terminate()

    async def _look(self, place: tuple[str, int] | None = None) -> SeenHost:
        """Connect to one host, or to the only one, and ask it what it is."""
        where: dict[str, Any] = {}
        if place is not None:
            where = {"host": place[0], "port": place[1], "target_session_attrs": "any"}
        timeout_s = self._url.connect_timeout_s
        connection: Any = await asyncpg.connect(
            self._url.dsn, timeout=timeout_s, command_timeout=self._timeouts.statement_s + 2, **where
        )
        try:
            async with asyncio.timeout(timeout_s):
                host = await look_at(_shown(place) if place is not None else self.name, connection)
        except BaseException:
            connection.terminate()
            raise
        return replace(host, writable=host.primary) if self._url.any_primary else host

    async def overtaken(self) -> str:
        for place in self._url.hosts:
            if _shown(place) == self._used:
                continue
            try:
                host = await self._look(place)
            except _UNREACHABLE:
                continue
            host.connection.terminate()
            if self._known is not None and self._known.is_older(host.lineage):
                why = f"{host.name} is on timeline {host.lineage.timeline}, and {self._used} on {self._known.timeline}"
                self._known, self._used = host.lineage, ""  # so that the old one is refused from now on
                return why
        return ""

    async def prepare(self, session: DatabaseSession, create: bool) -> None:
        assert isinstance(session, PostgresSession)
        connection = session.connection
        version = connection.get_server_version()
        if version.major < _OLDEST:
            raise StorageError(f"it is PostgreSQL {version.major}; {_OLDEST} or later is needed")
        await tables.prepare(connection, self._url.schema, create, _ORIGIN)
        for setting in ("fsync", "full_page_writes"):
            if await connection.fetchval("SELECT current_setting($1)", setting) != "on":
                log.warning(
                    "%s: %s is off: acknowledged writes may be lost when its machine crashes", self.name, setting
                )

    async def origin(self, session: DatabaseSession) -> str:
        rows = await session.fetch(Statement(_ORIGIN))
        return str(rows[0][0])

    def translate(self, error: Exception) -> StorageError:
        return errors.translate(error)

    def refused(self, error: Exception) -> bool:
        return errors.refused(error)


def _shown(place: tuple[str, int]) -> str:
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _keep_alive(connection: Any) -> None:
    """Notice within half a minute that the other end has gone without a word."""
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
