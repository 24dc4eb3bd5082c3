"""A backup of any store can be restored into any other, and nothing else than a whole backup can."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import stat
import time
from pathlib import Path

import pytest
from whole_stores import STORES, NewStore, contents, fill, new_store, silent

from oarlock.storage.backend import KV, Backend, Compacted, Rev, StorageError
from oarlock.storage.care import snapshot as snapshot_module
from oarlock.storage.care.backup_file import BackupFileError, BackupHead, BackupReader, FileError, written_backup
from oarlock.storage.care.operations import backup, opened
from oarlock.storage.care.restore import restore
from oarlock.storage.care.snapshot import EVERYTHING, UNFINISHED_KEY, OperationProgress, must_be_complete
from oarlock.testing.contracts.support import record, refused

__all__ = ["new_store"]

pytestmark = pytest.mark.anyio

PAIRS = list(itertools.product(STORES, STORES))


def values(kvs: list[KV]) -> list[tuple[str, bytes]]:
    return [(kv.key, kv.value) for kv in kvs]


def by_key(kvs: list[KV]) -> list[tuple[str, bytes]]:
    return sorted(values(kvs))


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_every_key_comes_back_in_the_order_of_its_last_change(
    tmp_path: Path, new_store: NewStore, first: str, second: str
) -> None:
    source, target, file = new_store(first), new_store(second), tmp_path / "store.backup"
    await fill(source, 300)
    taken = await backup(source, file, silent)
    before = await contents(source)
    assert taken.keys == len(before) == 240
    result = await restore(file, target, "again", silent)
    after = await contents(target)
    assert by_key(after) == by_key(before)
    if second != "etcd":  # which may number writes that are in flight together in another order
        assert values(after) == values(before)
    assert (result.keys, result.expired, result.from_rev) == (240, 0, taken.rev)
    assert result.rev > taken.rev
    assert [name for name in os.listdir(tmp_path) if "backup" in name] == ["store.backup"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", STORES)
async def test_whoever_knows_a_revision_of_the_old_store_is_told_at_once_that_it_is_gone(
    tmp_path: Path, new_store: NewStore, kind: str
) -> None:
    source, target, file = new_store(kind), new_store(kind), tmp_path / "store.backup"
    await fill(source, 50)
    taken = await backup(source, file, silent)
    await fill(source, 100, "/registry/test.example.com/things/later/")
    async with opened(source) as backend:
        newest, epoch = await backend.current_rev(), await backend.epoch()
    assert newest > taken.rev
    await restore(file, target, "again", silent)
    async with opened(target) as backend:
        assert await backend.epoch() != epoch
        for known in (1, taken.rev, taken.rev + 1):
            watch = await record(backend, known, EVERYTHING)
            assert isinstance(await watch.until_failed(), Compacted)
            await refused(backend.list(*EVERYTHING, rev=known), Compacted)


@pytest.mark.parametrize("kind", STORES)
async def test_a_backup_is_of_one_revision_while_servers_write(
    tmp_path: Path, new_store: NewStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "MOST_KEYS", 32)
    source, target, file = new_store(kind), new_store(kind), tmp_path / "store.backup"
    await fill(source, 400)
    stop = asyncio.Event()
    async with opened(source) as server:
        writer = asyncio.create_task(keep_writing(server, stop))
        taken = await backup(source, file, silent)
        stop.set()
        assert await writer
        then = (await server.list(*EVERYTHING, rev=taken.rev)).kvs
        assert await server.current_rev() > taken.rev
    await restore(file, target, "again", silent)
    assert by_key(await contents(target)) == by_key(list(then))


async def keep_writing(server: Backend, stop: asyncio.Event) -> int:
    dice, count, revs = random.Random(1), 0, {kv.key: kv.mod_rev for kv in (await server.list(*EVERYTHING)).kvs}
    while not stop.is_set():
        key = dice.choice([*revs])
        if dice.random() < 0.2:
            await server.delete(key, expect=revs.pop(key))
        else:
            revs[key] = (await server.put(key, b"changed %d" % count, expect=revs[key])).rev
        count += 1
    return count


@pytest.mark.parametrize("kind", STORES)
async def test_times_to_live_go_on_and_what_is_over_is_left_out(
    tmp_path: Path, new_store: NewStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, file = new_store(kind), new_store(kind), tmp_path / "store.backup"
    async with opened(source, create=True) as backend:
        await backend.put("/registry/a.example.com/b/short", b"1", expect=0, ttl_ms=100_000)
        await backend.put("/registry/a.example.com/b/long", b"2", expect=0, ttl_ms=900_000)
        await backend.put("/registry/a.example.com/b/none", b"3", expect=0)
    await backup(source, file, silent)
    now = time.time()
    monkeypatch.setattr("oarlock.storage.care.restore.time.time", lambda: now + 300)
    result = await restore(file, target, "again", silent)
    assert (result.keys, result.expired) == (2, 1)
    kvs = sorted(await contents(target))
    assert values(kvs) == [("/registry/a.example.com/b/long", b"2"), ("/registry/a.example.com/b/none", b"3")]
    assert kvs[1].expires is None
    assert kvs[0].expires is not None
    assert kvs[0].expires <= (now + 901 + 300 + 60) * 1000  # etcd hears what is left of it, by the clock above


async def test_a_store_that_is_not_empty_is_refused(tmp_path: Path, new_store: NewStore) -> None:
    source, target, file = new_store("sqlite"), new_store("sqlite"), tmp_path / "store.backup"
    await fill(source, 20)
    await fill(target, 10)
    await backup(source, file, silent)
    before = await contents(target)
    error = await refused(restore(file, target, "again", silent), StorageError)
    assert "isn't empty, it contains 8 keys: name a new one" in str(error)
    assert await contents(target) == before


async def test_a_restored_store_is_not_restored_into_again(tmp_path: Path, new_store: NewStore) -> None:
    source, target, file = new_store("sqlite"), new_store("sqlite"), tmp_path / "store.backup"
    await fill(source, 20)
    await backup(source, file, silent)
    await restore(file, target, "again", silent)
    await refused(restore(file, target, "again", silent), StorageError)


class Interrupted(Exception):
    """Stands for Ctrl-C."""


@pytest.mark.parametrize("kind", STORES)
async def test_an_interrupted_restore_goes_on_and_keeps_everybody_else_out(
    tmp_path: Path, new_store: NewStore, kind: str
) -> None:
    source, target, file = new_store(kind), new_store(kind), tmp_path / "store.backup"
    await fill(source, 800)
    await backup(source, file, silent)

    def interrupt(progress: OperationProgress) -> None:
        if progress.what == "restore" and progress.done == 400:
            raise Interrupted

    with pytest.raises(Interrupted):
        await restore(file, target, "oarlock storage restore it", interrupt)
    async with opened(target) as backend:
        partial, _ = await backend.count(*EVERYTHING)
        assert 1 < partial <= 401
        error = await refused(must_be_complete(backend), StorageError)
    assert str(error).endswith("a restore into it was interrupted: run `oarlock storage restore it` again")
    await refused(backup(target, tmp_path / "partial.backup", silent), StorageError)
    assert not (tmp_path / "partial.backup").exists()
    await fill(source, 5, "/registry/test.example.com/others/")
    await backup(source, tmp_path / "other.backup", silent)
    error = await refused(restore(tmp_path / "other.backup", target, "again", silent), StorageError)
    assert "run `oarlock storage restore it` again; or begin with a new, empty store" in str(error)
    await restore(file, target, "again", silent)
    whole = new_store("sqlite")
    await restore(file, whole, "again", silent)
    assert by_key(await contents(target)) == by_key(await contents(whole))
    assert all(kv.key != UNFINISHED_KEY for kv in await contents(target))


async def test_a_key_of_somebody_else_ends_a_restore(tmp_path: Path, new_store: NewStore) -> None:
    source, target, file = new_store("sqlite"), new_store("sqlite"), tmp_path / "store.backup"
    await fill(source, 600)
    await backup(source, file, silent)
    last = (await contents(source))[-1].key

    async with opened(target, create=True) as other:
        later: list[asyncio.Task[object]] = []

        def interfere(progress: OperationProgress) -> None:
            if progress.what == "restore" and not later:
                later.append(asyncio.create_task(other.put(last, b"mine", expect=0)))

        error = await refused(restore(file, target, "again", interfere), StorageError)
        assert str(error) == f"{last} has been written by others meanwhile: stop the servers of this store"
        await asyncio.gather(*later)


# The file -----------------------------------------------------------------------------------------


def example(path: Path, kvs: list[KV], rev: Rev = 50) -> bytes:
    with written_backup(path, BackupHead("epoch", rev, 1)) as writer:
        writer.add(kvs)
    return path.read_bytes()


KVS = [KV("/a", b"1", 9, 3, None), KV("/b", b"", 10, 10, 77), KV("/c", b"x" * 500, 11, 2, None)]


def read(path: Path) -> list[KV]:
    reader = BackupReader(path)
    try:
        for _ in reader.check():
            pass
        return list(reader.records())
    finally:
        reader.close()


def test_a_file_has_what_was_written_to_it(tmp_path: Path) -> None:
    example(tmp_path / "a", KVS)
    assert read(tmp_path / "a") == KVS
    reader = BackupReader(tmp_path / "a")
    assert reader.head == BackupHead("epoch", 50, 1)
    reader.close()


def test_every_truncated_file_is_refused(tmp_path: Path) -> None:
    whole = example(tmp_path / "a", KVS)
    for size in range(len(whole)):
        (tmp_path / "b").write_bytes(whole[:size])
        with pytest.raises(BackupFileError, match=r"is cut off after|isn't a backup"):
            read(tmp_path / "b")


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    whole = example(tmp_path / "a", KVS)
    for at in range(len(whole)):
        (tmp_path / "b").write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with pytest.raises(BackupFileError) as raised:
            read(tmp_path / "b")
        assert len(str(raised.value).splitlines()) == 1


def test_bytes_after_the_end_are_noticed(tmp_path: Path) -> None:
    whole = example(tmp_path / "a", KVS)
    (tmp_path / "b").write_bytes(whole + b"\0")
    with pytest.raises(BackupFileError, match="is damaged at byte"):
        read(tmp_path / "b")


def test_other_files_are_refused(tmp_path: Path) -> None:
    for content, why in (
        (b"", "isn't a backup"),
        (b"SQLite format 3\0" + bytes(100), "isn't a backup of `oarlock storage backup`"),
        (b"oarlock backup 2\n" + bytes(100), "was made by a newer oarlock; restore it with that"),
    ):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(BackupFileError, match=why):
            read(tmp_path / "a")
    with pytest.raises(FileError, match="Is a directory"):
        read(tmp_path)
    with pytest.raises(FileError, match="No such file"):
        read(tmp_path / "nothing")


@pytest.mark.parametrize(
    "kvs",
    [
        [KV("/b", b"", 2, 2), KV("/a", b"", 3, 3)],
        [KV("/a", b"", 2, 2), KV("/a", b"", 3, 3)],
        [KV("/a", b"", 51, 2)],
        [KV("/a", b"", 2, 3)],
        [KV("/a", b"", 2, 0)],
    ],
    ids=["order", "twice", "later than the backup", "created after it was changed", "no revision"],
)
def test_a_sound_file_with_impossible_records_is_refused(tmp_path: Path, kvs: list[KV]) -> None:
    example(tmp_path / "a", kvs)
    with pytest.raises(BackupFileError, match="is damaged at byte"):
        read(tmp_path / "a")


async def test_nothing_is_made_of_a_damaged_backup(tmp_path: Path, new_store: NewStore) -> None:
    content = example(tmp_path / "a", KVS)
    (tmp_path / "a").write_bytes(content[:-40] + b"?" + content[-39:])
    await refused(restore(tmp_path / "a", new_store("sqlite"), "again", silent), BackupFileError)
    assert os.listdir(tmp_path) == ["a"]


def test_an_error_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    before = example(tmp_path / "a", KVS)
    with pytest.raises(Interrupted), written_backup(tmp_path / "a", BackupHead("epoch", 50, 1)):
        raise Interrupted
    assert (tmp_path / "a").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_a_killed_backup_left_is_used_again(tmp_path: Path) -> None:
    (tmp_path / "a.partial").write_bytes(b"x" * 100_000)
    os.chmod(tmp_path / "a.partial", 0o644)
    example(tmp_path / "a", KVS)
    assert read(tmp_path / "a") == KVS
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_two_backups_into_one_file_at_once_are_refused(tmp_path: Path) -> None:
    with written_backup(tmp_path / "a", BackupHead("epoch", 50, 1)) as first:
        first.add(KVS)
        with (
            pytest.raises(FileError, match="another process is writing this file"),
            written_backup(tmp_path / "a", BackupHead("epoch", 50, 1)),
        ):
            pass
    assert read(tmp_path / "a") == KVS


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "a.partial").symlink_to(tmp_path / "victim")
    with pytest.raises(FileError):
        example(tmp_path / "a", KVS)
    assert (tmp_path / "victim").read_bytes() == b"precious"
