"""`TimedBackend`: wraps a backend and measures the duration of its calls. See also: `metrics`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from oarlock.meta.context import Clock
from oarlock.server.metrics import StoreMetrics
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
    Watch,
    WriteResult,
)

__all__ = ["TimedBackend"]

T = TypeVar("T")


class TimedBackend:
    """Passes every call on. Only reads and writes for clients' requests are measured."""

    def __init__(self, inner: Backend, metrics: StoreMetrics, clock: Clock) -> None:
        self._inner = inner
        self._metrics = metrics
        self._monotonic = clock.monotonic
        self.caps: Caps = inner.caps
        self.known_rev = inner.known_rev  # used by every read
        self.glance: Callable[[], Rev | None] | None = getattr(inner, "glance", None)

    async def _timed(self, operation: str, key: str, call: Awaitable[T]) -> T:
        began = self._monotonic()
        try:
            result = await call
        except Exception:
            self._metrics.add(operation, key, self._monotonic() - began, failed=True)
            raise
        self._metrics.add(operation, key, self._monotonic() - began)
        return result

    async def start(self) -> None:
        await self._inner.start()

    async def close(self) -> None:
        await self._inner.close()

    async def epoch(self) -> str:
        return await self._inner.epoch()

    async def current_rev(self) -> Rev:
        return await self._inner.current_rev()

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        return await self._timed("get", key, self._inner.get(key, rev=rev))

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        return await self._timed("list", start, self._inner.list(start, end, rev=rev, limit=limit))

    async def count(self, start: str, end: str) -> tuple[int, Rev]:
        return await self._inner.count(start, end)

    def put(
        self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL
    ) -> Coroutine[Any, Any, WriteResult]:
        operation = "update" if expect else "create"
        return self._timed(operation, key, self._inner.put(key, value, expect=expect, ttl_ms=ttl_ms))

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        return await self._timed("delete", key, self._inner.delete(key, expect=expect))

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
