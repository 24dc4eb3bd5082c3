"""`check` and `compact` as an operator calls them: beside a server, and with a restart afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from oarlock.storage.backend import Compacted, Findings, FutureRevision, Rev, StorageError
from oarlock.storage.care.operations import compact, opened
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import END, START, eventually, refused


async def check(store: str) -> Findings:
    async with opened(store) as backend:
        return await backend.check()


def url(path: Path) -> str:
    return f"sqlite:///{path}"


async def filled(path: Path) -> tuple[SqliteBackend, Rev]:
    backend = SqliteBackend(path, VirtualClock())
    await backend.start()
    rev = 0
    for number in range(30):
        rev = (await backend.put("/t/a", b"%d" % number, expect=rev)).rev
    return backend, rev


def test_beside_a_server_which_is_alone_again_afterwards(tmp_path: Path) -> None:
    async def scenario() -> None:
        server, rev = await filled(tmp_path / "store.db")
        assert server.known_rev() == rev
        assert await check(url(tmp_path / "store.db")) == []
        assert await compact(url(tmp_path / "store.db"), rev - 5) == (rev - 5, rev)
        await refused(server.list(START, END, rev=rev - 6), Compacted)
        assert len((await server.list(START, END, rev=rev - 5)).kvs) == 1
        await eventually(lambda: server.known_rev() == rev, "the server doesn't notice that it is alone again")
        assert (await server.put("/t/b", b"", expect=0)).rev == server.known_rev() == rev + 1
        await server.close()

    asyncio.run(scenario())


def test_compaction_holds_across_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        server, rev = await filled(tmp_path / "store.db")
        assert await compact(url(tmp_path / "store.db")) == (rev, rev)
        await server.close()
        server = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await server.start()
        assert await server.compact_rev() == rev
        await refused(server.get("/t/a", rev=rev - 1), Compacted)
        kv, _ = await server.get("/t/a", rev=rev)
        assert kv is not None
        assert kv.value == b"29"
        await server.close()
        assert await check(url(tmp_path / "store.db")) == []

    asyncio.run(scenario())


def test_what_is_forgotten_already_is_no_mistake_and_the_future_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        server, rev = await filled(tmp_path / "store.db")
        await server.close()
        store = url(tmp_path / "store.db")
        assert await compact(store, 10) == (10, rev)
        assert await compact(store, 5) == (10, rev)
        await refused(compact(store, rev + 1), FutureRevision)
        for wrong in (0, -3):
            assert "revisions begin at 1" in str(await refused(compact(store, wrong), StorageError))

    asyncio.run(scenario())


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        for function in (check, compact):
            error = await refused(function(url(tmp_path / "typo.db")), StorageError)
            assert "the file doesn't exist" in str(error)
            assert "memory" in str(await refused(function("memory://"), StorageError))

    asyncio.run(scenario())
    assert list(tmp_path.iterdir()) == []


DAMAGES = {
    "DELETE FROM log WHERE rev = 20": "instead of",
    "DELETE FROM log WHERE rev = 31": "points at no change of its own",
    "DELETE FROM kv": "was not deleted and is not live",
    "UPDATE kv SET rev = 30": "does not point at its latest change",
    "UPDATE kv SET create_rev = 7": "points at no change of its own",
    "UPDATE meta SET rev = 30": "above the store's own count",
    "UPDATE meta SET rev = 32": "instead of",
    "UPDATE meta SET compact_rev = 99": "contradict each other",
    "UPDATE log SET prev_rev = 5000 WHERE rev = 25": "has lost the value it replaced",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_check_names_the_damage(tmp_path: Path, damage: str) -> None:
    async def scenario() -> None:
        server, rev = await filled(tmp_path / "store.db")
        assert rev == 31
        await server.close()
        connection = apsw.Connection(str(tmp_path / "store.db"))
        connection.execute(damage)
        connection.close()
        wrong = await check(url(tmp_path / "store.db"))
        assert any(DAMAGES[damage] in line for line in wrong), wrong
        assert all(len(line.splitlines()) == 1 for line in wrong)

    asyncio.run(scenario())


def test_check_finds_damaged_pages(tmp_path: Path) -> None:
    async def scenario() -> None:
        server, _ = await filled(tmp_path / "store.db")
        await asyncio.gather(*(server.put(f"/t/{i}", b"x" * 500, expect=0) for i in range(200)))
        await server.close()
        content = bytearray((tmp_path / "store.db").read_bytes())
        for page in range(6, len(content) // 4096):
            content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
        (tmp_path / "store.db").write_bytes(content)
        assert any(line.startswith("SQLite: ") for line in await check(url(tmp_path / "store.db")))

    asyncio.run(scenario())
