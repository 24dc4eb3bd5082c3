"""`TimedBackend`: wraps a backend and measures the duration of its calls. See also: `metrics`."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from oarlock.meta.context import Clock
from oarlock.server.metrics.counts import StoreMetrics
from oarlock.storage.backend import KEEP_TTL, KV, Backend, Page, Rev, WriteResult
from oarlock.storage.forwarding import ForwardingBackend

__all__ = ["TimedBackend"]

T = TypeVar("T")


class TimedBackend(ForwardingBackend):
    """Passes every call on. Only reads and writes for clients' requests are measured."""

    def __init__(self, inner: Backend, metrics: StoreMetrics, clock: Clock) -> None:
        super().__init__(inner)
        self._metrics = metrics
        self._monotonic = clock.monotonic

    async def _timed(self, operation: str, key: str, call: Awaitable[T]) -> T:
        began = self._monotonic()
        try:
            result = await call
        except Exception:
            self._metrics.add(operation, key, self._monotonic() - began, failed=True)
            raise
        self._metrics.add(operation, key, self._monotonic() - began)
        return result

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        return await self._timed("get", key, self._inner.get(key, rev=rev))

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        return await self._timed("list", start, self._inner.list(start, end, rev=rev, limit=limit))

    def put(
        self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL
    ) -> Coroutine[Any, Any, WriteResult]:
        operation = "update" if expect else "create"
        return self._timed(operation, key, self._inner.put(key, value, expect=expect, ttl_ms=ttl_ms))

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        return await self._timed("delete", key, self._inner.delete(key, expect=expect))
