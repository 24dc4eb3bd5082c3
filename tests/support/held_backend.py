"""A store in which a test can stand in the way: what one task asks of it is refused, held up, or overtaken by others.

Only the calls of the task in `of` count; everybody else's go through. A call is named ``method key``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from oarlock.storage.backend import (
    KEEP_TTL,
    KV,
    Backend,
    Deliver,
    Failed,
    Findings,
    Page,
    Rev,
    Watch,
    WriteResult,
)

__all__ = ["HeldBackend"]

Step = Callable[[int, str], Awaitable[None]]


class HeldBackend:
    """`before` and `after` are awaited around each call of the task `of`, with its number (from 0) and its name."""

    def __init__(self, inner: Backend) -> None:
        self.caps = inner.caps
        self.of: asyncio.Task[Any] | None = None
        self.before: Step | None = None
        self.after: Step | None = None
        self.calls: list[str] = []
        self._inner = inner

    def attend(self, task: asyncio.Task[Any], *, before: Step | None = None, after: Step | None = None) -> None:
        """From now on this task's calls count, from 0."""
        self.of, self.before, self.after, self.calls = task, before, after, []

    async def _step(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if asyncio.current_task() is not self.of:
            return await call()
        number = len(self.calls)
        self.calls.append(name)
        await self._aside(self.before, number, name)
        result = await call()
        await self._aside(self.after, number, name)
        return result

    async def _aside(self, step: Step | None, number: int, name: str) -> None:
        """What a step itself asks of the store doesn't count."""
        if step is not None:
            of, self.of = self.of, None
            try:
                await step(number, name)
            finally:
                self.of = of

    async def start(self) -> None:
        await self._inner.start()

    async def close(self) -> None:
        await self._inner.close()

    async def epoch(self) -> str:
        epoch: str = await self._step("epoch", self._inner.epoch)
        return epoch

    def known_rev(self) -> Rev | None:
        return self._inner.known_rev()

    async def current_rev(self) -> Rev:
        rev: Rev = await self._step("current_rev", self._inner.current_rev)
        return rev

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        found: tuple[KV | None, Rev] = await self._step(f"get {key}", lambda: self._inner.get(key, rev=rev))
        return found

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        page: Page = await self._step(f"list {start}", lambda: self._inner.list(start, end, rev=rev, limit=limit))
        return page

    async def count(self, start: str, end: str) -> tuple[int, Rev]:
        counted: tuple[int, Rev] = await self._step(f"count {start}", lambda: self._inner.count(start, end))
        return counted

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        result: WriteResult = await self._step(
            f"put {key}", lambda: self._inner.put(key, value, expect=expect, ttl_ms=ttl_ms)
        )
        return result

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        result: WriteResult = await self._step(f"delete {key}", lambda: self._inner.delete(key, expect=expect))
        return result

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> Watch:
        watch: Watch = await self._step(
            f"watch {start}", lambda: self._inner.watch(start, end, after=after, deliver=deliver, failed=failed)
        )
        return watch

    async def request_progress(self) -> None:
        await self._step("request_progress", self._inner.request_progress)

    async def compact(self, rev: Rev) -> None:
        await self._step("compact", lambda: self._inner.compact(rev))

    async def compact_rev(self) -> Rev:
        rev: Rev = await self._step("compact_rev", self._inner.compact_rev)
        return rev

    async def begin_epoch(self, above: Rev) -> Rev:
        rev: Rev = await self._step("begin_epoch", lambda: self._inner.begin_epoch(above))
        return rev

    async def check(self, *, quick: bool = False) -> Findings:
        return await self._inner.check(quick=quick)
