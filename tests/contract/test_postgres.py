"""The contract of backends, on a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg
import pytest
from databases import PostgresServer

from oarlock.storage.backend import Backend, Rev
from oarlock.storage.postgres.driver import PostgresDriver
from oarlock.storage.postgres.url import parse_url
from oarlock.storage.sql.server.backend import SqlServerBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.backend import BackendContract
from oarlock.testing.contracts.histories import HistoryContract

pytestmark = pytest.mark.slow


class TestPostgres(BackendContract, HistoryContract):
    """Each folder is a schema of the server's own database, which costs less than a database each."""

    url: str
    schemas: dict[Path, str] = {}

    @pytest.fixture(autouse=True)
    @classmethod
    def server(cls, postgres: PostgresServer) -> None:
        cls.url = postgres.url("postgres")

    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        schema = self.schemas.setdefault(folder, f"contract{len(self.schemas)}")
        return SqlServerBackend(PostgresDriver(parse_url(f"{self.url}?schema={schema}")), clock=clock)

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        return self.backend(folder, clock)

    async def lose_after(self, backend: Any, rev: Rev) -> None:
        """As if a dump from that moment was put over the tables."""
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(LOSE.format(schema=backend._driver._url.schema, rev=rev))
        finally:
            await connection.close()


LOSE = """
BEGIN;
SET LOCAL search_path = {schema};
SELECT rev FROM meta FOR UPDATE;
DELETE FROM log WHERE rev > {rev};
DELETE FROM kv;
INSERT INTO kv SELECT key, rev, create_rev, expires FROM log WHERE op != 3
  AND NOT EXISTS (SELECT FROM log AS later WHERE later.key = log.key AND later.rev > log.rev);
UPDATE meta SET rev = {rev};
COMMIT
"""
