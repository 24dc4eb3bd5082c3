"""`EtcdBackend`: an `EtcdStore` whose revisions are raised, if its epoch says so.

Usually they are etcd's own. After a restore, or a move from another store, clients may remember revisions that etcd
would only reach after as many writes: then what goes out is raised, and what comes in is lowered (`raising`). A watch
belongs to one epoch.

See also: `epochs`, which keeps how.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

from oarlock.meta.context import Clock
from oarlock.storage.backend import (
    KEEP_TTL,
    KV,
    Batch,
    Compacted,
    Deliver,
    Failed,
    Findings,
    FutureRevision,
    Page,
    Rev,
    StorageError,
    StoreEvent,
    WriteResult,
)
from oarlock.storage.etcd.address import EtcdAddress
from oarlock.storage.etcd.client import EtcdDeadlines
from oarlock.storage.etcd.epochs import Raising
from oarlock.storage.etcd.store import MAX_VALUE, EtcdStore
from oarlock.storage.watchers import RangeWatch

__all__ = ["MAX_VALUE", "EtcdBackend"]

T = TypeVar("T")


class EtcdBackend:
    """One per process and store."""

    def __init__(
        self,
        address: EtcdAddress,
        clock: Clock,
        *,
        create: bool = True,
        deadlines: EtcdDeadlines = EtcdDeadlines(),  # noqa: B008 (frozen)
    ) -> None:
        self.store = EtcdStore(address, clock, create=create, deadlines=deadlines)
        self.caps = self.store.caps
        self.stored_key = self.store.stored_key
        self.start = self.store.start
        self.close = self.store.close
        self.epoch = self.store.epoch
        self.request_progress = self.store.request_progress
        self.begin_epoch = self.store.begin_epoch

    @property
    def _raising(self) -> Raising:
        return self.store.epochs.raising

    def known_rev(self) -> Rev | None:
        return None

    async def current_rev(self) -> Rev:
        rev = await self.store.current_rev()
        return self._raising.raised(rev)

    # Reads

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        kv, at = await self._telling(self.store.get(key, rev=await self._past(rev)))
        return _raised(kv, self._raising), rev or self._raising.raised(at)

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        page = await self._telling(self.store.list(start, end, rev=await self._past(rev), limit=limit))
        raising = self._raising
        if not raising:
            return page
        return replace(page, kvs=[_raised_kv(kv, raising) for kv in page.kvs], rev=raising.raised(page.rev))

    async def count(self, start: str, end: str) -> tuple[int, Rev]:
        keys, rev = await self.store.count(start, end)
        return keys, self._raising.raised(rev)

    async def _past(self, rev: Rev) -> Rev:
        """etcd's revision for one that is asked for. Raises `Compacted` for one of an earlier epoch."""
        raising = self._raising
        if not raising or not rev:
            return rev
        if rev < raising.first:
            raise Compacted(await self.compact_rev(), await self.current_rev())
        return raising.lowered(rev)

    async def _telling(self, call: Awaitable[T]) -> T:
        """Await `call`; errors tell raised revisions."""
        try:
            return await call
        except StorageError as error:
            raise _raised_error(error, self._raising) from None

    # Writes

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        expect = expect and self._raising.lowered(expect)
        return self._result(await self.store.put(key, value, expect=expect, ttl_ms=ttl_ms))

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        return self._result(await self.store.delete(key, expect=expect and self._raising.lowered(expect)))

    def _result(self, result: WriteResult) -> WriteResult:
        raising = self._raising
        if not raising:
            return result
        return WriteResult(result.ok, raising.raised(result.rev), _raised(result.current, raising))

    # Watching and history

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> RangeWatch:
        raising = self._raising
        if not raising:
            return await self.store.watch(start, end, after=after, deliver=deliver, failed=failed)

        def deliver_raised(batch: Batch) -> None:
            events = tuple([_raised_event(event, raising) for event in batch.events])
            deliver(Batch(events, raising.raised(batch.rev)))

        def failed_raised(error: StorageError) -> None:
            failed(_raised_error(error, self._raising))

        if after < raising.first:
            watch = RangeWatch((start, end), after, deliver, failed)
            watch.fail(Compacted(await self.compact_rev(), await self.current_rev()))
            return watch
        lowered = raising.lowered(after)
        return await self.store.watch(start, end, after=lowered, deliver=deliver_raised, failed=failed_raised)

    async def compact(self, rev: Rev) -> None:
        await self._telling(self.store.compact(await self._past(rev)))

    async def compact_rev(self) -> Rev:
        return max(self._raising.raised(await self.store.compact_rev()), self._raising.first)

    async def check(self, *, quick: bool = False) -> Findings:
        return await self.store.check(quick=quick)


def _raised_kv(kv: KV, raising: Raising) -> KV:
    return kv._replace(mod_rev=raising.raised(kv.mod_rev), create_rev=raising.raised(kv.create_rev))


def _raised(kv: KV | None, raising: Raising) -> KV | None:
    return kv if kv is None or not raising else _raised_kv(kv, raising)


def _raised_event(event: StoreEvent, raising: Raising) -> StoreEvent:
    return event._replace(
        rev=raising.raised(event.rev),
        create_rev=raising.raised(event.create_rev),
        prev_rev=raising.raised(event.prev_rev) if event.prev_rev else 0,
    )


def _raised_error(error: StorageError, raising: Raising) -> StorageError:
    if isinstance(error, Compacted):
        return Compacted(raising.raised(error.compact_rev), raising.raised(error.current_rev))
    if isinstance(error, FutureRevision):
        return FutureRevision(raising.raised(error.current_rev))
    return error
