"""Several servers on one store: what writers and reflectors are told is what the store did, on every kind of store."""

from __future__ import annotations

from pathlib import Path

import pytest
from databases import EtcdServer, MariadbServer, PostgresServer

from oarlock.storage.backend import Backend
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.storage.url import open_backend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.clients import SharingContract
from oarlock.testing.contracts.network import NetworkBackend


class DatabaseServers(SharingContract):
    """Servers on a database that `url` names."""

    url: str

    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return open_backend(self.url, clock)

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        return open_backend(self.url, clock)


class TestPostgres(DatabaseServers):
    @pytest.fixture(autouse=True)
    def store(self, postgres: PostgresServer) -> None:
        self.url = postgres.fresh()


class TestMariadb(DatabaseServers):
    @pytest.fixture(autouse=True)
    def store(self, mariadb: MariadbServer) -> None:
        self.url = mariadb.fresh()


class TestEtcd(DatabaseServers):
    @pytest.fixture(autouse=True)
    def store(self, etcd: EtcdServer) -> None:
        self.url = etcd.fresh()


NETWORKED: dict[Path, MemoryBackend] = {}


class TestSqlite(SharingContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return SqliteBackend(folder / "store.db", clock)

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        return SqliteBackend(folder / "store.db", clock)


class TestOverANetwork(SharingContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return NetworkBackend(NETWORKED.setdefault(folder, MemoryBackend(clock)), seed=3)

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        return NetworkBackend(NETWORKED[folder], seed=4)
