"""Files of an open store are deleted, moved, replaced or overwritten: it says so, acknowledges nothing, and goes on
when they are back."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from oarlock.storage.backend import OutcomeUnknown, Unavailable
from oarlock.storage.sqlite.backend import _POLLS_PER_REFRESH, SqliteBackend
from oarlock.storage.sqlite.locks import SETTLED_S, FilesMissing
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import END, START, Recorder, eventually, refused

FILES = ("store.db", "store.db-wal", "store.db-shm", "store.db.d/members.lock", "store.db.d/commit.lock", "store.db.d")
DURABLE = ("store.db", "store.db-wal")
"""Without these what is acknowledged is lost: the very first write mustn't be."""

SQLITES = ("store.db", "store.db-wal", "store.db-shm")


@asynccontextmanager
async def opened(path: Path, **options: Any) -> AsyncIterator[SqliteBackend]:
    backend = SqliteBackend(path, VirtualClock(), **options)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


async def put(backend: SqliteBackend, name: str) -> int:
    result = await backend.put(f"/t/{name}", b"x" * 100, expect=0)
    assert result.ok
    return result.rev


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
    return [record.getMessage() for record in caplog.records if record.name == "oarlock.storage.sqlite"]


async def is_gone(backend: SqliteBackend, name: str, rev: int) -> None:
    """Nothing is acknowledged, no read claims to know what is there now; the past is answered as it was."""
    if name not in DURABLE:
        await eventually(lambda: backend.known_rev() is None, "nobody notices")
    first = await refused(backend.put("/t/lost", b"", expect=0), Unavailable)
    assert name in str(first)
    for call in (
        backend.put("/t/lost-again", b"", expect=0),
        backend.delete("/t/a", expect=rev),
        backend.get("/t/a"),
        backend.list(START, END),
        backend.count(START, END),
        backend.current_rev(),
        backend.compact_rev(),
        backend.compact(rev),
        backend.check(),
    ):
        error = await refused(call, FilesMissing)
        assert name in str(error)
        assert not isinstance(error, OutcomeUnknown), "what wasn't begun is known not to have happened"
    assert backend.known_rev() is None
    assert (await backend.get("/t/a", rev=rev))[0] is not None
    assert [kv.key for kv in (await backend.list(START, END, rev=rev)).kvs] == ["/t/a"]


def test_what_is_moved_away_stops_the_store_until_it_is_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "store.db") as backend:
            rev = await put(backend, "a")
            seen = Recorder(rev)
            await backend.watch(START, END, after=rev, deliver=seen.deliver, failed=seen.failed)
            for name in FILES:
                caplog.clear()
                os.rename(tmp_path / name, tmp_path / "aside")
                await is_gone(backend, name, rev)
                os.rename(tmp_path / "aside", tmp_path / name)
                await eventually(lambda: backend.known_rev() is not None, f"{name} is back and nobody notices")
                assert [text.partition(":")[0] for text in told(caplog) if "moved into" not in text] == [
                    "the store is gone",
                    "the store is back",
                ]
                new = await put(backend, name.replace("/", "-"))
                assert await backend.current_rev() == new
                await backend.delete(f"/t/{name.replace('/', '-')}", expect=new)
                lost, _ = await backend.get("/t/lost")
                if lost is not None:
                    await backend.delete("/t/lost", expect=lost.mod_rev)
                rev = (await backend.list(START, END)).rev
            assert seen.error is None
            await backend.request_progress()
            assert [event.rev for event in seen.events] == list(range(seen.events[0].rev, rev + 1)), "a hole"
            assert await backend.check() == []

    caplog.set_level(logging.INFO, "oarlock.storage.sqlite")
    asyncio.run(scenario())


