"""A store of any kind is copied into any other, in several runs if need be, beside its servers."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from whole_stores import STORES, NewStore, contents, fill, new_store, silent

from oarlock.storage.backend import KV, Backend, Compacted, StorageError
from oarlock.storage.care import copy as copy_module
from oarlock.storage.care.copy import copy
from oarlock.storage.care.operations import opened, stats
from oarlock.storage.care.snapshot import EVERYTHING, OperationProgress, StoreSnapshot, must_be_complete, take_snapshot
from oarlock.testing.contracts.support import record, refused

__all__ = ["new_store"]

pytestmark = pytest.mark.anyio

PAIRS = list(itertools.product(STORES, STORES))


class Interrupted(Exception):
    """Stands for Ctrl-C."""


def values(kvs: list[KV]) -> list[tuple[str, bytes]]:
    return [(kv.key, kv.value) for kv in kvs]


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_every_key_is_copied_in_the_order_of_its_last_change(
    new_store: NewStore, first: str, second: str
) -> None:
    source, target = new_store(first), new_store(second)
    await fill(source, 300)
    copied = await copy(source, target, "again", silent)
    before, after = await contents(source), await contents(target)
    assert sorted(values(after)) == sorted(values(before))
    if second != "etcd":  # which may number writes that are in flight together in another order
        assert values(after) == values(before)
    assert (copied.keys, copied.written, copied.source_moved) == (240, 240, False)
    async with opened(source) as old, opened(target) as new:
        assert await new.epoch() != await old.epoch()
        assert copied.rev > copied.from_rev
        watch = await record(new, copied.from_rev, EVERYTHING)
        assert isinstance(await watch.until_failed(), Compacted)
        await must_be_complete(new)


@pytest.mark.parametrize("kind", STORES)
async def test_an_interrupted_copy_goes_on_with_what_has_changed_meanwhile(new_store: NewStore, kind: str) -> None:
    source, target = new_store(kind), new_store(kind)
    await fill(source, 1_000)

    def interrupt(progress: OperationProgress) -> None:
        if progress.what == "copy" and progress.done >= 300:
            raise Interrupted

    with pytest.raises(Interrupted):
        await copy(source, target, "oarlock storage copy it", interrupt)
    async with opened(target) as backend:
        partial, _ = await backend.count(*EVERYTHING)
        assert 1 < partial < 800
        error = await refused(must_be_complete(backend), StorageError)
        assert "a copy into it was interrupted: run `oarlock storage copy it` again" in str(error)
    async with opened(source) as backend:
        for kv in (await backend.list(*EVERYTHING)).kvs[::10]:
            await backend.delete(kv.key, expect=kv.mod_rev)
        for kv in (await backend.list(*EVERYTHING)).kvs[::10]:
            await backend.put(kv.key, b"changed", expect=kv.mod_rev)
    await fill(source, 40, "/registry/test.example.com/others/")
    other = new_store("sqlite")
    await fill(other, 10)
    assert "run `oarlock storage copy it` again" in str(await refused(copy(other, target, "x", silent), StorageError))
    copied = await copy(source, target, "again", silent)
    assert copied.written < 900
    assert sorted(values(await contents(target))) == sorted(values(await contents(source)))


async def test_what_is_written_during_a_copy_is_copied_too(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = new_store("sqlite"), new_store("sqlite")
    await fill(source, 1_000)
    async with opened(source) as server:
        later: list[asyncio.Task[object]] = []

        async def write() -> None:
            kvs = (await server.list(*EVERYTHING)).kvs
            await asyncio.gather(
                *(server.delete(kv.key, expect=kv.mod_rev) for kv in kvs[::20]),
                *(server.put(kv.key, b"meanwhile", expect=kv.mod_rev) for kv in kvs[1::20]),
                server.put("/registry/test.example.com/new/a", b"new", expect=0),
            )

        def begin(progress: OperationProgress) -> None:
            if progress.what == "copy" and not later:
                later.append(asyncio.create_task(write()))

        async def after_the_writes(backend: Backend) -> StoreSnapshot:
            await asyncio.gather(*later)
            return await take_snapshot(backend)

        monkeypatch.setattr(copy_module, "take_snapshot", after_the_writes)
        await copy(source, target, "again", begin)
    assert sorted(values(await contents(target))) == sorted(values(await contents(source)))


async def test_a_source_that_never_stands_still_is_told_and_the_rest_is_copied_later(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_module, "ROUNDS", 3)
    source, target = new_store("sqlite"), new_store("sqlite")
    await fill(source, 300)
    async with opened(source) as server:
        rev = 0

        async def after_a_write(backend: Backend) -> StoreSnapshot:
            nonlocal rev
            rev = (await server.put("/registry/test.example.com/busy/a", b"%d" % rev, expect=rev)).rev
            return await take_snapshot(backend)

        monkeypatch.setattr(copy_module, "take_snapshot", after_a_write)
        error = await refused(copy(source, target, "the command", silent), StorageError)
        monkeypatch.setattr(copy_module, "take_snapshot", take_snapshot)
    assert "the source is still being written: stop its servers, then run `the command` again" in str(error)
    copied = await copy(source, target, "again", silent)
    assert copied.written <= 2
    assert sorted(values(await contents(target))) == sorted(values(await contents(source)))


async def test_a_target_that_is_in_use_or_the_source_itself_is_refused(new_store: NewStore) -> None:
    source, target = new_store("sqlite"), new_store("sqlite")
    await fill(source, 20)
    await fill(target, 20)
    assert "isn't empty" in str(await refused(copy(source, target, "again", silent), StorageError))
    assert "the same store" in str(await refused(copy(source, source, "again", silent), StorageError))


@pytest.mark.parametrize("kind", STORES)
async def test_times_to_live_are_copied(new_store: NewStore, kind: str) -> None:
    source, target = new_store(kind), new_store(kind)
    async with opened(source, create=True) as backend:
        await backend.put("/registry/a/b/limited", b"1", expect=0, ttl_ms=500_000)
        await backend.put("/registry/a/b/none", b"2", expect=0)
    await copy(source, target, "again", silent)
    limited, none = sorted(await contents(target))
    original = sorted(await contents(source))[0]
    assert limited.expires is not None
    assert original.expires is not None
    assert abs(limited.expires - original.expires) <= 30_000  # leases of etcd are shared
    assert none.expires is None


@pytest.mark.parametrize("kind", STORES)
async def test_stats_count_keys_and_bytes_of_each_resource(new_store: NewStore, kind: str) -> None:
    url = new_store(kind)
    async with opened(url, create=True) as backend:
        for number in range(30):
            await backend.put(f"/registry/test.example.com/things/default/{number}", b"x" * number, expect=0)
        await backend.put("/registry/test.example.com/boxes/a", b"12345", expect=0)
        await backend.put("/oarlock/definitions/things.test.example.com", b"{}", expect=0)
        await backend.put("/other", b"", expect=0)
        await backend.compact(await backend.current_rev())
        rev, compacted, epoch = await backend.current_rev(), await backend.compact_rev(), await backend.epoch()
    told: list[int] = []
    found = await stats(url, lambda progress: told.append(progress.done))
    assert (found.rev, found.compact_rev, found.epoch) == (rev, compacted, epoch)
    assert {one.prefix: (one.keys, one.bytes, one.largest) for one in found.groups} == {
        "/": (1, 0, 0),
        "/oarlock/definitions/": (1, 2, 2),
        "/registry/test.example.com/boxes/": (1, 5, 5),
        "/registry/test.example.com/things/": (30, 435, 29),
    }
    assert told[-1] == 33
    assert found.disk_bytes is None or found.disk_bytes > 4_096


async def test_a_store_that_is_not_there_is_not_made_to_be_counted(tmp_path: Path) -> None:
    await refused(stats(f"sqlite:///{tmp_path}/typo.db", silent), StorageError)
    await refused(copy(f"sqlite:///{tmp_path}/typo.db", f"sqlite:///{tmp_path}/new.db", "again", silent), StorageError)
    assert not list(tmp_path.glob("*.db"))  # noqa: ASYNC240 (a look at a temporary folder)
