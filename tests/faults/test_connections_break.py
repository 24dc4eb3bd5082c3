"""Connections to a database break at any byte: every call ends in time, with what is true, and soon all works again."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from databases import EtcdServer, MariadbServer, PostgresServer

from oarlock.storage.backend import Backend
from oarlock.storage.url import open_backend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.broken_connections import ConnectionContract

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


class DatabaseConnections(ConnectionContract):
    """A store in a database that `url` names."""

    url: str

    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return open_backend(self.url, clock)

    def address(self, folder: Path) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def through(self, folder: Path, clock: VirtualClock, port: int) -> Backend:
        return open_backend(self.url.replace(f":{self.address(folder)[1]}/", f":{port}/"), clock)


class TestEtcd(DatabaseConnections):
    @pytest.fixture(autouse=True)
    def store(self, etcd: EtcdServer) -> None:
        self.url = etcd.fresh()


class TestPostgres(DatabaseConnections):
    @pytest.fixture(autouse=True)
    def store(self, postgres: PostgresServer) -> None:
        self.url = postgres.fresh()


class TestMariadb(DatabaseConnections):
    @pytest.fixture(autouse=True)
    def store(self, mariadb: MariadbServer) -> None:
        self.url = mariadb.fresh()
