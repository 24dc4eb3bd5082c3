"""Copies a store into another of any kind: compares the two, writes what differs, and again, until nothing does.

So it can be interrupted and run again, and the source may be in use: the first rounds are done beside its servers, the
last after they have been stopped. Keys are written in the order in which the source last changed them.

Memory: about 200 bytes for each key that differs, and 300 for each that the target has. See also: `unfinished`, which
keeps servers out of the target.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from hashlib import blake2b
from typing import NamedTuple

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import KV, Backend, Batch, Rev, StorageError
from oarlock.storage.care.operations import opened
from oarlock.storage.care.snapshot import (
    EVERYTHING,
    UNFINISHED_KEY,
    BulkWriter,
    Filling,
    KeyWrite,
    OperationProgress,
    ReportProgress,
    StoreSnapshot,
    begin_filling,
    end_filling,
    must_be_complete,
    pages,
    take_snapshot,
)

__all__ = ["Copied", "copy"]

ROUNDS = 6
"""After so many, the source is written faster than it can be copied, or never stands still."""

READ_KEYS = 256
READ_BYTES = 4 * 1024 * 1024
"""How much is read from the source at once."""

SAME_EXPIRY_MS = 2_000
"""Times to live are handed on as what is left of them, so they differ by how long that took."""

SHARED_PART, SHARED_MOST_MS = 0.05, 60_000
"""And etcd's leases are shared: a key may live longer by this part of its time to live, at most by a minute."""

LOOK_S = 10.0
"""How long the last look at the source may take."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy did. `source_moved`: the source has been written since the revision that was copied."""

    keys: int
    written: int
    from_rev: Rev
    rev: Rev
    source_moved: bool


@dataclass(frozen=True, slots=True)
class _Difference:
    """A key that the target must get, or lose if `mod_rev` is 0. `expect` is its revision there."""

    mod_rev: Rev
    key: str
    expect: Rev
    size: int


class _Present(NamedTuple):
    """A key of the target, as far as it is compared."""

    mod_rev: Rev
    digest: bytes
    expires: int | None


async def copy(source_url: str, target_url: str, command: str, report_progress: ReportProgress) -> Copied:
    """Make the store at `target_url` equal to the one at `source_url`.

    `command` is what an interrupted copy is finished with. The target must be empty, or hold a part of this very copy.
    Raises `StorageError` with a one-line message.
    """
    async with opened(source_url) as source, opened(target_url, create=True) as target:
        epoch = await source.epoch()
        if epoch == await target.epoch():
            raise StorageError("both are the same store, or one was made by copying the files of the other")
        await must_be_complete(source)
        await begin_filling(target, Filling("copy", epoch, command))
        return await _copied(source, target, command, report_progress)


async def _copied(source: Backend, target: Backend, command: str, report_progress: ReportProgress) -> Copied:
    written = 0
    for _ in range(ROUNDS):
        snapshot = await take_snapshot(source)
        progress = OperationProgress("comparing", snapshot.keys)
        differences = [
            difference async for difference in _differences(source, target, snapshot, progress, report_progress)
        ]
        if not differences:
            moved = await _has_changed(source, snapshot.rev)  # before a compaction, if both are in one etcd
            rev = await target.begin_epoch(snapshot.rev)
            await end_filling(target)
            return Copied(progress.done, written, snapshot.rev, rev, moved)
        written += await _write(
            source,
            target,
            sorted(differences, key=lambda difference: difference.mod_rev),
            snapshot.rev,
            report_progress,
        )
    raise StorageError(
        f"{written} keys were copied, and the source is still being written: stop its servers, then run `{command}` "
        "again, which copies the rest"
    )


async def _has_changed(source: Backend, rev: Rev) -> bool:
    """Whether any key was written after `rev`. The current revision doesn't tell: a store may count others' writes."""
    current = await source.current_rev()
    if current == rev:
        return False
    found: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def deliver(batch: Batch) -> None:
        if not found.done() and (batch.events or batch.rev >= current):
            found.set_result(bool(batch.events))

    def failed(error: StorageError) -> None:
        if not found.done():
            found.set_result(True)

    watch = await source.watch(*EVERYTHING, after=rev, deliver=deliver, failed=failed)
    try:
        await source.request_progress()
        async with asyncio.timeout(LOOK_S):
            return await found
    except TimeoutError:
        return True
    finally:
        watch.close()


