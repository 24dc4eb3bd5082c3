"""What lies on the disk: the write-ahead log stays bounded, is moved into the file when idle, and goes on closing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from oarlock.storage.backend import Unavailable
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import END, START, eventually, refused


def size(path: Path | str) -> int:
    return os.path.getsize(path)


def test_the_write_ahead_log_is_bounded_under_load(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "store.db"
        backend = SqliteBackend(path, VirtualClock())
        await backend.start()
        largest = 0

        async def client(number: int) -> None:
            nonlocal largest
            for index in range(120):
                await backend.put(f"/t/{number}-{index}", b"x" * 8_000, expect=0)
                largest = max(largest, size(f"{path}-wal"))

        await asyncio.gather(*(client(number) for number in range(64)))
        written = (await backend.count(START, END))[0] * 8_000
        assert written > 60_000_000
        assert largest < written / 2, "nobody checkpoints under load"
        await backend.close()

    asyncio.run(scenario())
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["store.db", "store.db.d"]


def test_an_idle_store_is_checkpointed(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "store.db"
        backend = SqliteBackend(path, VirtualClock())
        await backend.start()
        before = size(path)
        await asyncio.gather(*(backend.put(f"/t/{i}", b"x" * 1_000, expect=0) for i in range(100)))
        await eventually(lambda: size(path) > before + 100_000, "the file never gets what was written")
        assert (await backend.put("/t/after", b"", expect=0)).ok
        await backend.close()

    asyncio.run(scenario())


def test_a_long_read_does_not_stop_the_writing(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        await asyncio.gather(*(backend.put(f"/t/{i:05}", b"x" * 200, expect=0) for i in range(3_000)))
        reads = [asyncio.create_task(backend.list(START, END)) for _ in range(5)]
        revs = [(await backend.put(f"/t/new-{i}", b"", expect=0)).rev for i in range(20)]
        pages = await asyncio.gather(*reads)
        assert all(len(page.kvs) == 3_000 + sum(rev <= page.rev for rev in revs) for page in pages)
        await backend.close()

    asyncio.run(scenario())


def test_looking_through_the_store_gives_way_to_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room in the log can't be used again while a table is looked through: past a bound the check is broken off."""

    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        await asyncio.gather(*(backend.put(f"/t/{i:05}", b"x" * 200, expect=0) for i in range(3_000)))
        assert await backend.check(quick=True) == []
        with monkeypatch.context() as patch:
            patch.setattr("oarlock.storage.sqlite.backend._LOG_BYTES", 0)
            assert "broken off" in str(await refused(backend.check(quick=True), Unavailable))
        looking = asyncio.create_task(backend.check(quick=True))
        await asyncio.sleep(0)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        assert looking.cancelled()
        await backend.close()
        assert backend._checks == {}
        assert sorted(os.listdir(tmp_path)) == ["store.db", "store.db.d"], "it was still open"

    asyncio.run(scenario())
