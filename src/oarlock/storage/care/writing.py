"""Writes many keys to a store: in order, many in flight, so that they share its commits.

A write that fails for the moment is tried again, and one whose outcome is unknown is looked at first. What is in the
store already isn't written again, so that an operation can be interrupted and run again.

Must not know: where the keys come from. See also: `restore`, `copy`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final

from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff
from oarlock.storage.backend import KV, Backend, Rev, StorageError, TooLarge, Unavailable, WriteResult

__all__ = ["BulkWriter", "KeyWrite", "OtherWriter", "write"]

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
