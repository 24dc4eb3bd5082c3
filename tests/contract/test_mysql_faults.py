"""What MariaDB does to a store: it is killed, restarted, restored, read-only or busy, and cuts connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from databases import MariadbServer

from oarlock.storage.backend import Backend, Compacted, OutcomeUnknown, StorageError, TooLarge, Unavailable
from oarlock.storage.mysql import driver as drivers
from oarlock.storage.mysql import session as sessions
from oarlock.storage.mysql.address import parse_address
from oarlock.storage.mysql.backend import open_mysql
from oarlock.storage.mysql.driver import MysqlDriver
from oarlock.storage.mysql.session import MysqlSession
from oarlock.storage.sql.dialect import Rows
from oarlock.storage.sql.server.backend import SqlServerBackend
from oarlock.testing.contracts.support import END, START, caught_up, eventually, record

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

CLIENTS = 8
KILLS = 3
MESSAGES = ("begin", "state", "rows", "commit")


@pytest.fixture
def url(mariadb: MariadbServer) -> str:
    return mariadb.fresh()


@pytest.fixture
def with_binary_log(mariadb: MariadbServer) -> Iterator[MariadbServer]:
    # Stopped in order: a transaction of a crash can't be finished without the binary log it began with.
    mariadb.stop()
    mariadb.options = [f"--log-bin={mariadb.folder}/binlog", "--sync-binlog=1"]
    mariadb.start()
    try:
        yield mariadb
    finally:
        mariadb.ensure_running()
        mariadb.stop()
        mariadb.options = []
        mariadb.start()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Backend]:
    backend = open_mysql(url, create=True)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


class Client:
    """Writes a key again and again, and remembers what it was told."""

    def __init__(self, backend: Backend, number: int) -> None:
        self.backend = backend
        self.key = f"{START}{number}"
        self.acknowledged: list[tuple[int, bytes]] = []
        self.unknown: list[bytes] = []
        self.stopped = False

    async def run(self) -> None:
        number, rev = 0, 0
        while not self.stopped:
            number += 1
            value = b"%d" % number
            try:
                result = await self.backend.put(self.key, value, expect=rev)
            except OutcomeUnknown:
                self.unknown.append(value)
                continue
            except Unavailable:
                await asyncio.sleep(0.01)
                continue
            if result.ok:
                rev = result.rev
                self.acknowledged.append((rev, value))
            else:
                assert result.current is not None, "an acknowledged write is lost"
                assert result.current.value in self.unknown, "somebody else wrote"
                rev = result.current.mod_rev


async def kill_under_load(server: MariadbServer, writer: Backend) -> list[Client]:
    """Kill the server while clients write, several times; the clients, which have stopped."""
    clients = [Client(writer, number) for number in range(CLIENTS)]
    running = [asyncio.create_task(client.run()) for client in clients]
    for _ in range(KILLS):
        before = [len(client.acknowledged) for client in clients]
        await eventually(
            lambda before=before: all(  # type: ignore[misc]
                len(client.acknowledged) > count + 5 for client, count in zip(clients, before, strict=True)
            ),
            "a client's writes aren't acknowledged any more",
        )
        server.restart()
    for client in clients:
        client.stopped = True
    await asyncio.gather(*running)
    return clients


async def test_a_connect_that_is_cancelled_stays_cancelled(mariadb: MariadbServer) -> None:
    """At whatever turn of the event loop that happens: a task that goes on would keep a store from closing."""
    address = parse_address(mariadb.fresh())
    for turns in range(200):
        task = asyncio.create_task(sessions.connect(address))
        for _ in range(turns):
            await asyncio.sleep(0)
        finished = task.done()
        task.cancel()
        await asyncio.wait([task])
        if finished:
            (await task).terminate()
        else:
            assert task.cancelled(), f"after {turns} turns"


async def test_a_server_that_is_killed_under_load_loses_nothing_and_watches_go_on(
    with_binary_log: MariadbServer,
) -> None:
    url = with_binary_log.fresh()
    async with opened(url) as writer, opened(url) as reader:
        watch = await record(reader, await reader.current_rev())
        epoch = await reader.epoch()
        clients = await kill_under_load(with_binary_log, writer)
        await caught_up(reader, watch)
        assert watch.error is None
        assert await reader.epoch() == epoch
        delivered = {(event.key, event.rev, event.value) for event in watch.events}
        assert len(delivered) == len(watch.events), "an event came twice"
        for client in clients:
            missing = [one for one in client.acknowledged if (client.key, *one) not in delivered]
            assert not missing, f"acknowledged writes of {client.key} had no event: {missing}"
        assert not await reader.check()


async def test_without_a_binary_log_a_killed_server_begins_another_epoch(mariadb: MariadbServer, url: str) -> None:
    async with opened(url) as writer, opened(url) as reader:
        watch = await record(reader, await reader.current_rev())
        epoch = await reader.epoch()
        clients = await kill_under_load(mariadb, writer)
        assert isinstance(await watch.until_failed(), Compacted)
        assert await reader.epoch() != epoch
        live = {kv.key: kv for kv in (await reader.list(START, END)).kvs}
        for client in clients:
            last_rev, last_value = client.acknowledged[-1]
            kv = live[client.key]
            assert kv.value == last_value or kv.value in client.unknown
            assert kv.mod_rev >= last_rev
        assert await writer.epoch() == await reader.epoch()
        assert not await reader.check()


async def test_a_restored_server_begins_another_epoch_above_all_it_had(
    with_binary_log: MariadbServer, tmp_path: Path
) -> None:
    server = with_binary_log
    async with opened(server.fresh()) as backend:
        old = await backend.put("/t/old", b"1", expect=0)
        epoch = await backend.epoch()
        server.stop()
        server.copy_data(tmp_path / "backup")
        server.start()
        await until_noticed(backend)
        lost = await backend.put("/t/lost", b"1", expect=0)
        watch = await record(backend, lost.rev)
        server.kill()
        server.replace_data(tmp_path / "backup")
        server.start()
        assert isinstance(await watch.until_failed(), Compacted)
        assert await backend.epoch() != epoch
        kv, rev = await backend.get("/t/lost")
        assert kv is None
        assert rev > lost.rev
        assert (await backend.put("/t/old", b"2", expect=old.rev)).rev > rev


class CuttingDriver(MysqlDriver):
    """The server kills its new connections before message number `at` of a transaction, as long as there is one."""

    at: int | None = None
    server: MariadbServer

    async def connect(self) -> MysqlSession:
        session = await super().connect()
        at, send = self.at, session.query
        count = -1

        async def query(text: bytes) -> Rows:
            nonlocal count
            count = 0 if text.startswith(sessions._BEGIN) else count + (count >= 0)
            if count == at:
                self.server.sql(f"KILL {session._connection.thread_id()}")
            return await send(text)

        session.query = query  # type: ignore[method-assign]
        return session


@pytest.mark.parametrize("at", range(len(MESSAGES)), ids=MESSAGES)
async def test_a_connection_that_is_killed_before_a_message_of_a_batch(
    mariadb: MariadbServer, url: str, at: int
) -> None:
    driver = CuttingDriver(parse_address(url))
    driver.server = mariadb
    backend = SqlServerBackend(driver)
    await backend.start()
    try:
        driver.at = at
        outcome = "done"
        try:
            await backend.put("/t/a", b"1", expect=0)
        except OutcomeUnknown:
            outcome = "unknown"
        except Unavailable:
            outcome = "refused"
        driver.at = None
        kv, _ = await backend.get("/t/a")
        assert kv is None, "what had no COMMIT is rolled back"
        assert outcome == ("unknown" if MESSAGES[at] == "commit" else "refused")
        assert (await backend.put("/t/a", b"2", expect=0)).ok
    finally:
        await backend.close()


async def test_a_lock_that_somebody_holds_is_waited_for_and_then_told(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(sessions, "_LOCK_WAIT_S", 1)
    async with opened(url) as backend:
        holder = await sessions.connect(parse_address(url))
        await holder.begin()
        with pytest.raises(Unavailable, match="another transaction holds the lock") as refused:
            await backend.put("/t/a", b"1", expect=0)
        assert not isinstance(refused.value, OutcomeUnknown)
        assert (await backend.get("/t/a"))[0] is None
        waiting = asyncio.create_task(backend.put("/t/a", b"1", expect=0))
        await holder.rollback()
        assert (await waiting).ok
        await holder.close()


async def test_a_value_too_large_for_the_store_and_one_too_large_for_the_server(
    mariadb: MariadbServer, url: str
) -> None:
    async with opened(url) as backend:
        with pytest.raises(TooLarge):
            await backend.put("/t/a", b"x" * (backend.caps.max_value + 1), expect=0)
        worst = b"\\'" * (backend.caps.max_value // 2)
        before = (await backend.put("/t/worst", worst, expect=0)).rev
        again = await backend.put("/t/worst", worst, expect=before)
        watch = await record(backend, before)
        await caught_up(backend, watch)
        assert [(event.value, event.prev_value) for event in watch.events] == [(worst, worst)]
        mariadb.sql("SET GLOBAL max_allowed_packet = 1048576")
        try:
            kill_connections(mariadb)
            with pytest.raises(Unavailable):
                await backend.put("/t/worst", worst, expect=again.rev)
        finally:
            mariadb.sql("SET GLOBAL max_allowed_packet = DEFAULT")
            kill_connections(mariadb)
        assert (await backend.put("/t/worst", b"1", expect=again.rev)).ok


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [("max_allowed_packet", 1048576, "max_allowed_packet is 1048576: set it to"), ("read_only", 1, "is read-only")],
)
async def test_a_server_that_cannot_hold_the_store_is_refused(
    mariadb: MariadbServer, url: str, setting: str, value: int, why: str
) -> None:
    mariadb.sql(f"SET GLOBAL {setting} = {value}")
    try:
        assert why in await refusal(url)
    finally:
        mariadb.sql(f"SET GLOBAL {setting} = DEFAULT")


async def test_weaker_durability_is_told(mariadb: MariadbServer, url: str, caplog: pytest.LogCaptureFixture) -> None:
    mariadb.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
    try:
        async with opened(url):
            pass
    finally:
        mariadb.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    assert "innodb_flush_log_at_trx_commit is 2: a crash loses acknowledged writes" in caplog.text
    assert "pa55word" not in caplog.text


async def test_errors_at_the_start_are_one_line_without_the_password(mariadb: MariadbServer, url: str) -> None:
    mariadb.sql("CREATE OR REPLACE USER 'reader'@'127.0.0.1' IDENTIFIED BY 'secret'")
    mariadb.sql("GRANT SELECT ON *.* TO 'reader'@'127.0.0.1'")
    assert "check user and password" in await refusal(url.replace("pa55word", "wrong1"))
    assert "CREATE DATABASE" in await refusal(url.rpartition("/")[0] + "/absent")
    assert "grant the user" in await refusal(url.replace("oarlock:pa55word", "reader:secret"))
    assert "this database contains no store" in await refusal(url, create=False)
    mariadb.sql("CREATE TABLE meta (a INT) ", url.rpartition("/")[2])
    assert "of another program" in await refusal(url)
    mariadb.sql("DROP TABLE meta", url.rpartition("/")[2])
    async with opened(url):
        mariadb.sql("UPDATE meta SET schema_version = 99", url.rpartition("/")[2])
    assert "a newer oarlock made it" in await refusal(url)


async def refusal(url: str, *, create: bool = True) -> str:
    backend = open_mysql(url, create=create)
    try:
        with pytest.raises(StorageError) as error:
            await backend.start()
    finally:
        await backend.close()
    text = str(error.value)
    assert "\n" not in text
    for password in ("pa55word", "secret", "wrong1"):
        assert password not in text
    return text


async def test_several_servers_start_at_once_on_an_empty_database(url: str) -> None:
    backends = [open_mysql(url, create=True) for _ in range(8)]
    await asyncio.gather(*(backend.start() for backend in backends))
    try:
        assert len({await backend.epoch() for backend in backends}) == 1
        results = await asyncio.gather(*(backend.put("/t/a", b"1", expect=0) for backend in backends))
        assert sum(result.ok for result in results) == 1
    finally:
        await asyncio.gather(*(backend.close() for backend in backends))


async def test_connections_that_ended_while_idle_are_no_error(mariadb: MariadbServer, url: str) -> None:
    async with opened(url) as backend:
        assert isinstance(backend, SqlServerBackend)
        rev = (await backend.put("/t/a", b"1", expect=0)).rev
        watch = await record(backend, rev)
        idle = [backend._writer._session, *backend._pool._idle]
        kill_connections(mariadb)
        await eventually(lambda: all(session.closed for session in idle), "the ends of connections aren't noticed")
        second = await backend.put("/t/a", b"2", expect=rev)
        assert (await backend.get("/t/a"))[0] is not None
        await watch.until(second.rev)
        assert [event.rev for event in watch.events] == [second.rev]
        assert watch.error is None


async def test_a_store_is_looked_at_more_often_while_something_happens(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(drivers, "_BUSY_S", 0.3)
    driver = MysqlDriver(parse_address(url))
    backend = SqlServerBackend(driver)
    await backend.start()
    try:
        await eventually(lambda: driver.poll_s == drivers._IDLE_POLL_S, "an idle store is looked at as a busy one")
        async with opened(url) as other:
            await other.put("/t/a", b"1", expect=0)
        await eventually(lambda: driver.poll_s == drivers._POLL_S, "a busy store is looked at as an idle one")
    finally:
        await backend.close()


async def until_noticed(backend: Backend) -> None:
    """Wait until the ends of connections have been noticed: reads and writes answer again."""
    for _ in range(1_000):
        try:
            await backend.current_rev()
            await backend.delete("/t/absent", expect=1)
            return
        except Unavailable:
            await asyncio.sleep(0.01)
    raise AssertionError("the store doesn't answer any more")


@pytest.mark.parametrize("charset", ["gbk", "sjis", "latin1", "utf8mb4"])
async def test_all_bytes_survive_whatever_a_server_makes_of_new_connections(
    mariadb: MariadbServer, url: str, charset: str
) -> None:
    user = "CREATE OR REPLACE USER 'plain'@'127.0.0.1' IDENTIFIED BY 'secret'"
    mariadb.sql(f"{user}; GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON *.* TO 'plain'@'127.0.0.1'")
    mariadb.sql(f"SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI'; SET GLOBAL init_connect = 'SET NAMES {charset}'")
    try:
        async with opened(url.replace("oarlock:pa55word", "plain:secret")) as backend:
            values = [bytes([byte]) * 3 for byte in range(256)]
            values += [bytes([first, second]) for first in (0x81, 0xBF, 0xE0, 0xF0) for second in b"\\'\"\0\x1a"]
            values += [bytes(range(256)), b"\\", b"'", b"\\'", b"'; DROP TABLE log; --", "é\\'".encode("gbk", "ignore")]
            await asyncio.gather(*(backend.put(f"/t/{n:04}", value, expect=0) for n, value in enumerate(values)))
            assert [kv.value for kv in (await backend.list(START, END)).kvs] == values
    finally:
        mariadb.sql("SET GLOBAL sql_mode = DEFAULT; SET GLOBAL init_connect = ''")


def kill_connections(server: MariadbServer) -> None:
    """Kill the connections of backends, as `wait_timeout` or a restarted proxy does."""
    rows = server.sql("SELECT id FROM information_schema.processlist WHERE db LIKE 'test%'")
    for [number] in rows:
        server.sql(f"KILL {number}")
