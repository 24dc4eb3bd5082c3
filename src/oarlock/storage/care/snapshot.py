"""Reads a whole store as it was at one revision, in pages, while servers write to it.

Must not know: what is done with it. See also: `backup`, `copy`, `stats`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import KV, Backend, Compacted, Damaged, Rev, StorageError

__all__ = ["EVERYTHING", "OperationProgress", "ReportProgress", "StoreSnapshot", "pages", "take_snapshot"]

EVERYTHING = ("/", "0")
"""The range of every key."""

PAGE_BYTES = 4 * 1024 * 1024
"""How many bytes a page is to have, judged by the page before it."""

MOST_KEYS = 500
"""The most keys of a page, as many as a server reads at once."""

FEWEST_KEYS = 16


@dataclass(slots=True)
class OperationProgress:
    """How far an operation is: `done` of `total` keys, or so, and the bytes of their values."""

    what: str
    total: int = 0
    done: int = 0
    bytes: int = 0


ReportProgress = Callable[[OperationProgress], None]


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """A revision of a store, and about how many keys it has."""

    epoch: str
    rev: Rev
    keys: int


async def take_snapshot(backend: Backend) -> StoreSnapshot:
    """The current revision. It can be read as long as the store keeps its history."""
    epoch = await backend.epoch()
    keys, rev = await backend.count(*EVERYTHING)
    return StoreSnapshot(epoch, rev, keys)


async def pages(
    backend: Backend, rev: Rev, span: tuple[str, str] = EVERYTHING, *, damaged: bool = False
) -> AsyncIterator[Sequence[KV]]:
    """The range at `rev`, in byte order. Raises `StorageError` for a `Damaged` value, unless `damaged` lets it pass."""
    start, end = span
    limit, more = FEWEST_KEYS, True
    while more:
        try:
            page = await backend.list(start, end, rev=rev, limit=limit)
        except Compacted:
            raise StorageError(
                f"the store has forgotten revision {rev} while it was read: start its servers with a longer "
                "--etcd-compaction-interval, or do this when less is written, and run it again"
            ) from None
        if not page.kvs:
            return
        for kv in page.kvs:
            if not damaged and not kv.value and isinstance(kv.value, Damaged):
                raise StorageError(f"{kv.key} can't be read: {kv.value.why}")
        yield page.kvs
        size = sum(len(kv.value) for kv in page.kvs)
        fitting = PAGE_BYTES * len(page.kvs) // max(size, 1)
        limit = max(FEWEST_KEYS, min(fitting, 2 * limit, MOST_KEYS))
        start, more = page.kvs[-1].key + "\0", page.more
