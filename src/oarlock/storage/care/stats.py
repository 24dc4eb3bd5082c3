"""Counts what is in a store.

Must not know: what the keys stand for; it only takes the first parts of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import OnDisk, Rev
from oarlock.storage.care.opening import opened
from oarlock.storage.care.snapshot import OperationProgress, ReportProgress, pages, take_snapshot

__all__ = ["KeyGroup", "StoreStats", "stats"]

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
