"""Opens a store for one operation outside of a server: a backup, a compaction, a count of what is in it.

See also: `oarlock.storage.url`, what a store's URL says; `copy` and `restore`, which write stores.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import Backend, Compacted, OnDisk, Rev, StorageError
from oarlock.storage.care.backup_file import BackupHead, written_backup
from oarlock.storage.care.snapshot import (
    OperationProgress,
    ReportProgress,
    StoreSnapshot,
    must_be_complete,
    pages,
    take_snapshot,
)
from oarlock.storage.url import open_backend

__all__ = ["KeyGroup", "StoreStats", "Wrap", "backup", "compact", "opened", "stats"]

Wrap = Callable[[Backend, Clock], Backend]
"""Makes another backend of one, such as an `EncryptedBackend`."""


class _SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


@asynccontextmanager
async def opened(url: str, *, create: bool = False, wrap: Wrap | None = None) -> AsyncIterator[Backend]:
    """A context manager for the started store at `url`; with `create` it is made if there is none.

    `wrap` is called with the backend before it is started; without it, encrypted values are returned as they are.
    Raises `StorageError` with a one-line message.
    """
    clock = _SystemClock()
    backend = open_backend(url, clock, create=create)
    if not backend.caps.durable:
        raise StorageError(f"nothing to do for {url!r}: its content lives in the server's memory")
    if wrap is not None:
        backend = wrap(backend, clock)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


async def compact(url: str, revision: Rev | None = None) -> tuple[Rev, Rev]:
    """Remove history before `revision`, by default the current one; returns the compacted and the current revision.

    If that much is compacted already, nothing happens. Raises `StorageError` with a one-line message,
    `FutureRevision` for a revision that the store hasn't reached.
    """
    if revision is not None and revision < 1:
        raise StorageError(f"cannot compact to revision {revision}: revisions begin at 1")
    async with opened(url) as backend:
        current = await backend.current_rev()
        try:
            await backend.compact(current if revision is None else revision)
        except Compacted:
            pass
        return await backend.compact_rev(), await backend.current_rev()


async def backup(url: str, path: Path, report_progress: ReportProgress) -> StoreSnapshot:
    """Write everything in the store at `url` to the file `path`, and return what was written.

    A file that is there is replaced when the new one is complete. Raises `StorageError` with a one-line message.
    """
    async with opened(url) as backend:
        await must_be_complete(backend)
        snapshot = await take_snapshot(backend)
        progress = OperationProgress("backup", snapshot.keys)
        with written_backup(path, BackupHead(snapshot.epoch, snapshot.rev, int(time.time() * 1000))) as writer:
            async for kvs in pages(backend, snapshot.rev):
                writer.add(kvs)
                progress.done += len(kvs)
                progress.bytes += sum(len(kv.value) for kv in kvs)
                report_progress(progress)
        return StoreSnapshot(snapshot.epoch, snapshot.rev, progress.done)


PARTS = 3
"""How many parts of a key name its group: ``/registry/<group>/<resource>/``."""


@dataclass(slots=True)
class KeyGroup:
    """The keys that begin alike, and the bytes of their values."""

    prefix: str
    keys: int = 0
    bytes: int = 0
    largest: int = 0


@dataclass(frozen=True, slots=True)
class StoreStats:
    """The figures of a store at `rev`. `disk_bytes` is None where it isn't known."""

    epoch: str
    rev: Rev
    compact_rev: Rev
    disk_bytes: int | None
    groups: Sequence[KeyGroup] = field(default_factory=tuple)


async def stats(url: str, report_progress: ReportProgress) -> StoreStats:
    """The figures of the store at `url`, as of one revision. Raises `StorageError` with a one-line message."""
    async with opened(url) as backend:
        snapshot = await take_snapshot(backend)
        progress = OperationProgress("counting", snapshot.keys)
        groups: dict[str, KeyGroup] = {}
        async for kvs in pages(backend, snapshot.rev):
            for kv in kvs:
                prefix = _prefix(kv.key)
                group = groups.setdefault(prefix, KeyGroup(prefix))
                size = len(kv.value)
                group.keys += 1
                group.bytes += size
                group.largest = max(group.largest, size)
            progress.done += len(kvs)
            progress.bytes = sum(group.bytes for group in groups.values())
            report_progress(progress)
        disk_bytes = await backend.disk_bytes() if isinstance(backend, OnDisk) else None
        compact_rev = await backend.compact_rev()
        return StoreStats(snapshot.epoch, snapshot.rev, compact_rev, disk_bytes, tuple(groups.values()))


def _prefix(key: str) -> str:
    """The first parts of a key, but never its last."""
    parts = key.split("/")
    return "/".join(parts[: min(PARTS + 1, len(parts) - 1)]) + "/"
