"""A disk that fails: the process stops writing and says so, reads and watches go on. The errors are the kernel's own.

The file descriptors SQLite holds are exchanged for others, on which the system calls it makes fail.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from oarlock.storage.backend import OutcomeUnknown, Unavailable
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import END, START, Recorder, refused


def exchange(path: Path, replacement: Path) -> int:
    """Make every descriptor this process has open on `path` one that only reads `replacement`; how many there were."""
    exchanged = 0
    reading = os.open(replacement, os.O_RDONLY)
    for name in os.listdir("/proc/self/fd"):
        try:
            points_at = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if points_at == str(path) and int(name) != reading:
            os.dup2(reading, int(name))
            exchanged += 1
    os.close(reading)
    return exchanged


def test_a_write_error_stops_the_writing_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        seen = Recorder(await backend.current_rev())
        await backend.watch(START, END, after=seen.rev, deliver=seen.deliver, failed=seen.failed)
        rev = (await backend.put("/t/a", b"1", expect=0)).rev
        log = tmp_path / "store.db-wal"
        assert exchange(log, log) > 0
        failed = await asyncio.gather(
            *(backend.put(f"/t/more-{i}", b"x", expect=0) for i in range(5)), return_exceptions=True
        )
        assert all(isinstance(error, Unavailable) for error in failed), failed
        assert any(isinstance(error, OutcomeUnknown) for error in failed), "a commit that broke off may have happened"
        assert len({id(error) for error in failed}) == len(failed)
        for call in (backend.put("/t/b", b"", expect=0), backend.delete("/t/a", expect=rev), backend.compact(rev)):
            error = await refused(call, Unavailable)
            assert not isinstance(error, OutcomeUnknown), "what isn't begun any more is known"
            assert "check the disk, then restart" in str(error)
        kv, at = await backend.get("/t/a")
        assert kv is not None
        assert (kv.mod_rev, at) == (rev, rev)
        assert [kv.key for kv in (await backend.list(START, END)).kvs] == ["/t/a"]
        await backend.request_progress()
        assert (seen.error, [event.rev for event in seen.events]) == (None, [rev])
        await backend.close()

    asyncio.run(scenario())


def test_after_a_restart_the_store_is_sound(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        rev = (await backend.put("/t/a", b"1", expect=0)).rev
        log = tmp_path / "store.db-wal"
        exchange(log, log)
        await refused(backend.put("/t/b", b"", expect=0), OutcomeUnknown)
        await backend.close()
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        assert await backend.check() == []
        assert await backend.current_rev() in (rev, rev + 1)
        assert (await backend.put("/t/c", b"", expect=0)).ok
        await backend.close()

    asyncio.run(scenario())


def test_a_store_that_became_read_only_says_so_and_recovers(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()

        async def writable(yes: bool) -> None:
            statement = f"PRAGMA query_only={int(not yes)}"
            await backend._writer.between(lambda: backend._files.connection.execute(statement))

        await writable(False)
        error = await refused(backend.put("/t/a", b"", expect=0), Unavailable)
        assert "make the file and its directory writable" in str(error)
        assert not isinstance(error, OutcomeUnknown)
        await writable(True)
        assert (await backend.put("/t/a", b"", expect=0)).ok
        await backend.close()

    asyncio.run(scenario())
