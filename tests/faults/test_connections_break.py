"""Connections to a database break at any byte: every call ends in time, with what is true, and soon all works again."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from databases import EtcdServer, MariadbServer, PostgresServer

from oarlock.storage.backend import Backend
from oarlock.storage.etcd.address import etcd_address
from oarlock.storage.etcd.backend import EtcdBackend
from oarlock.storage.etcd.client import EtcdDeadlines
from oarlock.storage.mysql.address import parse_address
from oarlock.storage.mysql.driver import MysqlDriver
from oarlock.storage.postgres.driver import PostgresDriver
from oarlock.storage.postgres.url import parse_url
from oarlock.storage.sql.server.backend import SqlServerBackend
from oarlock.storage.sql.server.writer import SqlDeadlines
from oarlock.storage.url import open_backend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.broken_connections import ConnectionContract

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


SHORT = SqlDeadlines(call_s=1, batch_s=1, tail_s=0.5, patience_s=1)


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

    def through_url(self, port: int) -> str:
        return self.url.replace(f":{urlsplit(self.url).port}/", f":{port}/")


class TestPostgres(DatabaseConnections):
    def through(self, folder: Path, clock: VirtualClock, port: int) -> Backend:
        driver = PostgresDriver(parse_url(self.through_url(port) + "?connect_timeout=1"))
        return SqlServerBackend(driver, deadlines=SHORT)

    @pytest.fixture(autouse=True)
    def store(self, postgres: PostgresServer) -> None:
        self.url = postgres.fresh()


class TestMariadb(DatabaseConnections):
    def through(self, folder: Path, clock: VirtualClock, port: int) -> Backend:
        return SqlServerBackend(MysqlDriver(parse_address(self.through_url(port))), deadlines=SHORT)

    @pytest.fixture(autouse=True)
    def store(self, mariadb: MariadbServer) -> None:
        self.url = mariadb.fresh()


class TestEtcd(DatabaseConnections):
    def through(self, folder: Path, clock: VirtualClock, port: int) -> Backend:
        address = etcd_address(self.through_url(port))
        return EtcdBackend(address, clock, deadlines=EtcdDeadlines(call_s=1, attempt_s=0.5, probe_s=0.5))

    @pytest.fixture(autouse=True)
    def store(self, etcd: EtcdServer) -> None:
        self.url = etcd.fresh()
