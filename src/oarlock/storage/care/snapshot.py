"""Reads a whole store as it was at one revision, in pages, while servers write to it.

Must not know: what is done with it. See also: `operations`, `copy`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff
from oarlock.storage.backend import (
    KV,
    Backend,
    Compacted,
    Damaged,
    Rev,
    StorageError,
    TooLarge,
    Unavailable,
    WriteResult,
)

__all__ = [
    "EVERYTHING",
    "UNFINISHED_KEY",
    "BulkWriter",
    "Filling",
    "KeyWrite",
    "OperationProgress",
    "OtherWriter",
    "ReportProgress",
    "StoreSnapshot",
    "begin_filling",
    "end_filling",
    "must_be_complete",
    "pages",
    "take_snapshot",
    "write",
]

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


IN_FLIGHT = 256
IN_FLIGHT_BYTES = 8 * 1024 * 1024
ATTEMPTS = 6
AGAIN = Backoff(0.2)


class OtherWriter(StorageError):
    """Another writer has written to a store that is being filled."""


@dataclass(frozen=True, slots=True)
class KeyWrite:
    """A put of `value`, or a delete if that is None, of a key whose revision is `expect`.

    `expires` is in epoch milliseconds.
    """

    key: str
    value: bytes | None
    expires: int | None = None
    expect: Rev = 0

    def is_done(self, kv: KV | None) -> bool:
        """Whether the key is as it would be after the write."""
        return kv is None if self.value is None else kv is not None and kv.value == self.value


async def write(backend: Backend, wanted: KeyWrite) -> None:
    """Write one key. Raises `OtherWriter`, and what the store raises again and again."""
    pauses = AGAIN.pauses()
    for attempt in range(ATTEMPTS):
        try:
            result = await _attempt(backend, wanted)
        except TooLarge as error:
            raise StorageError(f"{wanted.key} can't be written: {error}") from None
        except Unavailable:
            if attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(pauses.take())
            continue
        if not result.ok and not wanted.is_done(result.current):
            raise OtherWriter(f"{wanted.key} has been written by others meanwhile: stop the servers of this store")
        return


async def _attempt(backend: Backend, wanted: KeyWrite) -> WriteResult:
    if wanted.value is None:
        return await backend.delete(wanted.key, expect=wanted.expect)
    ttl_ms = None if wanted.expires is None else max(1, wanted.expires - int(time.time() * 1000))
    return await backend.put(wanted.key, wanted.value, expect=wanted.expect, ttl_ms=ttl_ms)


class BulkWriter:
    """Writes in the order of `add`, which waits while too much is in flight."""

    def __init__(self, backend: Backend) -> None:
        self._backend: Final = backend
        self._tasks: Final[deque[tuple[asyncio.Task[None], int]]] = deque()
        self._bytes = 0

    async def add(self, wanted: KeyWrite) -> None:
        """Begin a write. Raises what an earlier one raised."""
        size = len(wanted.value or b"")
        while self._tasks and (len(self._tasks) >= IN_FLIGHT or self._bytes + size > IN_FLIGHT_BYTES):
            await self._first()
        self._tasks.append((asyncio.create_task(write(self._backend, wanted)), size))
        self._bytes += size

    async def finish(self) -> None:
        """Wait for all."""
        while self._tasks:
            await self._first()

    async def stop(self) -> None:
        """Cancel what is in flight; its outcome is unknown."""
        for task, _ in self._tasks:
            task.cancel()
        await asyncio.gather(*(task for task, _ in self._tasks), return_exceptions=True)
        self._tasks.clear()

    async def _first(self) -> None:
        task, size = self._tasks[0]
        await task
        self._tasks.popleft()
        self._bytes -= size


UNFINISHED_KEY = "/oarlock/unfinished"


@dataclass(frozen=True, slots=True)
class Filling:
    """An operation that fills a store. `source` tells it from the same operation with another source.

    `operation` and `source` have no spaces; `command` is what finishes it.
    """

    operation: str
    source: str
    command: str

    @property
    def identity(self) -> bytes:
        return f"{self.operation} {self.source} ".encode()


async def begin_filling(backend: Backend, filling: Filling) -> bool:
    """Mark the store; returns whether this goes on with what was begun before.

    Raises `StorageError` if the store isn't empty, or holds what another operation began.
    """
    kv, _ = await backend.get(UNFINISHED_KEY)
    if kv is not None:
        if kv.value.startswith(filling.identity):
            return True
        raise StorageError(f"{_why(kv.value)}; or begin with a new, empty store")
    await _must_have(backend, 0)
    await write(backend, KeyWrite(UNFINISHED_KEY, filling.identity + filling.command.encode()))
    await _must_have(backend, 1)
    return False


async def _must_have(backend: Backend, keys: int) -> None:
    count, _ = await backend.count(*EVERYTHING)
    if count != keys:
        raise StorageError(
            f"the store isn't empty, it contains {count - keys} keys: name a new one (another file, database or prefix)"
        )


async def end_filling(backend: Backend) -> None:
    """Remove the mark."""
    kv, _ = await backend.get(UNFINISHED_KEY)
    if kv is not None:
        await write(backend, KeyWrite(UNFINISHED_KEY, None, expect=kv.mod_rev))


async def must_be_complete(backend: Backend) -> None:
    """Raise `StorageError` if the store is being filled."""
    kv, _ = await backend.get(UNFINISHED_KEY)
    if kv is not None:
        raise StorageError(_why(kv.value))


def _why(value: bytes) -> str:
    operation, _, rest = value.decode(errors="replace").partition(" ")
    command = rest.partition(" ")[2]
    return f"the store is incomplete, a {operation} into it was interrupted: run `{command}` again"
