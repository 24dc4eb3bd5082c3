"""`MysqlSession`: one connection, set up so that statements mean the same on every server.

A connection that was cancelled, or lost, in the middle of a statement can't be used again, and is closed at once.

Must not know: what statements do. See also: `literals`, whose two rules are kept here; `driver`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import asyncmy
from asyncmy import errors
from asyncmy.constants import FIELD_TYPE
from asyncmy.converters import conversions

from oarlock.storage.backend import StorageError, Unavailable
from oarlock.storage.mysql.address import MysqlAddress, MysqlHost
from oarlock.storage.mysql.errors import DRIVER_ERRORS, NotSent, is_lost
from oarlock.storage.sql.dialect import Rows, Statement
from oarlock.storage.sql.server.session import RevisionHint

__all__ = ["PROBE", "MysqlSession", "connect", "literal", "probe", "render", "size_of"]

PROBE = bytes(range(256)) + "\u0800é\U0001f600".encode() + b"\\'\"\0\x1a\xbf\\\xbf'"
"""Every byte, and what character sets and escapes have been confused by."""


def literal(value: object) -> bytes:
    """`value` as a literal of SQL. Text is written as its bytes in UTF-8, as the tables have it."""
    if type(value) is int:
        return b"%d" % value
    if type(value) is str:
        value = value.encode()
    if type(value) is bytes:
        return b"_binary'" + value.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
    if value is None:
        return b"NULL"
    if isinstance(value, int):
        return b"%d" % int(value)
    raise TypeError(f"no literal for a value of type {type(value).__name__}")


def size_of(value: object) -> int:
    """How many bytes the literal has at most."""
    if type(value) is bytes:
        return 2 * len(value) + 16
    if type(value) is str:
        return 8 * len(value) + 16
    return 24


def render(text: str, values: Sequence[object] = ()) -> bytes:
    """`text` with a literal in the place of each ``?``."""
    pieces = _pieces(text)
    if len(pieces) != len(values) + 1:
        raise TypeError(f"{len(values)} values for {len(pieces) - 1} placeholders")
    parts: list[bytes] = [b""] * (2 * len(values) + 1)
    parts[::2] = pieces
    parts[1::2] = [literal(value) for value in values]
    return b"".join(parts)


def probe() -> bytes:
    """A query whose one value is the hexadecimal form of `PROBE`, if the server reads literals as they are meant."""
    return b"SELECT HEX(" + literal(PROBE) + b")"


@lru_cache(maxsize=1024)
def _pieces(text: str) -> list[bytes]:
    return text.encode().split(b"?")


_CONNECT_S = 5.0
_LEAVE_S = 1.0

_LOCK_WAIT_S = 10
"""How long a statement waits for another transaction's lock: longer than any batch, shorter than a request."""

_IDLE_TRANSACTION_S = 10
"""A process that is stopped in the middle of a transaction loses it after so long; MariaDB only."""

_OLDEST_MARIADB = (10, 6)
_OLDEST_MYSQL = (8, 0)

_BEGIN = (
    b"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; SELECT rev FROM meta WHERE id = 1 FOR UPDATE"
)
_BEGIN_SNAPSHOT = b"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"

_RETURN_NOTHING = ("INSERT ", "UPDATE ", "DELETE ")
_UNSENT_BYTES = 1024 * 1024

_DECODERS = {
    **conversions,
    # Of the columns that have text, those of the tables are keys: UTF-8 in VARBINARY. Values have another type.
    FIELD_TYPE.VAR_STRING: lambda text: text if isinstance(text, str) else text.decode(),
}