def test_all_who_share_a_store_stop_and_go_on_together(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "store.db") as first, opened(tmp_path / "store.db") as second:
            rev = await put(first, "a")
            for name in ("store.db-wal", "store.db.d"):
                os.rename(tmp_path / name, tmp_path / "aside")
                for backend in (first, second):
                    await eventually(lambda backend=backend: backend._presence.problem, "nobody notices")
                    assert name in str(await refused(backend.put("/t/lost", b"", expect=0), FilesMissing))
                    assert name in str(await refused(backend.current_rev(), FilesMissing))
                os.rename(tmp_path / "aside", tmp_path / name)
                for backend in (first, second):
                    await eventually(lambda backend=backend: not backend._presence.problem, "it is back")
                new = await put(second, name)
                assert await first.current_rev() == await second.current_rev() == new > rev
            assert await first.check() == []
        assert len([text for text in told(caplog) if "gone" in text]) == 4
        saved = len([text for text in told(caplog) if "moved into" in text])
        assert 1 <= saved <= 2, "each saves what it can, once, unless the log is back before its turn comes"

    caplog.set_level(logging.INFO, "oarlock.storage.sqlite")
    asyncio.run(scenario())


@pytest.mark.parametrize("names", [SQLITES, ("store.db",), ("store.db-shm",), ("store.db.d",)])
def test_what_is_replaced_stops_the_store_for_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, names: tuple[str, ...]
) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "store.db") as backend:
            rev = await put(backend, "a")
            (tmp_path / "other").mkdir()
            for name in names:
                if name == "store.db.d":
                    shutil.copytree(tmp_path / name, tmp_path / "other" / name, ignore=shutil.ignore_patterns("*.sock"))
                    shutil.rmtree(tmp_path / name)
                else:
                    shutil.copy(tmp_path / name, tmp_path / "other" / name)
                os.rename(tmp_path / "other" / name, tmp_path / name)
            await is_gone(backend, names[0], rev)
            assert "was replaced by another file" in told(caplog)[0]
            before = {name: (tmp_path / name).read_bytes() for name in SQLITES}
        assert {name: (tmp_path / name).read_bytes() for name in SQLITES} == before, "closing touches what isn't ours"
        assert len(told(caplog)) == 1

    asyncio.run(scenario())


def test_nothing_acknowledged_is_lost_with_the_write_ahead_log(tmp_path: Path, caplog: Any) -> None:
    """It is still open, so what is in it can be moved into the file: as long as nobody can have begun another."""

    async def scenario() -> None:
        async with opened(tmp_path / "store.db") as backend:
            acknowledged = [f"/t/{number}" for number in range(50)]
            for number in range(50):
                await put(backend, str(number))
            for name in ("store.db-wal", "store.db-shm"):
                (tmp_path / name).unlink()
            await refused(backend.put("/t/lost", b"", expect=0), Unavailable)
            await eventually(lambda: any("has been moved into" in text for text in told(caplog)), "nobody saves it")
            # As it would be found after a crash, or a restart.
            shutil.copy(tmp_path / "store.db", tmp_path / "found.db")
        async with opened(tmp_path / "found.db") as found:
            assert await found.check() == []
            assert {*acknowledged} <= {kv.key for kv in (await found.list(START, END)).kvs}
        async with opened(tmp_path / "store.db") as found:
            assert {*acknowledged} <= {kv.key for kv in (await found.list(START, END)).kvs}

    caplog.set_level(logging.INFO, "oarlock.storage.sqlite")
    asyncio.run(scenario())


def test_who_comes_to_a_path_that_leads_elsewhere_is_not_let_in(tmp_path: Path) -> None:
    """Otherwise there would be two histories of one name."""

    async def scenario() -> None:
        async with opened(tmp_path / "store.db") as backend:
            await put(backend, "a")
            for name in SQLITES:
                os.rename(tmp_path / name, tmp_path / f"{name}.aside")
            other = SqliteBackend(tmp_path / "store.db", VirtualClock(), join_timeout_s=0.3)
            error = await refused(other.start(), Unavailable)
            assert f"(pid {os.getpid()})" in str(error)
            for name in SQLITES:
                os.replace(tmp_path / f"{name}.aside", tmp_path / name)
            async with opened(tmp_path / "store.db") as other:
                assert (await other.get("/t/a"))[0] is not None

    asyncio.run(scenario())


