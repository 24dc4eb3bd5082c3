"""While a process has the store for itself its event loop commits, and the kernel syncs: nothing is answered before."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from oarlock.storage.backend import OutcomeUnknown, Unavailable
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.storage.sqlite.disk_sync import DiskSync
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import END, START, Recorder, eventually, refused

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
"""
"""Another program, which knows nothing of our locks."""


@pytest.fixture(autouse=True)
def _where_the_kernel_can(tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    probe.touch()

    async def try_it() -> None:
        done = asyncio.get_running_loop().create_future()
        sync = DiskSync(probe, done.set_result)
        sync.begin()
        assert await done == 0
        sync.stop_listening()
        sync.close()

    try:
        asyncio.run(try_it())
    except OSError as error:
        pytest.skip(f"no asynchronous sync here: {error}")


def sync_of(backend: SqliteBackend) -> DiskSync:
    sync = backend._writer._sync
    assert sync is not None
    return sync


def test_nothing_is_answered_or_published_before_the_log_is_synced(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        seen = Recorder(await backend.current_rev())
        await backend.watch(START, END, after=seen.rev, deliver=seen.deliver, failed=seen.failed)
        sync_of(backend).stop_listening()
        put = asyncio.ensure_future(backend.put("/t/a", b"1", expect=0))
        reading = asyncio.ensure_future(backend.get("/t/a"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert backend._writer._unsynced is not None
        assert not put.done()
        assert not seen.events
        assert not reading.done() or reading.result()[0] is None, "what isn't durable yet was read"
        asyncio.get_running_loop().add_reader(sync_of(backend)._told, sync_of(backend)._on_told)
        assert (await put).ok
        await reading
        assert [event.key for event in seen.events] == ["/t/a"]
        await backend.close()

    asyncio.run(scenario())


def test_what_is_not_synced_yet_is_not_read_while_another_process_joins(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        before = (await backend.put("/t/a", b"1", expect=0)).rev
        seen = Recorder(before)
        await backend.watch(START, END, after=seen.rev, deliver=seen.deliver, failed=seen.failed)
        sync_of(backend).stop_listening()
        put = asyncio.ensure_future(backend.put("/t/b", b"1", expect=0))
        await eventually(lambda: backend._writer.unsynced, "the write is never committed")
        assert backend.known_rev() == await backend.current_rev() == before
        assert backend.current_rev_sync() is None
        joiner = SqliteBackend(tmp_path / "store.db", VirtualClock())
        joining = asyncio.ensure_future(joiner.start())
        await eventually(lambda: backend.known_rev() is None, "the other process is never heard")
        assert backend.current_rev_sync() is None
        asked = (backend.current_rev(), backend.get("/t/b"), backend.list(START, END), backend.count(START, END))
        reads = [asyncio.ensure_future(read) for read in asked]
        await backend.get("/t/a", rev=before)  # the reader has had its turn
        assert not any(done.done() for done in (*reads, put, joining))
        assert not seen.events
        asyncio.get_running_loop().add_reader(sync_of(backend)._told, sync_of(backend)._on_told)
        rev = (await put).rev
        assert [event.rev for event in seen.events] == [rev]
        current, got, page, counted = await asyncio.gather(*reads)
        assert current == got[1] == page.rev == counted[1] == rev
        await joining
        assert await joiner.current_rev() == rev
        await joiner.close()
        await backend.close()

    asyncio.run(scenario())


def test_a_sync_that_fails_stops_the_writing(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        assert (await backend.put("/t/a", b"1", expect=0)).ok
        nowhere = os.open(os.devnull, os.O_RDONLY)  # it can't be synced
        os.dup2(nowhere, sync_of(backend)._file)
        os.close(nowhere)
        await refused(backend.put("/t/b", b"1", expect=0), OutcomeUnknown)
        error = await refused(backend.put("/t/c", b"1", expect=0), Unavailable)
        assert not isinstance(error, OutcomeUnknown)
        assert "check the disk, then restart" in str(error)
        # What the disk may not have is never read, nor may another process build on it.
        assert backend.known_rev() == 2
        assert backend.current_rev_sync() is None
        for read in (backend.get("/t/b"), backend.list(START, END), backend.count(START, END)):
            assert "check the disk, then restart" in str(await refused(read, Unavailable))
        joiner = SqliteBackend(tmp_path / "store.db", VirtualClock(), join_timeout_s=0.2)
        await refused(joiner.start(), Unavailable)
        await backend.close()

    asyncio.run(scenario())


def test_where_a_file_cannot_be_synced_that_way_the_thread_commits(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(OSError, match="Invalid argument"):
            DiskSync(os.devnull, lambda _: None)
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(OSError, match="Invalid argument"):
            DiskSync(os.devnull, lambda _: None)
        assert len(os.listdir("/proc/self/fd")) == before
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock(), commit_on_loop=False)
        await backend.start()
        assert backend._writer._sync is None
        assert (await backend.put("/t/a", b"1", expect=0)).ok
        await backend.close()

    asyncio.run(scenario())


def test_more_writes_than_a_turn_commits_are_answered_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        results = await asyncio.gather(*(backend.put(f"/t/{n:04}", b"x" * n, expect=0) for n in range(500)))
        revs = [result.rev for result in results]
        assert revs == list(range(revs[0], revs[0] + 500))
        large = await asyncio.gather(*(backend.put(f"/t/l{n}", bytes(700_000), expect=0) for n in range(9)))
        assert all(result.ok for result in large)
        await backend.close()

    asyncio.run(scenario())


def test_the_loop_does_not_wait_for_a_program_that_holds_the_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        assert (await backend.put("/t/a", b"1", expect=0)).ok
        command = [sys.executable, "-c", HOLDER, str(tmp_path / "store.db")]
        other = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        assert other.stdout is not None
        assert await other.stdout.readline() == b"held\n"
        put = asyncio.ensure_future(backend.put("/t/b", b"1", expect=0))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not put.done()
        await other.communicate(b"let go")
        assert (await put).ok
        assert (await backend.put("/t/c", b"1", expect=0)).ok
        await backend.close()

    asyncio.run(scenario())


def test_jobs_and_writes_take_turns(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        rev = (await backend.put("/t/a", b"1", expect=0)).rev
        results = await asyncio.gather(
            *(backend.put(f"/t/one-{n}", b"1", expect=0) for n in range(20)),
            backend.compact(rev),
            *(backend.put(f"/t/two-{n}", b"1", expect=0) for n in range(20)),
        )
        assert sum(result is not None and result.ok for result in results) == 40
        assert await backend.check() == []
        await backend.close()

    asyncio.run(scenario())


def test_closing_ends_what_was_submitted(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        puts = [asyncio.ensure_future(backend.put(f"/t/{n}", b"1", expect=0)) for n in range(200)]
        await asyncio.sleep(0)
        await backend.close()
        assert all(result.ok for result in await asyncio.gather(*puts))

    asyncio.run(scenario())


def test_descriptors_are_closed_with_the_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        for _ in range(3):
            backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
            await backend.start()
            await backend.put("/t/a", b"1", expect=0)
            await backend.close()

    asyncio.run(scenario())
    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(scenario())
    assert len(os.listdir("/proc/self/fd")) == before
