"""The dialect of MariaDB and MySQL, and the tables.

Keys are VARBINARY: compared byte by byte, without the padding and case of collations. The lock is the row of ``meta``,
and the states are read after it is held: in READ COMMITTED each statement sees what was committed before it.

Must not know: drivers, connections. See also: `literals` for how values get into the texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from oarlock.storage.mysql.literals import size_of
from oarlock.storage.sql.dialect import Dialect
from oarlock.storage.sql.plan import BatchPlan
from oarlock.storage.sql.statements import Statement

__all__ = ["BOOTS_TABLE", "MAX_KEY_BYTES", "TABLES", "MysqlDialect"]

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
