"""A memory store with gaps between revisions and with other writers, like etcd or a shared database.

Code above a backend may only assume that revisions grow. Run its tests on this backend, which skips revisions at
random, writes keys outside of all ranges in between, and reports progress only when asked.

Must not know: who is tested with it. See also: `oarlock.storage.memory`.
"""

from __future__ import annotations

import random

from oarlock.meta.context import Clock
from oarlock.storage.backend import (
    KEEP_TTL,
    Batch,
    Deliver,
    Failed,
    Rev,
    Watch,
    WriteResult,
)
from oarlock.storage.forwarding import ForwardingBackend
from oarlock.storage.memory import MemoryBackend

FOREIGN = "/foreign/"
"""The prefix of the other writers' keys."""


class SkippingBackend(ForwardingBackend):
    """`seed` makes it repeatable; `holes` is the most revisions skipped at once."""

    def __init__(self, clock: Clock, *, seed: int = 0, holes: int = 5) -> None:
        self._dice = random.Random(seed)
        self._memory = MemoryBackend(clock, next_rev=lambda rev: rev + 1 + self._dice.randrange(holes + 1))
        super().__init__(self._memory)
        # In a store with other writers the current revision is unknown without asking.
        self.known_rev = lambda: None
        self._foreign: dict[str, Rev] = {}
        self._asked = 0

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        await self._others()
        result = await self._inner.put(key, value, expect=expect, ttl_ms=ttl_ms)
        await self._others()
        return result

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        await self._others()
        result = await self._inner.delete(key, expect=expect)
        await self._others()
        return result

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> Watch:
        def sparing(batch: Batch) -> None:
            if batch.events or self._asked:
                deliver(batch)

        return await self._inner.watch(start, end, after=after, deliver=sparing, failed=failed)

    async def request_progress(self) -> None:
        self._asked += 1
        try:
            await self._inner.request_progress()
        finally:
            self._asked -= 1

    def reap(self) -> int:
        """Delete expired keys; returns how many."""
        return self._memory.reap()

    def lose_after(self, rev: Rev) -> None:
        """Forget every write after `rev`, as `MemoryBackend.lose_after`."""
        self._memory.lose_after(rev)

    async def _others(self) -> None:
        """Sometimes write a key of another writer."""
        for _ in range(self._dice.choice((0, 0, 1, 3))):
            key = f"{FOREIGN}{self._dice.randrange(3)}"
            rev = self._foreign.get(key, 0)
            if rev and self._dice.random() < 0.3:
                await self._inner.delete(key, expect=rev)
                del self._foreign[key]
            else:
                result = await self._inner.put(key, b"foreign", expect=rev)
                current = result.current
                self._foreign[key] = result.rev if result.ok else current.mod_rev if current else 0
