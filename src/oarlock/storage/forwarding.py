"""`ForwardingBackend`: passes every call on to another backend. What changes some calls is a subclass.

Must not know: what its subclasses do. See also: `backend` for the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oarlock.storage.backend import (
    KEEP_TTL,
    KV,
    Backend,
    Caps,
    Deliver,
    Failed,
    Findings,
    Page,
    Rev,
    Traced,
    Watch,
    WriteResult,
)

__all__ = ["ForwardingBackend"]


class ForwardingBackend:
    """A `Backend` that does what `inner` does."""

    def __init__(self, inner: Backend) -> None:
        self._inner: Final = inner
        self.caps: Caps = inner.caps
        self.known_rev: Callable[[], Rev | None] = inner.known_rev  # used by every read
        self.current_rev_sync: Callable[[], Rev | None] | None = getattr(inner, "current_rev_sync", None)
        self.stored_key: Callable[[str], bytes] | None = getattr(inner, "stored_key", None)

    @property
    def lineage(self) -> str:
        return self._inner.lineage if isinstance(self._inner, Traced) else ""

    @lineage.setter
    def lineage(self, remembered: str) -> None:
        if isinstance(self._inner, Traced):
            self._inner.lineage = remembered

    async def start(self) -> None:
        await self._inner.start()

    async def close(self) -> None:
        await self._inner.close()

    async def epoch(self) -> str:
        return await self._inner.epoch()

    async def current_rev(self) -> Rev:
        return await self._inner.current_rev()

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        return await self._inner.get(key, rev=rev)

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        return await self._inner.list(start, end, rev=rev, limit=limit)

    async def count(self, start: str, end: str) -> tuple[int, Rev]:
        return await self._inner.count(start, end)

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        return await self._inner.put(key, value, expect=expect, ttl_ms=ttl_ms)

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        return await self._inner.delete(key, expect=expect)

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> Watch:
        return await self._inner.watch(start, end, after=after, deliver=deliver, failed=failed)

    async def request_progress(self) -> None:
        await self._inner.request_progress()

    async def compact(self, rev: Rev) -> None:
        await self._inner.compact(rev)

    async def compact_rev(self) -> Rev:
        return await self._inner.compact_rev()

    async def begin_epoch(self, above: Rev) -> Rev:
        return await self._inner.begin_epoch(above)

    async def check(self, *, quick: bool = False) -> Findings:
        return await self._inner.check(quick=quick)