async def _differences(
    source: Backend,
    target: Backend,
    snapshot: StoreSnapshot,
    progress: OperationProgress,
    report_progress: ReportProgress,
) -> AsyncIterator[_Difference]:
    """Read the target, then the source: not side by side, since kinds of stores differ in the order of keys."""
    there = await _keys(target, (await take_snapshot(target)).rev)
    now_ms = time.time() * 1000
    async for kvs in pages(source, snapshot.rev):
        for kv in kvs:
            if kv.expires is not None and kv.expires <= now_ms:
                continue
            other = there.pop(kv.key, None)
            if other is None:
                yield _Difference(kv.mod_rev, kv.key, 0, len(kv.value))
            elif not _equal(kv, other):
                yield _Difference(kv.mod_rev, kv.key, other.mod_rev, len(kv.value))
        progress.done += len(kvs)
        progress.bytes += sum(len(kv.value) for kv in kvs)
        report_progress(progress)
    for key, other in there.items():
        yield _Difference(0, key, other.mod_rev, 0)


async def _keys(backend: Backend, rev: Rev) -> dict[str, _Present]:
    found: dict[str, _Present] = {}
    async for kvs in pages(backend, rev):
        for kv in kvs:
            if kv.key != UNFINISHED_KEY:
                found[kv.key] = _Present(kv.mod_rev, _digest(kv.value), kv.expires)
    return found


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=16).digest()


def _equal(kv: KV, other: _Present) -> bool:
    if _digest(kv.value) != other.digest or (kv.expires is None) != (other.expires is None):
        return False
    if kv.expires is None or other.expires is None:
        return True
    shared = min(SHARED_PART * max(0.0, kv.expires - time.time() * 1000), SHARED_MOST_MS)
    return abs(kv.expires - other.expires) <= SAME_EXPIRY_MS + shared


async def _write(
    source: Backend, target: Backend, differences: list[_Difference], rev: Rev, report_progress: ReportProgress
) -> int:
    """Write to the target, in the order given; returns how many. What has changed since `rev` is left for later."""
    progress = OperationProgress("copy", len(differences))
    writer = BulkWriter(target)
    written = 0
    try:
        async for some, current in _read_ahead(source, differences):
            for difference in some:
                kv = current.get(difference.key)
                if not difference.mod_rev:
                    await writer.add(KeyWrite(difference.key, None, expect=difference.expect))
                elif kv is not None and kv.mod_rev <= rev:
                    await writer.add(KeyWrite(kv.key, kv.value, kv.expires, difference.expect))
                    progress.bytes += len(kv.value)
                else:
                    continue
                written += 1
            progress.done += len(some)
            report_progress(progress)
        await writer.finish()
    finally:
        await writer.stop()
    return written


async def _read_ahead(
    source: Backend, differences: list[_Difference]
) -> AsyncIterator[tuple[list[_Difference], dict[str, KV]]]:
    """Portions of the differences, with what the source has; the next is read while one is written."""
    reading: asyncio.Task[dict[str, KV]] | None = None
    before: list[_Difference] = []
    try:
        for some in _portions(differences):
            following = asyncio.create_task(_read(source, some))
            found, reading = reading, following
            if found is not None:
                yield before, await found
            before = some
        if reading is not None:
            yield before, await reading
    finally:
        if reading is not None:
            reading.cancel()


async def _read(source: Backend, some: list[_Difference]) -> dict[str, KV]:
    found = await asyncio.gather(*(source.get(difference.key) for difference in some if difference.mod_rev))
    return {kv.key: kv for kv, _ in found if kv is not None}


def _portions(differences: list[_Difference]) -> Iterator[list[_Difference]]:
    some: list[_Difference] = []
    size = 0
    for difference in differences:
        some.append(difference)
        size += difference.size
        if len(some) >= READ_KEYS or size >= READ_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
