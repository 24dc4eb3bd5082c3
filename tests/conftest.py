"""What every test may use: the shared tables of cases and the recorded exchanges, and one event loop backend.

Tables and recordings lie beside the checkout. Where they don't, one test for each says so; what they promise is tested
with cases of our own in the files ``test_*_by_convention.py``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from databases import EtcdCluster, EtcdServer, MariadbServer, NoDatabase, PostgresServer
from leaving_out import leave_out, tables_read_by
from thoroughness import THOROUGH, load_profile

load_profile()

# The databases of tests have no TLS. asyncpg, which asks each for it, leaves a future with an error unread when its
# request to cancel a statement is given up while it connects, and that would fail a test.
os.environ["PGSSLMODE"] = "disable"

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
VECTORS = SHARED / "vectors"
GOLDEN = SHARED / "golden" / "wardle.jsonl"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def logs_are_kept() -> Iterator[None]:
    """A test that turns logging off would take the records from those after it in its process."""
    yield
    assert not logging.root.manager.disable


@pytest.fixture
async def grpc_without_its_past(anyio_backend: Any) -> None:
    """gRPC has one poller a process. What it still has for the loop of an earlier test is no failure of this one."""

    def stale(context: dict[str, Any]) -> bool:
        closed = "Event loop is closed" in str(context.get("exception"))
        return closed and "PollerCompletionQueue" in str(context.get("handle"))

    _leave_out_of_failures(stale)


def _leave_out_of_failures(harmless: Callable[[dict[str, Any]], bool]) -> None:
    """What the running loop reports fails a test, except what is `harmless`."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if harmless(context):
            return
        if before is None:
            loop.default_exception_handler(context)
        else:
            before(loop, context)

    loop.set_exception_handler(handle)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items, _missing)
    if not THOROUGH:
        late = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=late)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing of what is collected is garbage: to look for it took four tenths of the time, in each process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What the tests are made of stays until the end: the garbage collector need not look at it each time."""
    gc.collect()
    gc.freeze()


def _missing(item: pytest.Item) -> str | None:
    fixtures = getattr(item, "fixturenames", ())
    if "golden" in fixtures and not GOLDEN.exists():
        return "the recorded exchanges are not beside this checkout"
    if "shared_vectors" in fixtures and not VECTORS.exists():
        return f"the shared table of cases {tables_read_by(item)} is not beside this checkout"
    return None


@pytest.fixture(scope="session")
def shared_vectors() -> Callable[[str], Any]:
    """`shared_vectors("quantity.json")`: the parsed table."""
    return lambda name: json.loads((VECTORS / name).read_text())


@pytest.fixture(scope="session")
def golden() -> list[dict[str, Any]]:
    """The recorded exchanges of the Go sample server."""
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    yield from _running(PostgresServer)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariadbServer]:
    yield from _running(MariadbServer)


@pytest.fixture(scope="session")
def etcd_server() -> Iterator[EtcdServer]:
    yield from _running(EtcdServer)


@pytest.fixture(scope="session")
def etcd_members() -> Iterator[EtcdCluster]:
    yield from _running(EtcdCluster)


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """PostgreSQL, running. The databases that a test makes with ``fresh()`` are removed after it."""
    postgres_server.ensure_running()
    yield postgres_server
    postgres_server.ensure_running()
    postgres_server.drop()


@pytest.fixture
def mariadb(mariadb_server: MariadbServer) -> Iterator[MariadbServer]:
    """MariaDB, running. The databases that a test makes with ``fresh()`` are removed after it."""
    mariadb_server.ensure_running()
    yield mariadb_server
    mariadb_server.ensure_running()
    mariadb_server.drop()


@pytest.fixture
def etcd(etcd_server: EtcdServer) -> EtcdServer:
    """One member of etcd, running. Each ``fresh()`` is a prefix that nobody has used."""
    etcd_server.ensure_running()
    return etcd_server


@pytest.fixture
def etcd_cluster(etcd_members: EtcdCluster) -> EtcdCluster:
    """Three members of etcd, running, and one of them leads."""
    etcd_members.ensure_running()
    return etcd_members


Database = TypeVar("Database", PostgresServer, MariadbServer, EtcdServer, EtcdCluster)


def _running(kind: type[Database]) -> Iterator[Database]:
    try:
        server = kind()
        server.start()
    except NoDatabase as error:
        pytest.skip(f"{error}")
    try:
        yield server
    finally:
        server.close()
