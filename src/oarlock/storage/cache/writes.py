"""`Writes`: puts and deletes of one resource's objects, through its cache.

A write goes to the backend, then waits for its event, which may come before or after the result: so a process reads its
own writes, whatever the backend. The writer may say what the cache keeps of its object, so that nothing is parsed.

Must not know: what an object is. See also: `resource_cache`, where the event is applied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from oarlock.storage.backend import KEEP_TTL, OutcomeUnknown, Rev, Stale, StorageError, StoreEvent, WriteResult
from oarlock.storage.cache.entry import Describe, Draft, Entry
from oarlock.storage.cache.source import CacheSource

__all__ = ["Writes"]

log = logging.getLogger("oarlock.storage.cache")


class _Pending:
    """A write in progress. An event of its key with equal bytes is its own, or one that the draft describes as well."""

    __slots__ = ("draft", "entry", "value")

    def __init__(self, value: bytes, draft: Draft | None) -> None:
        self.value = value
        self.draft = draft
        self.entry: Entry | None = None


class Writes:
    """Writes to one resource. `pending` are those in progress, by key.

    `entry_at` returns what the cache has of a key at a revision.
    """

    def __init__(self, source: CacheSource, describe: Describe, entry_at: Callable[[str, Rev], Entry | None]) -> None:
        self.pending: dict[str, _Pending] = {}
        self.rewrites = source.backend.caps.rewrites
        """Whether `is_stale` needs to be asked."""
        self._source = source
        self._backend = source.backend
        self._position = source.position
        self._describe = describe
        self._entry_at = entry_at

    async def put(
        self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL, draft: Draft | None = None
    ) -> tuple[WriteResult, Entry | None]:
        """`Backend.put`. On success the entry is returned, and has been applied to the cache.

        With `draft` the writer makes the entry itself; otherwise it is described from the bytes. Should the event not
        come within the time a read may wait, the entry is returned all the same: the write is done, and linearizable
        reads wait for it.
        """
        pending = _Pending(value, draft)
        mine = self.pending.setdefault(key, pending) is pending
        try:
            result = await self._backend.put(key, value, expect=expect, ttl_ms=ttl_ms)
            if not result.ok:
                return result, None
            if result.rev > self._position.rev:
                await self._arrival(result.rev)
        finally:
            if mine:
                del self.pending[key]
        entry = pending.entry
        if entry is None or entry.rev != result.rev:
            entry = await self._entry_of_write(key, pending, expect, result.rev)
        return result, entry

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        """`Backend.delete`. On success it has been applied to the cache, unless its event stays away as in `put`."""
        result = await self._backend.delete(key, expect=expect)
        if result.ok and result.rev > self._position.rev:
            await self._arrival(result.rev)
        return result

    async def is_stale(self, key: str, rev: Rev) -> bool:
        """Whether the store has `key` at `rev` in another form than it would write today. Asks the store.

        The cache doesn't know: what is stale changes with the store's configuration. Raises `StorageError`.
        """
        kv, _ = await self._backend.get(key)
        return kv is not None and kv.mod_rev == rev and isinstance(kv.value, Stale)

    def entry(self, event: StoreEvent, value: bytes) -> Entry | None:
        """The entry that a write in progress has for `event`; None if the event is another's."""
        pending = self.pending.get(event.key)
        if pending is None or pending.value != value:
            return None
        pending.entry = self._drafted(pending, event.key, event.rev, event.create_rev)
        return pending.entry

    def _drafted(self, pending: _Pending, key: str, rev: Rev, create_rev: Rev) -> Entry:
        if pending.draft is not None:
            try:
                return pending.draft(rev, create_rev)
            except Exception:
                log.exception("drafting %s at revision %d failed", key, rev)
        return self._describe(key, pending.value, rev, create_rev)

    async def _arrival(self, rev: Rev) -> None:
        """Wait for the events up to `rev`, which are on their way without being asked for."""
        source = self._source
        if not await self._position.reach(rev, source.limits.fresh_s, ask_after_s=source.limits.nudge_s):
            source.late(rev)

    async def _entry_of_write(self, key: str, pending: _Pending, expect: Rev, rev: Rev) -> Entry:
        """The entry written at `rev`, if its event couldn't be recognised or hasn't come."""
        entry = self._entry_at(key, rev)
        if entry is not None:
            return entry
        before = self._entry_at(key, expect) if expect else None
        if before is not None or not expect:
            return self._drafted(pending, key, rev, rev if before is None else before.create_rev)
        try:
            kv, _ = await self._backend.get(key, rev=rev)
        except StorageError as error:
            raise OutcomeUnknown(f"{key} was written at revision {rev} but can't be read back: {error}") from error
        if kv is None:
            raise OutcomeUnknown(f"{key} was written at revision {rev} but isn't there")
        return self._describe(key, kv.value, kv.mod_rev, kv.create_rev)
