"""PostgreSQL when something is wrong: sessions that end or hang, a full disk, a standby, wrong URLs, a failover."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from databases import PASSWORD, PostgresServer

from oarlock.storage.backend import Compacted, OutcomeUnknown, StorageError, Unavailable
from oarlock.storage.postgres import errors
from oarlock.storage.postgres.driver import PostgresDriver, PostgresTimeouts
from oarlock.storage.postgres.session import PostgresSession
from oarlock.storage.postgres.url import parse_url
from oarlock.storage.sql.dialect import Statement
from oarlock.storage.sql.server.backend import SqlServerBackend
from oarlock.storage.sql.server.writer import SqlDeadlines
from oarlock.testing.contracts.support import caught_up, eventually, record, refused

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

USUAL = PostgresTimeouts()
SHORT = PostgresTimeouts(lock_s=0.3, statement_s=0.5, idle_s=0.5, close_s=1.0)


def backend_of(url: str, timeouts: PostgresTimeouts = USUAL, **options: Any) -> SqlServerBackend:
    return SqlServerBackend(PostgresDriver(parse_url(url), timeouts), **options)


@asynccontextmanager
async def started(url: str, timeouts: PostgresTimeouts = USUAL) -> AsyncIterator[SqlServerBackend]:
    backend = backend_of(url, timeouts)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def administrator(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET search_path = oarlock")
        yield connection
    finally:
        await connection.close()


async def end_all_sessions(url: str) -> None:
    async with administrator(url) as connection:
        await connection.execute(
            "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid != pg_backend_pid()"
        )


async def start_error(url: str, **options: Any) -> str:
    """The message of a start that must fail: one line, without the password."""
    error = await refused(backend_of(url, **options).start(), StorageError)
    message = str(error)
    assert "\n" not in message
    assert PASSWORD not in message
    assert "secret" not in message
    return message


STEPS = ["begin", "state", "apply", "commit"]


@pytest.mark.parametrize("step", STEPS)
async def test_a_session_that_ends_before_a_step_of_a_commit(
    postgres: PostgresServer, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was rolled back is told as not done, what may be committed as unknown; the next write goes through."""
    url = postgres.fresh()
    async with started(url) as backend:
        watch = await record(backend, await backend.current_rev())
        rev = (await backend.put("/t/a", b"1", expect=0)).rev
        interrupted = False

        def before(name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            async def call(session: PostgresSession, *arguments: Any) -> Any:
                nonlocal interrupted
                at = name
                if name == "fetch":
                    text = arguments[0].text
                    at = "state" if "UNION ALL" in text else "apply" if text.startswith("WITH") else ""
                if at == step and not interrupted and session is backend._writer._session:
                    interrupted = True
                    await end_all_sessions(url)
                return await method(session, *arguments)

            return call

        for name in ("begin", "fetch", "commit"):
            monkeypatch.setattr(PostgresSession, name, before(name, getattr(PostgresSession, name)))
        error = await refused(backend.put("/t/a", b"2", expect=rev), Unavailable)
        assert interrupted
        assert isinstance(error, OutcomeUnknown) == (step == "commit")
        kv, _ = await backend.get("/t/a")
        assert kv is not None
        assert kv.value == b"1"
        last = (await backend.put("/t/a", b"3", expect=rev)).rev
        await backend.request_progress()
        await watch.until(last)
        assert [event.value for event in watch.events] == [b"1", b"3"]
        assert not await backend.check()


async def test_writes_behind_a_commit_that_is_not_answered_wait_no_longer_than_it(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a database that is frozen: the batch has an unknown outcome, the others certainly weren't executed."""
    deadlines = SqlDeadlines(batch_s=0.5)
    backend = backend_of(postgres.fresh(), deadlines=deadlines)
    await backend.start()
    behind: list[asyncio.Future[Any]] = []

    async def frozen(session: PostgresSession) -> None:
        behind.extend(asyncio.ensure_future(backend.put(f"/t/{number}", b"", expect=0)) for number in range(3))
        await asyncio.sleep(3600)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresSession, "commit", frozen)
        error = await refused(backend.put("/t/a", b"", expect=0), Unavailable)
        assert isinstance(error, OutcomeUnknown)
        for result in await asyncio.gather(*behind, return_exceptions=True):
            assert isinstance(result, Unavailable)
            assert not isinstance(result, OutcomeUnknown)
        assert len(behind) == 3
    assert (await backend.put("/t/0", b"", expect=0)).ok
    await backend.close()


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
        asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
        asyncpg.exceptions.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        RuntimeError("unexpected state of the protocol"),
    ],
)
def test_what_the_driver_says_of_itself_reaches_no_client(error: Exception) -> None:
    translated = errors.translate(error)
    assert isinstance(translated, Unavailable)
    assert str(translated) == "the connection to the database was lost"


