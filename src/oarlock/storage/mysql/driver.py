"""`MysqlDriver`: connects to the database of a store, makes its tables, and says whose history it has.

Statements that make tables commit by themselves, so first starts take turns by a lock of the server's that is no
table's; what a start that was killed left out is made by the next.

InnoDB shows a commit to others before it is on the disk. A server that crashes may lose what a reader has seen, unless
it flushes a binary log with each commit: then a commit is shown after that. Where it doesn't, each start of the server
is an origin of its own. A start is recognised by a table in memory, which is empty after one.

Must not know: reads and writes of a store. See also: `session`; `dialect` for the tables.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from time import monotonic
from typing import Final

from oarlock.storage.backend import Rev, StorageError, Unavailable
from oarlock.storage.memory import DEFAULT_MAX_VALUE, FIRST_REV
from oarlock.storage.mysql import errors
from oarlock.storage.mysql.address import MysqlAddress
from oarlock.storage.mysql.session import MysqlSession, connect, size_of
from oarlock.storage.sql.dialect import SCHEMA_VERSION, BatchPlan, Dialect, Rows, Statement
from oarlock.storage.sql.server.session import DatabaseSession

__all__ = ["BOOTS_TABLE", "MAX_KEY_BYTES", "TABLES", "MysqlDialect", "MysqlDriver"]

MAX_KEY_BYTES = 2048
"""With the revision beside it, less than the 3072 bytes that an index may have where pages are of 16 KiB."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS meta (id TINYINT PRIMARY KEY, rev BIGINT NOT NULL, compact_rev BIGINT NOT NULL,"
    " swept_rev BIGINT NOT NULL, epoch VARBINARY(64) NOT NULL, schema_version INT NOT NULL,"
    " origin VARBINARY(1024) NOT NULL) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    f"CREATE TABLE IF NOT EXISTS log (rev BIGINT PRIMARY KEY, `key` VARBINARY({MAX_KEY_BYTES}) NOT NULL,"
    " op TINYINT NOT NULL, create_rev BIGINT NOT NULL, prev_rev BIGINT NOT NULL, expires BIGINT, value LONGBLOB,"
    " UNIQUE KEY log_by_key (`key`, rev)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    f"CREATE TABLE IF NOT EXISTS kv (`key` VARBINARY({MAX_KEY_BYTES}) PRIMARY KEY, rev BIGINT NOT NULL,"
    " create_rev BIGINT NOT NULL, expires BIGINT, KEY kv_by_expiry (expires)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
)

BOOTS_TABLE = "CREATE TABLE IF NOT EXISTS boots (id TINYINT PRIMARY KEY, boot VARBINARY(64) NOT NULL) ENGINE=MEMORY"
"""One row, with a name of the server's present run; see `driver`."""

_STATEMENT_BYTES = 512 * 1024
"""A statement has at most so much, or one row."""

_MAX_ROWS = 64
"""Rows per statement: each number of rows is a text to keep."""

_LOG_COLUMNS = 7

# SYSDATE: NOW is the time at which the statement began to wait. The session's time zone is UTC, which has no hour
# twice a year.
_NOW_MS = "CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)"


class MysqlDialect(Dialect):
    now_ms = _NOW_MS

    # A subquery on the table that is deleted from is refused.
    sweep_replaced = (
        "DELETE replaced FROM log AS old JOIN log AS replaced ON replaced.rev = old.prev_rev"
        " WHERE old.rev > ? AND old.rev <= ? AND old.prev_rev > 0"
    )

    def marked(self, text: str) -> str:
        return text

    def unindexed(self, column: str) -> str:
        return f"CONCAT({column})"

    def differ(self, left: str, right: str) -> str:
        return f"NOT ({left} <=> {right})"

    def state(self, keys: Sequence[str]) -> Iterator[Statement]:
        for start in range(0, len(keys), _MAX_ROWS):
            part = keys[start : start + _MAX_ROWS]
            yield Statement(_read(len(part)), part)

    def apply(self, plan: BatchPlan) -> Iterator[Statement]:
        for rows, values in _parts(plan.log, _LOG_COLUMNS):
            yield Statement(_insert_log(rows), values)
        live: list[object] = []
        deleted_keys: list[object] = []
        for key, kv in plan.live.items():
            if kv is None:
                deleted_keys.append(key)
            else:
                live += (key, kv.mod_rev, kv.create_rev, kv.expires)
        for rows, values in _parts(live, 4):
            yield Statement(_upsert_kv(rows), values)
        for rows, values in _parts(deleted_keys, 1):
            yield Statement(_delete_kv(rows), values)
        yield Statement("UPDATE meta SET rev = ?", (plan.rev,))


def _parts(values: Sequence[object], columns: int) -> Iterator[tuple[int, Sequence[object]]]:
    """`values` in rows of so many columns, as many rows together as one statement may have."""
    start = size = 0
    for row in range(0, len(values), columns):
        row_size = sum(map(size_of, values[row : row + columns]))
        if row > start and (size + row_size > _STATEMENT_BYTES or row - start >= _MAX_ROWS * columns):
            yield (row - start) // columns, values[start:row]
            start, size = row, 0
        size += row_size
    if start < len(values):
        yield (len(values) - start) // columns, values[start:]


@cache
def _read(keys: int) -> str:
    return (
        f"SELECT NULL, NULL, meta.rev, 0, {_NOW_MS} FROM meta UNION ALL"
        " SELECT kv.key, log.value, kv.rev, kv.create_rev, kv.expires FROM kv JOIN log ON log.rev = kv.rev"
        f" WHERE kv.key IN ({','.join('?' * keys)})"
    )


@cache
def _insert_log(rows: int) -> str:
    return (
        "INSERT INTO log (rev, `key`, op, create_rev, prev_rev, expires, value)"
        f" VALUES {','.join(['(?,?,?,?,?,?,?)'] * rows)}"
    )


@cache
def _upsert_kv(rows: int) -> str:
    return (
        f"INSERT INTO kv (`key`, rev, create_rev, expires) VALUES {','.join(['(?,?,?,?)'] * rows)} ON DUPLICATE KEY"
        " UPDATE rev = VALUES(rev), create_rev = VALUES(create_rev), expires = VALUES(expires)"
    )


@cache
def _delete_kv(keys: int) -> str:
    return f"DELETE FROM kv WHERE `key` IN ({','.join('?' * keys)})"


log = logging.getLogger("oarlock.storage.mysql")

_OURS = frozenset(("meta", "log", "kv", "boots"))
_TURN_S = 10

_POLL_S = 0.01
_IDLE_POLL_S = 0.03
_BUSY_S = 2.0
"""So long after the last change of the store it is looked for the next more often."""

_LEAST_PACKET = 4 * DEFAULT_MAX_VALUE
"""A value as text may be twice as long, beside other statements; a row of events has it and the one before it."""


class MysqlDriver:
    """The driver for `address`."""

    def __init__(self, address: MysqlAddress) -> None:
        self._address: Final = address
        self.dialect = MysqlDialect()
        self.name = address.shown
        self.max_key = MAX_KEY_BYTES
        self._rev: Rev = 0
        self._busy_until = 0.0

    @property
    def poll_s(self) -> float:
        return _POLL_S if monotonic() < self._busy_until else _IDLE_POLL_S

    async def connect(self) -> DatabaseSession:
        session = await connect(self._address)
        session.on_rows = self._note
        return session

    def _note(self, statement: Statement, rows: Rows) -> None:
        """Notice that the store's revision is another than at the last look."""
        if statement.text == self.dialect.revs and rows[0][0] != self._rev:
            self._rev, self._busy_until = rows[0][0], monotonic() + _BUSY_S

    async def prepare(self, session: DatabaseSession, create: bool) -> None:
        assert isinstance(session, MysqlSession)
        await self._check_settings(session)
        async with self._turn(session):
            await self._prepare(session, create)

    look_around_s = 0.0

    async def overtaken(self) -> str:
        return ""

    async def origin(self, session: DatabaseSession) -> str:
        assert isinstance(session, MysqlSession)
        # MySQL has an identity of its own; MariaDB is what runs at a place. A restored dump makes the table anew.
        identity = "datadir" if session.mariadb else "server_uuid"
        rows = await session.query(
            b"SELECT CONCAT_WS(' ', @@GLOBAL.hostname, @@GLOBAL.port, @@GLOBAL.server_id, @@GLOBAL.%b, create_time),"
            b" @@GLOBAL.log_bin AND @@GLOBAL.sync_binlog = 1 AND @@GLOBAL.innodb_flush_log_at_trx_commit = 1"
            b" FROM information_schema.tables WHERE table_schema = DATABASE() AND LOWER(table_name) = 'meta'"
            % identity.encode()
        )
        place, shown_when_durable = rows[0]
        return str(place) if shown_when_durable else f"{place} {await self._boot(session)}"

    def translate(self, error: Exception) -> StorageError:
        return errors.translate(error)

    def refused(self, error: Exception) -> bool:
        return errors.refused(error)

    async def _boot(self, session: MysqlSession) -> str:
        """A name of this run of the server, which the first that asks gives."""
        # Not in a transaction: a server with GTIDs refuses tables in memory there.
        await session.fetch(Statement("INSERT IGNORE INTO boots VALUES (1, ?)", (secrets.token_hex(8),)))
        rows = await session.query(b"SELECT boot FROM boots WHERE id = 1")
        return str(rows[0][0])

    async def _check_settings(self, session: MysqlSession) -> None:
        """Refuse a server that can't take our statements; warn of settings with which an acknowledged write is lost."""
        rows = await session.query(
            b"SELECT @@GLOBAL.max_allowed_packet, @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.log_bin,"
            b" @@GLOBAL.sync_binlog, @@GLOBAL.innodb_doublewrite"
        )
        packet, flush, binary_log, sync_binary_log, double_write = (str(value) for value in rows[0])
        if int(packet) < _LEAST_PACKET:
            raise StorageError(f"its max_allowed_packet is {packet}: set it to {_LEAST_PACKET} or more")
        risks = []
        if flush != "1":
            risks.append(f"innodb_flush_log_at_trx_commit is {flush}: a crash loses acknowledged writes; set it to 1")
        if double_write in ("0", "OFF"):
            risks.append("innodb_doublewrite is off: a power failure may tear pages; turn it on")
        if binary_log in ("1", "ON") and sync_binary_log != "1":
            risks.append(f"sync_binlog is {sync_binary_log}: a crash may lose acknowledged writes; set it to 1")
        for risk in risks:
            log.warning("%s: %s", self.name, risk)

    @asynccontextmanager
    async def _turn(self, session: MysqlSession) -> AsyncIterator[None]:
        """While no other process is in such a block for the same database."""
        name = f"oarlock {hashlib.sha256(self._address.database.encode()).hexdigest()[:32]}"
        rows = await session.fetch(Statement("SELECT GET_LOCK(?, ?)", (name, _TURN_S)))
        if rows[0][0] != 1:
            raise Unavailable(f"another process has been making its tables for {_TURN_S} s")
        try:
            yield
        finally:
            if not session.closed:
                await session.fetch(Statement("SELECT RELEASE_LOCK(?)", (name,)))

    async def _prepare(self, session: MysqlSession, create: bool) -> None:
        rows = await session.query(
            b"SELECT LOWER(table_name), engine FROM information_schema.tables WHERE table_schema = DATABASE()"
        )
        engines = {str(name): str(engine) for name, engine in rows}
        foreign = sorted(set(engines) - _OURS) or (["meta"] if await _is_foreign(session) else [])
        if foreign:
            raise StorageError(f"its table {foreign[0]} is of another program; give oarlock a database of its own")
        if "meta" not in engines and not create:
            raise StorageError("this database contains no store")
        for name in sorted(set(engines) - {"boots"}):
            if engines[name] != "InnoDB":
                raise StorageError(f"its table {name} is of {engines[name]}, which loses writes; it must be of InnoDB")
        if not set(engines) >= _OURS:
            for text in (*TABLES, BOOTS_TABLE):
                await session.query(text.encode())
        await session.fetch(
            Statement(
                "INSERT IGNORE INTO meta (id, rev, compact_rev, swept_rev, epoch, schema_version, origin)"
                " VALUES (1, ?, 0, 0, ?, ?, ?)",
                (FIRST_REV, secrets.token_hex(8), SCHEMA_VERSION, await self.origin(session)),
            )
        )
        rows = await session.query(b"SELECT schema_version FROM meta")
        version = int(rows[0][0])
        if version > SCHEMA_VERSION:
            raise StorageError(
                f"a newer oarlock made it (schema {version}, this one knows {SCHEMA_VERSION});"
                " upgrade oarlock or choose another database"
            )


async def _is_foreign(session: MysqlSession) -> bool:
    """Whether there is a table called ``meta`` that isn't ours."""
    rows = await session.query(
        b"SELECT COUNT(*), SUM(LOWER(column_name) IN ('swept_rev', 'epoch', 'origin')) FROM information_schema.columns"
        b" WHERE table_schema = DATABASE() AND LOWER(table_name) = 'meta'"
    )
    columns, ours = rows[0]
    return int(columns) > 0 and int(ours) != 3