class MysqlSession:
    """A connection to `host`, by the driver's connection.

    In a transaction of `begin`, statements that return no rows are sent together with the next one that does, or before
    the commit: a batch is four messages, however many statements it has. Their errors come then.
    """

    def __init__(self, connection: Any, host: MysqlHost) -> None:
        self._connection: Final = connection
        self._unsent: list[bytes] | None = None
        self._unsent_bytes = 0
        self.on_rows: Callable[[Statement, Rows], None] | None = None
        self.host: Final = host
        self.version: Final[str] = connection.server_version
        self.mariadb: Final = "mariadb" in self.version.lower()

    @property
    def closed(self) -> bool:
        return not self._connection.connected or self._connection._stream_broken

    async def fetch(self, statement: Statement) -> Rows:
        text = render(*statement)
        if self._unsent is None:
            rows = await self.query(text)
            if self.on_rows is not None:
                self.on_rows(statement, rows)
            return rows
        self._unsent.append(text)
        self._unsent_bytes += len(text)
        if statement.text.startswith(_RETURN_NOTHING) and self._unsent_bytes < _UNSENT_BYTES:
            return ()
        return await self._send()

    async def _send(self) -> Rows:
        texts, self._unsent, self._unsent_bytes = self._unsent or (), [], 0
        return await self.query(b";".join(texts)) if texts else ()

    async def query(self, text: bytes) -> Rows:
        """The rows of a text without placeholders; those of its last statement, if it has several."""
        connection = self._connection
        try:
            await connection.query(text)
            rows = connection._result.rows
            while connection._result.has_next:
                await connection.next_result()
                rows = connection._result.rows
        except errors.MySQLError as error:
            if is_lost(error):
                self.terminate()
            raise
        except BaseException:
            self.terminate()
            raise
        return rows or ()

    async def begin(self) -> None:
        await self.query(_BEGIN)
        self._unsent = []

    async def begin_snapshot(self, statement_s: float = 0) -> None:
        # No statement has a limit of the server's here.
        await self.query(_BEGIN_SNAPSHOT)

    async def commit(self) -> None:
        try:
            await self._send()
        except DRIVER_ERRORS as error:
            raise NotSent(error) from error
        self._unsent = None
        await self.query(b"COMMIT")

    async def rollback(self) -> None:
        self._unsent, self._unsent_bytes = None, 0
        await self.query(b"ROLLBACK")

    async def listen(self, hint: RevisionHint) -> None:
        """Nothing: the server has no hints, so commits of others are found by polling."""

    async def close(self) -> None:
        try:
            async with asyncio.timeout(_LEAVE_S):
                await self._connection.ensure_closed()
        except DRIVER_ERRORS:
            pass
        finally:
            self.terminate()

    def terminate(self) -> None:
        self._connection.close()


async def connect(address: MysqlAddress) -> MysqlSession:
    """Connect to the first host of `address` that may be written to; raises what the last one met."""
    for host in address.hosts[:-1]:
        try:
            return await _connect(address, host)
        except StorageError:
            pass
        except DRIVER_ERRORS:
            pass
    return await _connect(address, address.hosts[-1])


async def _connect(address: MysqlAddress, host: MysqlHost) -> MysqlSession:
    tls = address.tls(host)
    async with asyncio.timeout(_CONNECT_S):
        connection = await asyncmy.connect(
            host=host.name,
            port=host.port,
            user=address.user,
            password=address.password(),
            database=address.database,
            charset="utf8mb4",
            autocommit=None,
            connect_timeout=_CONNECT_S,
            ssl=tls,
            program_name="oarlock",
            conv=_DECODERS,
        )
        session = MysqlSession(connection, host)
        try:
            _raise_if_cancelled()
            await _set_up(session)
        except BaseException:
            session.terminate()
            raise
    return session


def _raise_if_cancelled() -> None:
    """The driver connects within `asyncio.wait_for`, which may lose a cancellation before Python 3.12."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _set_up(session: MysqlSession) -> None:
    _must_be_known(session)
    settings = [
        "NAMES utf8mb4",
        "SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1",
        f"SESSION innodb_lock_wait_timeout = {_LOCK_WAIT_S}, lock_wait_timeout = {_LOCK_WAIT_S}",
        "SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        *([f"SESSION idle_transaction_timeout = {_IDLE_TRANSACTION_S}"] if session.mariadb else []),
    ]
    await session.query("; ".join(f"SET {setting}" for setting in settings).encode())
    rows = await session.query(probe())
    if rows[0][0] != PROBE.hex().upper():
        raise StorageError("what is between here and the database changes the bytes of statements")
    rows = await session.query(b"SELECT @@GLOBAL.read_only")
    if str(rows[0][0]) not in ("0", "OFF"):
        raise Unavailable(f"the database at {session.host} is read-only: is it a replica?")


def _must_be_known(session: MysqlSession) -> None:
    """Raise `StorageError` for a server that is too old."""
    # MariaDB puts 5.5.5- before its version, for clients that are older than itself.
    number = session.version.removeprefix("5.5.5-")
    major, minor = (int(part) for part in number.split(".")[:2])
    name, oldest = ("MariaDB", _OLDEST_MARIADB) if session.mariadb else ("MySQL", _OLDEST_MYSQL)
    if (major, minor) < oldest:
        raise StorageError(f"the database is {name} {number}; {'.'.join(map(str, oldest))} is the oldest that is known")