async def test_a_hint_that_comes_while_the_store_closes_opens_no_session(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.fresh()
    async with started(url) as backend:
        await caught_up(backend, await record(backend, await backend.current_rev()))
        close = PostgresSession.close

        async def close_after_a_hint(session: PostgresSession) -> None:
            await close(session)
            backend._on_hint(0)

        monkeypatch.setattr(PostgresSession, "close", close_after_a_hint)
    assert backend._tailer._task is None


async def test_a_stuck_session_holds_the_lock(postgres: PostgresServer) -> None:
    """Writes fail in time, also those that wait behind; reads go on; the server frees the lock by itself."""
    url = postgres.fresh()
    async with started(url, SHORT) as backend, administrator(url) as stuck:
        await backend.put("/t/a", b"1", expect=0)
        await stuck.execute("BEGIN; SELECT rev FROM meta FOR UPDATE")
        writes = [backend.put(f"/t/{number}", b"", expect=0) for number in range(300)]
        errors = await asyncio.wait_for(asyncio.gather(*writes, return_exceptions=True), 3)
        assert {type(error) for error in errors} == {Unavailable}
        assert "has held the lock" in str(errors[0])
        assert (await backend.get("/t/a"))[0] is not None
        await stuck.execute("ROLLBACK; SET idle_in_transaction_session_timeout = 200")
        await stuck.execute("BEGIN; SELECT rev FROM meta FOR UPDATE")
        await eventually(stuck.is_closed, "the server lets a stuck session keep the lock")
        assert (await backend.put("/t/b", b"", expect=0)).ok


async def test_a_slow_statement_is_cancelled_by_the_server(postgres: PostgresServer) -> None:
    async with started(postgres.fresh(), SHORT) as backend:

        def slowly() -> Any:
            yield Statement("SELECT pg_sleep(60)")

        error = await refused(backend._ask(slowly, lambda _: 0), Unavailable)
        assert "took too long" in str(error)
        assert (await backend.put("/t/a", b"", expect=0)).ok


async def test_a_full_disk_is_told_and_overcome(postgres: PostgresServer) -> None:
    """The database says 53100; nothing of the batch is written, and writes work again once there is space."""
    url = postgres.fresh()
    async with started(url) as backend, administrator(url) as admin:
        await admin.execute(
            "CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;"
            "CREATE TRIGGER no_space BEFORE INSERT ON log EXECUTE FUNCTION no_space()"
        )
        error = await refused(backend.put("/t/a", b"", expect=0), Unavailable)
        assert type(error) is Unavailable
        assert "disk of the database is full" in str(error)
        assert (await backend.get("/t/a"))[0] is None
        await admin.execute("DROP TRIGGER no_space ON log")
        assert (await backend.put("/t/a", b"", expect=0)).ok


async def test_a_database_that_only_takes_reads_is_refused(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    async with started(url) as backend, administrator(url) as admin:
        database = await admin.fetchval("SELECT current_database()")
        await admin.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        assert "only takes reads" in await start_error(url)
        await end_all_sessions(url)
    del backend


async def test_mistakes_in_the_url_and_the_rights_are_told_in_one_line(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    name = url.rpartition("/")[2]
    assert "user or the password is wrong" in await start_error(url.replace(PASSWORD, "secret"))
    assert "database doesn't exist" in await start_error(url.replace(name, "nowhere"))
    assert "can't be reached" in await start_error(f"postgresql://u:secret@127.0.0.1:1/{name}")
    assert "contains no store" in await start_error(url, create=False)
    postgres.sql("CREATE ROLE nobody LOGIN PASSWORD 'secret'")
    poor = f"postgresql://nobody:secret@127.0.0.1:{postgres.port}/{name}"
    assert "lacks rights" in await start_error(poor)
    postgres.sql("CREATE SCHEMA other; CREATE TABLE other.meta (x int)", name)
    assert "isn't a store" in await start_error(f"{url}?schema=other")
    async with started(url):
        assert "lacks rights" in await start_error(poor)
    postgres.sql("UPDATE oarlock.meta SET schema_version = 99", name)
    assert "a newer oarlock made it" in await start_error(url)
    postgres.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    assert "UTF8" in await start_error(postgres.url("latin"))
    for wrong, why in (
        ("?sslmoed=require", "'sslmoed' is not known"),
        ("?schema=A-b", "schema='A-b'"),
        ("?target_session_attrs=standby", "on the primary"),
        ("?connect_timeout=soon", "give seconds"),
    ):
        with pytest.raises(StorageError, match="cannot use") as refusal:
            parse_url(url + wrong)
        assert why in str(refusal.value)
        assert PASSWORD not in str(refusal.value)


async def test_rights_that_are_enough(postgres: PostgresServer) -> None:
    """What the documentation tells an operator to grant, and no more."""
    url = postgres.fresh()
    name = url.rpartition("/")[2]
    postgres.sql("CREATE ROLE modest LOGIN PASSWORD 'secret'")
    postgres.sql("CREATE SCHEMA oarlock AUTHORIZATION modest", name)
    async with started(f"postgresql://modest:secret@127.0.0.1:{postgres.port}/{name}") as backend:
        assert (await backend.put("/t/a", b"", expect=0)).ok


async def test_several_servers_start_at_once_on_an_empty_database(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    backends = [backend_of(url) for _ in range(8)]
    try:
        await asyncio.gather(*(backend.start() for backend in backends))
        assert len({await backend.epoch() for backend in backends}) == 1
    finally:
        await asyncio.gather(*(backend.close() for backend in backends))


async def test_events_come_within_a_second_when_hints_are_lost(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listen(session: PostgresSession, hint: object) -> None:
        """As behind a pooler that loses notifications."""

    monkeypatch.setattr(PostgresSession, "listen", listen)
    url = postgres.fresh()
    async with started(url) as first, started(url) as second:
        watch = await record(second, await second.current_rev())
        rev = (await first.put("/t/a", b"", expect=0)).rev
        async with asyncio.timeout(5):
            await watch.until(rev)
        assert second._driver.poll_s <= 1


async def test_a_promoted_standby_begins_another_epoch(postgres: PostgresServer, caplog: Any) -> None:
    """Another timeline, where writes may be missing: every server's watches end, whichever notices first."""
    url = postgres.fresh()
    async with started(url) as first, started(url) as second:
        epoch, rev = await first.epoch(), (await first.put("/t/a", b"", expect=0)).rev
        watches = [await record(backend, rev) for backend in (first, second)]
        async with administrator(url) as admin:
            await admin.execute("UPDATE meta SET origin = replace(origin, 'timeline', 'timeline 0')")
        caplog.set_level(logging.WARNING, "oarlock.storage.sql")
        await end_all_sessions(url)
        for watch in watches:
            assert isinstance(await watch.until_failed(), Compacted)
        assert await first.epoch() == await second.epoch() != epoch
        assert await first.current_rev() > rev
        assert len([line for line in caplog.messages if "a new epoch begins" in line]) == 1
        assert (await second.put("/t/a", b"2", expect=rev)).ok
        assert not await first.check()


async def test_a_restored_dump_begins_another_epoch(postgres: PostgresServer) -> None:
    url, copy = postgres.fresh(), postgres.fresh()
    async with started(url) as backend:
        epoch, rev = await backend.epoch(), (await backend.put("/t/a", b"1", expect=0)).rev
    async with administrator(url) as source, administrator(copy) as target:
        await target.execute("CREATE SCHEMA oarlock")
        await source.execute("DROP SCHEMA IF EXISTS saved")
        rows = await source.fetch("SELECT * FROM meta")
        async with started(copy + "?schema=fresh"):
            await target.execute("DROP SCHEMA oarlock; ALTER SCHEMA fresh RENAME TO oarlock")
        await target.execute("DELETE FROM oarlock.meta")
        await target.execute("INSERT INTO oarlock.meta VALUES ($1,$2,$3,$4,$5,$6,$7)", *rows[0])
        for table, count in (("log", 7), ("kv", 4)):
            marks = ",".join(f"${number + 1}" for number in range(count))
            for row in await source.fetch(f"SELECT * FROM {table}"):
                await target.execute(f"INSERT INTO oarlock.{table} VALUES ({marks})", *row)
    async with started(copy) as restored:
        assert await restored.epoch() != epoch
        assert await restored.current_rev() > rev + 1_000_000
        kv, _ = await restored.get("/t/a")
        assert kv is not None
        assert (kv.value, kv.mod_rev) == (b"1", rev)
        assert not await restored.check()


async def test_a_server_that_may_lose_writes_is_told_of_in_the_log(postgres: PostgresServer, caplog: Any) -> None:
    url = postgres.fresh()
    postgres.sql("ALTER SYSTEM SET full_page_writes = off; SELECT pg_reload_conf()")
    try:
        async with started(url) as backend:
            async with administrator(url) as admin:
                database = await admin.fetchval("SELECT current_database()")
                await admin.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
            connection = (await backend._driver.connect()).connection  # type: ignore[attr-defined]
            assert await connection.fetchval("SHOW synchronous_commit") == "on"
            await connection.close()
        assert any("full_page_writes is off" in line for line in caplog.messages)
    finally:
        postgres.sql("ALTER SYSTEM RESET full_page_writes; SELECT pg_reload_conf()")


async def test_what_waits_has_a_bound(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    async with started(url, SHORT) as backend, administrator(url) as stuck:
        await stuck.execute("BEGIN; SELECT rev FROM oarlock.meta FOR UPDATE")
        value = bytes(1024 * 1024)
        writes = [asyncio.ensure_future(backend.put(f"/t/{number}", value, expect=0)) for number in range(200)]
        errors = await asyncio.gather(*writes, return_exceptions=True)
        assert sum("too many wait" in str(error) for error in errors) >= 200 - 128 - 8
        await stuck.execute("ROLLBACK")


async def test_calls_end_while_the_database_is_suspended(postgres: PostgresServer) -> None:
    driver = PostgresDriver(parse_url(postgres.fresh() + "?connect_timeout=1"), SHORT)
    backend = SqlServerBackend(driver, deadlines=SqlDeadlines(call_s=1, batch_s=1, tail_s=0.5, patience_s=0.5))
    await backend.start()
    try:
        postgres.suspend()
        async with asyncio.timeout(10):
            await refused(backend.put("/t/a", b"", expect=0), Unavailable)
            await refused(backend.get("/t/a"), Unavailable)
            await refused(backend.current_rev(), Unavailable)
    finally:
        postgres.resume()
    try:
        async with asyncio.timeout(20):
            while True:
                try:
                    await backend.put("/t/b", b"", expect=0)
                    break
                except Unavailable:
                    await asyncio.sleep(0.05)
    finally:
        await backend.close()
