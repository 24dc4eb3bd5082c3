"""The contract of backends, on a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from databases import PostgresServer

from oarlock.storage.backend import Backend
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
