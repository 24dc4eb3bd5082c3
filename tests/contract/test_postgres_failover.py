"""A PostgreSQL that failed over: an old primary that came back is not written to, whoever asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from databases import PASSWORD, USER, PostgresServer, postgres_program

from oarlock.server.files.store_mark import SeenStore, StoreMark
from oarlock.storage.backend import OutcomeUnknown, StorageError, Unavailable
from oarlock.storage.postgres.driver import PostgresDriver
from oarlock.storage.postgres.url import parse_url
from oarlock.storage.sql.server.backend import SqlServerBackend

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


class Standby(PostgresServer):
    """A copy of `primary`, which follows it until it is promoted."""

    ready_lines = ("ready to accept read-only connections", "ready to accept read only connections")
    primary: PostgresServer

    def create_data(self) -> None:
        where = f"host=127.0.0.1 port={self.primary.port} user={USER} password={PASSWORD}"
        copy = [postgres_program("pg_basebackup"), "-D", str(self.data), "-d", where, "-R", "-c", "fast", "--no-sync"]
        self.run(*self.as_user(*copy))

    def promote(self) -> None:
        self.sql("SELECT pg_promote(true, 30)")


@pytest.fixture
def pair() -> Iterator[tuple[PostgresServer, Standby]]:
    with PostgresServer() as primary:
        standby = Standby()
        standby.primary = primary
        with standby:
            yield primary, standby


def backend_at(*servers: PostgresServer, database: str) -> SqlServerBackend:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return SqlServerBackend(PostgresDriver(parse_url(f"postgresql://{USER}:{PASSWORD}@{hosts}/{database}")))


async def written(backend: SqlServerBackend, key: str) -> None:
    """Start, write one key, close."""
    await backend.start()
    assert (await backend.put(key, b"", expect=0)).ok
    await backend.close()


async def put(backend: SqlServerBackend, key: str) -> None:
    """Write, again if a session was lost before."""
    for _ in range(20):
        try:
            assert (await backend.put(key, b"", expect=0)).ok
        except OutcomeUnknown:
            raise
        except Unavailable:
            continue
        return
    raise AssertionError(f"{key} can't be written")


async def epoch_of(backend: SqlServerBackend) -> str:
    while True:
        try:
            return await backend.epoch()
        except Unavailable:
            continue


async def keys(server: PostgresServer, database: str) -> set[str]:
    return {row[0] for row in server.sql("SELECT key FROM oarlock.kv", database)}


async def test_an_old_primary_that_came_back_is_not_written_to(pair: tuple[PostgresServer, Standby]) -> None:
    old, new = pair
    database = urlsplit(old.fresh()).path.lstrip("/")
    running = backend_at(old, new, database=database)
    await written(running, "/t/before")
    new.promote()
    new.sql("CHECKPOINT")
    # Both take writes now, and the old one comes first in the URL.
    await written(backend_at(old, new, database=database), "/t/after")
    assert "/t/after" in await keys(new, database)
    assert "/t/after" not in await keys(old, database)


async def test_a_host_on_an_older_timeline_than_was_seen_is_refused_when_it_is_alone(
    pair: tuple[PostgresServer, Standby], tmp_path: Path
) -> None:
    old, new = pair
    database = urlsplit(old.fresh()).path.lstrip("/")
    await written(backend_at(old, new, database=database), "/t/before")
    new.promote()
    seen = SeenStore("", 0)
    backend = backend_at(old, new, database=database)
    mark = StoreMark(tmp_path / "oarlock.seen", lambda: seen, lambda: pytest.fail("nobody looks"), backend)
    await backend.start()
    await mark.recognise(backend)
    await backend.close()
    new.stop()
    for hosts in ((old, new), (old,)):
        other = backend_at(*hosts, database=database)
        StoreMark(tmp_path / "oarlock.seen", lambda: seen, lambda: pytest.fail("nobody looks"), other)
        with pytest.raises(StorageError, match=r"older timeline 1 of its database, and timeline 2 was seen"):
            await other.start()
    assert await keys(old, database) == {"/t/before"}


async def test_a_primary_that_was_not_stopped_is_left_by_servers_that_run(
    pair: tuple[PostgresServer, Standby], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresDriver, "look_around_s", 0.05)
    old, new = pair
    database = urlsplit(old.fresh()).path.lstrip("/")
    backend = backend_at(old, new, database=database)
    await backend.start()
    await put(backend, "/t/before")
    epoch = await backend.epoch()
    new.promote()
    async with asyncio.timeout(30):
        while await epoch_of(backend) == epoch:
            pass
    await put(backend, "/t/after")
    await backend.close()
    assert "/t/after" in await keys(new, database)
    assert "/t/after" not in await keys(old, database)


async def test_a_server_that_runs_goes_on_with_the_new_primary(pair: tuple[PostgresServer, Standby]) -> None:
    old, new = pair
    database = urlsplit(old.fresh()).path.lstrip("/")
    backend = backend_at(old, new, database=database)
    await backend.start()
    assert (await backend.put("/t/before", b"", expect=0)).ok
    epoch = await backend.epoch()
    old.kill()
    new.promote()
    await put(backend, "/t/after")
    assert await backend.epoch() != epoch
    old.ensure_running()
    new.sql(
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid != pg_backend_pid()",
        database,
    )
    for number in range(3):
        await put(backend, f"/t/{number}")
    await backend.close()
    assert not {"/t/after", "/t/0", "/t/1", "/t/2"} & await keys(old, database)
