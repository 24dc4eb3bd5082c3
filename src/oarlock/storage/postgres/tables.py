"""The tables in PostgreSQL: making them, and recognising those of a store.

They are in a schema of their own, so that one database may hold several stores, or belong to others as well.

Must not know: revisions, events. See also: `oarlock.storage.sql.dialect` for what the tables mean.
"""

from __future__ import annotations

import secrets
from typing import Any

from oarlock.storage.backend import StorageError
from oarlock.storage.memory import FIRST_REV
from oarlock.storage.sql.dialect import SCHEMA_VERSION

__all__ = ["prepare"]

_COLUMNS = (
    "SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
    " WHERE c.relnamespace = to_regnamespace($1) AND a.attnum > 0 AND c.relkind IN ('r', 'p', 'v')"
)

_OURS = frozenset(
    {"meta.rev", "meta.compact_rev", "meta.swept_rev", "meta.epoch", "meta.origin", "meta.schema_version"}
)

_CREATE = """
CREATE TABLE meta (
  id smallint PRIMARY KEY CHECK (id = 1),
  rev bigint NOT NULL,
  compact_rev bigint NOT NULL,
  swept_rev bigint NOT NULL,
  epoch text NOT NULL,
  origin text NOT NULL,
  schema_version integer NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE log (
  rev bigint PRIMARY KEY,
  key text COLLATE "C" NOT NULL,
  op smallint NOT NULL,
  create_rev bigint NOT NULL,
  prev_rev bigint NOT NULL,
  expires bigint,
  value bytea
);
CREATE UNIQUE INDEX log_by_key ON log (key, rev);
CREATE TABLE kv (
  key text COLLATE "C" PRIMARY KEY,
  rev bigint NOT NULL,
  create_rev bigint NOT NULL,
  expires bigint
);
CREATE INDEX kv_by_expiry ON kv (expires) WHERE expires IS NOT NULL;
"""

_LOCK = 0x6F61726C
"""The advisory lock of who makes tables: "oarl"."""

Connection = Any
"""Of asyncpg, which has no types."""


async def prepare(connection: Connection, schema: str, create: bool, origin_query: str) -> None:
    """Make the tables if they are absent and `create` says so; check that they are a store of a known version.

    Raises `StorageError` with a one-line message.
    """
    encoding = await connection.fetchval("SELECT current_setting('server_encoding')")
    if encoding != "UTF8":
        raise StorageError(f"the database is encoded in {encoding}: create one WITH ENCODING 'UTF8' TEMPLATE template0")
    if not await _columns(connection, schema):
        if not create:
            raise StorageError(f"its schema {schema!r} contains no store")
        async with connection.transaction():
            # Several servers may start at once on an empty database; only the first finds it empty.
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            if not await _columns(connection, schema):
                await _create(connection, schema, origin_query)
    if not await connection.fetchval("SELECT has_schema_privilege($1, 'USAGE')", schema):
        raise StorageError(f"the user lacks rights: GRANT USAGE ON SCHEMA {schema} and its tables")
    missing = _OURS - await _columns(connection, schema)
    if missing:
        raise StorageError(f"its schema {schema!r} isn't a store: it lacks {', '.join(sorted(missing))}")
    version = await connection.fetchval("SELECT meta.schema_version FROM meta")
    if version is None:
        raise StorageError(f"its schema {schema!r} is not a store: the table meta is empty")
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"a newer oarlock made it (schema {version}, this one knows {SCHEMA_VERSION}); upgrade oarlock"
        )


async def _columns(connection: Connection, schema: str) -> set[str]:
    return {row[0] for row in await connection.fetch(_COLUMNS, schema)}


async def _create(connection: Connection, schema: str, origin_query: str) -> None:
    # IF NOT EXISTS asks for the right to create schemas even where there is one.
    if await connection.fetchval("SELECT to_regnamespace($1)::oid", schema) is None:
        await connection.execute(f'CREATE SCHEMA "{schema}"')
    await connection.execute(_CREATE)
    origin = await connection.fetchval(origin_query)
    await connection.execute(
        "INSERT INTO meta (id, rev, compact_rev, swept_rev, epoch, origin, schema_version)"
        " VALUES (1, $1, 0, 0, $2, $3, $4)",
        FIRST_REV,
        secrets.token_hex(8),
        origin,
        SCHEMA_VERSION,
    )
