"""A store that was put back to an earlier state, at rest or beneath a server, is in another epoch for every client."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from oarlock.server.files.store_mark import SeenStore, StoreMark
from oarlock.storage.backend import EPOCH_GAP, Backend, Batch, StorageError
from oarlock.storage.cache.follower import CacheLimits
from oarlock.storage.cache.watch_cache import WatchCache
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.network import NetworkBackend
from oarlock.testing.contracts.support import END, START, eventually

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteBackend]:
    backend = SqliteBackend(path, VirtualClock())
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


class Server:
    """What a server has to do with a mark: it recognises its store, sees revisions, saves."""

    def __init__(self, file: Path) -> None:
        self.now = SeenStore("", 0)
        self.mark = StoreMark(file, lambda: self.now, self._look)

    async def _look(self) -> None: ...

    async def run(self, backend: Backend, writes: int = 0) -> None:
        await self.mark.recognise(backend)
        for _ in range(writes):
            await write(backend)
        self.now = await seen(backend)
        await self.mark.save()


async def seen(backend: Backend) -> SeenStore:
    return SeenStore(await backend.epoch(), await backend.current_rev())


async def write(backend: Backend) -> None:
    kv, _ = await backend.get("/t/a")
    assert (await backend.put("/t/a", b"1", expect=kv.mod_rev if kv else 0)).ok


def copied(path: Path, copy: Path) -> None:
    shutil.copy(path, copy)


async def test_a_file_copied_back_between_two_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, file = tmp_path / "store.db", tmp_path / "store.seen"
    async with opened(path) as backend:
        await Server(file).run(backend, 5)
    copied(path, tmp_path / "copy.db")
    async with opened(path) as backend:
        await Server(file).run(backend, 20)
        last = await seen(backend)
    copied(tmp_path / "copy.db", path)
    async with opened(path) as backend:
        assert (await seen(backend)).epoch == last.epoch
        await Server(file).run(backend)
        now = await seen(backend)
        assert now.epoch != last.epoch
        assert now.revision > last.revision + EPOCH_GAP - 1
        assert await backend.compact_rev() == now.revision
    assert "it was restored or replaced" in caplog.text
    async with opened(path) as backend:
        await Server(file).run(backend, 1)
        assert (await seen(backend)).epoch == now.epoch, "once is enough"


async def test_nothing_happens_to_a_store_that_only_went_on(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "store.seen"
    for _ in range(3):
        async with opened(path) as backend:
            await Server(file).run(backend, 3)
        async with opened(path) as backend:
            await write(backend)  # others write as well
    async with opened(path) as backend:
        assert await backend.current_rev() == 13


async def test_another_store_under_the_same_name(tmp_path: Path) -> None:
    file = tmp_path / "store.seen"
    async with opened(tmp_path / "first.db") as backend:
        await Server(file).run(backend, 20)
        last = await seen(backend)
    async with opened(tmp_path / "second.db") as backend:
        await Server(file).run(backend, 1)
        assert (await seen(backend)).revision > last.revision + EPOCH_GAP


async def test_an_epoch_that_was_begun_in_order_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "store.seen"
    async with opened(tmp_path / "store.db") as backend:
        await Server(file).run(backend, 20)
        rev = await backend.begin_epoch(await backend.current_rev())
        epoch = await backend.epoch()
        await Server(file).run(backend)
        assert await seen(backend) == SeenStore(epoch, rev)


async def test_of_several_servers_the_one_that_has_seen_most_decides(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    early, late = tmp_path / "early.seen", tmp_path / "late.seen"
    async with opened(path) as backend:
        await Server(early).run(backend, 5)
    copied(path, tmp_path / "copy.db")
    async with opened(path) as backend:
        await Server(late).run(backend, 50)
        last = await seen(backend)
    copied(tmp_path / "copy.db", path)
    async with opened(path) as backend:
        await Server(early).run(backend, 60)  # it knows of nothing, and the store gives out revisions again
        await Server(late).run(backend)
    async with opened(path) as backend:
        assert (await seen(backend)).revision > last.revision
    # With less written in between, the other finds it.
    copied(tmp_path / "copy.db", path)
    async with opened(path) as backend:
        await Server(early).run(backend, 1)
        first = await seen(backend)
        await Server(late).run(backend)
        assert (await seen(backend)).epoch != first.epoch or await backend.compact_rev() > last.revision


async def test_servers_that_start_at_once_begin_one_epoch(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "store.seen"
    async with opened(path) as backend:
        await Server(file).run(backend, 5)
    file.write_text(json.dumps({"epoch": "of another store", "revision": 7_000}))
    async with opened(path) as first, opened(path) as second:
        await asyncio.gather(Server(file).mark.recognise(first), Server(file).mark.recognise(second))
        assert 7_000 + EPOCH_GAP <= await second.current_rev() < 7_000 + 2 * EPOCH_GAP


async def test_a_mark_that_is_ahead_after_a_loss_of_power_costs_an_epoch_and_nothing_else(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "store.seen"
    async with opened(path) as backend:
        await Server(file).run(backend, 5)
        now = await seen(backend)
    file.write_text(json.dumps({"epoch": now.epoch, "revision": now.revision + 1}))
    async with opened(path) as backend:
        await Server(file).run(backend)
        assert (await seen(backend)).epoch != now.epoch
        assert len((await backend.list(START, END)).kvs) == 1
        assert await backend.check() == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"epoch":1}', b'{"epoch":"a","revision":1e99}', b"\xff" * 99])
async def test_a_mark_that_cannot_be_read_is_written_anew(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "store.seen"
    file.write_bytes(content)
    async with opened(tmp_path / "store.db") as backend:
        await Server(file).run(backend, 2)
        assert json.loads(file.read_bytes()) == {"epoch": await backend.epoch(), "revision": 3}
    assert "is unreadable and is written again" in caplog.text


async def test_a_revision_that_was_never_given_out_is_no_reason(tmp_path: Path) -> None:
    file = tmp_path / "store.seen"
    file.write_text(json.dumps({"epoch": "a", "revision": 2**62 + 1}))
    async with opened(tmp_path / "store.db") as backend:
        await Server(file).run(backend)
        assert await backend.current_rev() == 1


async def test_a_directory_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    server = Server(tmp_path / "file" / "store.seen")
    async with opened(tmp_path / "store.db") as backend:
        await server.run(backend, 1)
        await server.run(backend, 1)
    assert caplog.text.count("a restored store won't be recognised") == 1


async def test_a_server_that_lags_behind_does_not_set_the_mark_back(tmp_path: Path) -> None:
    file = tmp_path / "store.seen"
    async with opened(tmp_path / "store.db") as backend:
        slow, fast = Server(file), Server(file)
        await slow.run(backend, 2)
        await fast.run(backend, 5)
        await slow.mark.save()
        assert json.loads(file.read_bytes())["revision"] == await backend.current_rev()


# Beneath a server that runs ------------------------------------------------------------------------


class PutBack(MemoryBackend):
    """A store that can be put back by means that know nothing of epochs, as by a dump of a database."""

    def keep(self) -> Callable[[], None]:
        state = {name: getattr(self, name) for name in ("_rev", "_compact_rev")}
        live, log = dict(self._live), list(self._log)
        history = {key: list(states) for key, states in self._history.items()}

        def put_back() -> None:
            vars(self).update(state)
            self._live, self._keys, self._log, self._history = dict(live), sorted(live), list(log), history
            self._watchers.fail(StorageError("the connection was lost"))

        return put_back


async def test_a_store_put_back_beneath_a_server_begins_another_epoch_and_is_loaded_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "oarlock")
    clock = VirtualClock()
    store = PutBack(clock)
    backend = NetworkBackend(store, seed=5)
    await store.start()
    await backend.start()
    cache = WatchCache(backend, clock=clock, limits=CacheLimits(retry_s=0.001))
    kept = (await store.put("/registry/g/r/a", b"1", expect=0)).rev
    await cache.start()
    epoch, put_back = cache.epoch, store.keep()
    for number in range(30):
        await store.put(f"/registry/g/r/lost{number}", b"1", expect=0)
    last = await store.current_rev()
    await eventually(lambda: cache.rev >= last, "the cache doesn't follow")
    put_back()
    assert await store.current_rev() == kept

    async def fresh() -> Any:
        while True:
            try:
                await (cache.fresh() or asyncio.sleep(0))
            except StorageError:
                await asyncio.sleep(0.005)
            else:
                return

    async with asyncio.timeout(20):
        await fresh()
    assert cache.epoch == await store.epoch() != epoch
    assert cache.rev == await store.current_rev() > last
    assert [kv.key for kv in (await store.list("/registry/", "/registry0")).kvs] == ["/registry/g/r/a"]
    batches: list[Batch] = []
    watch = await backend.watch(
        "/registry/", "/registry0", after=cache.rev, deliver=batches.append, failed=lambda error: None
    )
    new = (await store.put("/registry/g/r/b", b"1", expect=0)).rev
    await eventually(lambda: cache.rev >= new, "the cache doesn't go on")
    watch.close()
    await cache.close()
    await backend.close()
    await store.close()