def test_two_that_lost_their_lock_folder_never_contradict_each_other(tmp_path: Path, caplog: Any) -> None:
    """The second can't know of the first; so the first must have stopped before the second begins."""

    async def scenario() -> None:
        async with opened(tmp_path / "store.db") as first:
            rev = await put(first, "a")
            assert first.known_rev() == rev
            shutil.rmtree(tmp_path / "store.db.d")
            looks = first._polls
            await eventually(lambda: first._polls >= looks + 2 * _POLLS_PER_REFRESH, "nobody looks who is there")
            async with opened(tmp_path / "store.db") as second:
                assert second.known_rev() == rev
                assert (await second.get("/t/a"))[0] is not None
                new = await put(second, "b")
                assert first.known_rev() is None
                for call in (first.current_rev(), first.get("/t/b"), first.put("/t/c", b"", expect=0)):
                    assert "members.lock" in str(await refused(call, Unavailable))
                assert second.known_rev() == await second.current_rev() == new
            assert await second_look(tmp_path) == {"/t/a", "/t/b"}
        assert len(told(caplog)) == 1

    async def second_look(folder: Path) -> set[str]:
        async with opened(folder / "store.db") as third:
            assert await third.check() == []
            return {kv.key for kv in (await third.list(START, END)).kvs}

    asyncio.run(scenario())


def test_a_lock_made_anew_is_not_relied_on_while_the_old_one_may_still_be_trusted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "store.db") as backend:
            await put(backend, "a")
        shutil.rmtree(tmp_path / "store.db.d")
        async with opened(tmp_path / "store.db"):
            made = (tmp_path / "store.db.d" / "members.lock").stat().st_ctime
            # Files get the time of the kernel's last tick, which is a little in the past.
            assert os.stat(probe(tmp_path)).st_ctime - made >= SETTLED_S - 0.02

    def probe(folder: Path) -> Path:
        (folder / "now").touch()
        return folder / "now"

    asyncio.run(scenario())


async def checkpointed(path: Path) -> None:
    """Put all that was written into the file itself, as an idle server does."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(FULL)")
    connection.close()


def overwrite(path: Path, content: bytes) -> None:
    """As ``cp`` does: the same file, with another content."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


@pytest.mark.parametrize("what", ["older", "other", "empty"])
@pytest.mark.parametrize("busy", [False, True])
def test_what_is_overwritten_stops_the_store(tmp_path: Path, caplog: Any, what: str, busy: bool) -> None:
    async def scenario() -> None:
        path = tmp_path / "store.db"
        async with opened(tmp_path / "other.db") as backend:
            for number in range(20):
                await put(backend, str(number))
        async with opened(path) as backend:
            await put(backend, "a")
            await checkpointed(path)
            older = path.read_bytes()
            await put(backend, "b")
            await checkpointed(path)
            await backend._check_files()
            if busy:
                await put(backend, "c")
            overwrite(path, {"older": older, "other": (tmp_path / "other.db").read_bytes(), "empty": b""}[what])
            await eventually(lambda: backend.known_rev() is None, "nobody notices")
            error = await refused(backend.put("/t/d", b"", expect=0), FilesMissing)
            assert {"older": "an older copy", "other": "another store", "empty": "was emptied"}[what] in str(error)
            found = path.read_bytes()
        assert path.read_bytes() == found, "closing touches what isn't ours"
        assert len(told(caplog)) == 1

    asyncio.run(scenario())


def test_what_others_may_do_to_the_file_is_not_mistaken_for_it(tmp_path: Path, caplog: Any) -> None:
    async def scenario() -> None:
        path = tmp_path / "store.db"
        async with opened(path) as backend:
            for number in range(200):
                await put(backend, str(number))
            for statement in ("PRAGMA wal_checkpoint(FULL)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "ANALYZE"):
                connection = apsw.Connection(str(path))
                connection.set_busy_timeout(5000)
                connection.execute(statement)
                connection.close()
                await backend._check_files()
                await put(backend, f"after {statement}")
                await backend._check_files()
            connection = apsw.Connection(str(path))
            connection.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
            connection.close()
            await put(backend, "last")
            await backend._check_files()
            assert await backend.check() == []
        assert told(caplog) == []

    asyncio.run(scenario())
