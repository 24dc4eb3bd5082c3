"""Another epoch in a SQLite file is told from another file, also by the other processes on it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from oarlock.storage.backend import EPOCH_GAP, Unavailable
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import END, START, eventually, record, refused

pytestmark = pytest.mark.anyio


async def opened(path: Path) -> SqliteBackend:
    backend = SqliteBackend(path, VirtualClock())
    await backend.start()
    return backend


async def test_the_other_process_writes_on_after_the_checkpoint_that_brings_the_epoch_into_the_file(
    tmp_path: Path,
) -> None:
    first, second = await opened(tmp_path / "store.db"), await opened(tmp_path / "store.db")
    old = (await first.put("/t/a", b"1", expect=0)).rev
    await first.begin_epoch(0)
    await first.close()
    await eventually(lambda: second.known_rev() is not None, "the second doesn't notice that it is alone")
    assert second.known_rev() == await second.current_rev() > EPOCH_GAP
    new = (await second.put("/t/a", b"2", expect=old)).rev
    await second.close()  # which checkpoints, and looks at the file before
    third = await opened(tmp_path / "store.db")
    kv, rev = await third.get("/t/a")
    assert kv is not None
    assert (kv.value, kv.mod_rev, rev) == (b"2", new, new)
    assert await third.check() == []
    await third.close()


async def test_a_process_that_is_alone_goes_on_counting_in_the_new_epoch(tmp_path: Path) -> None:
    backend = await opened(tmp_path / "store.db")
    await asyncio.gather(*(backend.put(f"/t/{number}", b"x" * 900, expect=0) for number in range(2_500)))
    rev = await backend.begin_epoch(0)
    assert backend.known_rev() == rev
    watch = await record(backend, rev)
    assert (await backend.put("/t/0", b"1", expect=2)).rev == backend.known_rev() == rev + 1
    assert [event.rev for event in watch.events] == [rev + 1]
    assert len((await backend.list(START, END)).kvs) == 2_500
    await backend.close()


@pytest.mark.parametrize("foreign", [False, True], ids=["an older copy", "a copy that went on elsewhere"])
async def test_a_copy_over_the_file_is_still_noticed(tmp_path: Path, foreign: bool) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    backend = await opened(path)
    await backend.put("/t/a", b"1", expect=0)
    await backend.close()
    shutil.copy(path, copy)
    if foreign:
        elsewhere = await opened(copy)
        await elsewhere.begin_epoch(5 * EPOCH_GAP)
        await elsewhere.close()
    backend = await opened(path)
    await backend.begin_epoch(0)
    await backend.close()
    backend = await opened(path)
    await backend.put("/t/b", b"1", expect=0)
    with path.open("r+b") as file:
        file.write(copy.read_bytes())
    await eventually(lambda: backend.known_rev() is None, "the copy isn't noticed")
    assert "was overwritten" in str(await refused(backend.put("/t/c", b"", expect=0), Unavailable))
    await backend.close()
