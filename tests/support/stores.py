"""A store of each kind for tests of faults: its URL, and the database that can be killed, suspended and restarted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from database_process import DatabaseProcess

from oarlock.storage.backend import Backend
from oarlock.storage.url import open_backend

__all__ = ["DATABASES", "KINDS", "RealClock", "Store", "store_of"]

DATABASES = {"postgresql": "postgres", "mariadb": "mariadb", "etcd": "etcd"}
"""Kinds of stores that have a server, and the fixture that runs it."""
KINDS = ["sqlite", *DATABASES]


class RealClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(frozen=True)
class Store:
    """An empty store. `database` is None where the servers themselves are the database."""

    url: str
    database: DatabaseProcess | None = None

    def open(self) -> Backend:
        """Another server's backend, not yet started."""
        return open_backend(self.url, RealClock())


def store_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Store:
    if kind == "sqlite":
        return Store(f"sqlite:///{folder / 'store.db'}")
    database = request.getfixturevalue(DATABASES[kind])
    return Store(database.fresh(), database)
