"""`EtcdStore`: reads, writes and watches of etcd 3.4 to 3.6, with keys and values as kube-apiserver has them.

A write is one transaction on one key that compares its revision, and reads the key if that is another one. Revisions
are etcd's own. What must wait for a member has a deadline; see `client`.

See also: `backend`, which raises the revisions; `feed` for watches, `epochs`, `compaction`, `leases`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from oarlock.meta.context import Clock
from oarlock.net.futures import shared
from oarlock.storage.backend import (
    KEEP_TTL,
    KV,
    Caps,
    Compacted,
    Deliver,
    Failed,
    Findings,
    FutureRevision,
    Page,
    Rev,
    StorageError,
    TooLarge,
    Unavailable,
    WriteResult,
)
from oarlock.storage.etcd.address import EtcdAddress
from oarlock.storage.etcd.client import (
    COMPACTED,
    FUTURE,
    LARGER_THAN_MAX,
    LEASE_GONE,
    TOO_LARGE,
    EtcdClient,
    EtcdDeadlines,
    NoSpace,
    Rpcs,
    as_storage_error,
)
from oarlock.storage.etcd.compaction import Compaction
from oarlock.storage.etcd.epochs import Epochs
from oarlock.storage.etcd.feed import EtcdFeed
from oarlock.storage.etcd.keys import KeyMap, move_former_keys
from oarlock.storage.etcd.leases import Leases
from oarlock.storage.etcd.messages import EQUAL, MOD, NOSPACE, Message, messages
from oarlock.storage.etcd.reads import Reads
from oarlock.storage.etcd.replay import replay
from oarlock.storage.grpc.calls import GrpcCode, GrpcError
from oarlock.storage.watchers import RangeWatch

__all__ = ["MAX_VALUE", "EtcdStore"]

MAX_VALUE = 1_572_864 - 8_192
"""etcd takes requests of 1.5 MiB by default, with the key and everything else."""
LOOK_S = 0.05
"""How long a look at the revision waits for the one before it."""


class EtcdStore:
    """One per process and store."""

    def __init__(
        self,
        address: EtcdAddress,
        clock: Clock,
        *,
        create: bool = True,
        deadlines: EtcdDeadlines = EtcdDeadlines(),  # noqa: B008 (frozen)
    ) -> None:
        self.caps = Caps(durable=True, max_value=MAX_VALUE)
        self.address = address
        self._create = create
        self.client = EtcdClient(address, deadlines)
        self.keys = KeyMap(address.prefix)
        self.leases = Leases(self.client, clock)
        self.epochs = Epochs(self.client, self.keys)
        self._compaction = Compaction(self.client, self.keys.marker)
        self._reads = Reads(self.client, self.keys, self.leases)
        self._feed = EtcdFeed(self.client, self.keys, self.epochs, self._mark)
        self._replays: set[asyncio.Task[None]] = set()
        self._next_look: asyncio.Task[Rev] | None = None
        self._last_look: asyncio.Task[Rev] | None = None
        self._writes = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    async def start(self) -> None:
        try:
            self.client.open()
            await self._reach_a_member()
            if self.address.user:
                await self.client.sign_in()
            state = await self.epochs.look(create=self._create)
            if state.epoch.endswith("-"):
                raise StorageError(f"cannot open the store {self._name}: no store exists at this prefix")
            await move_former_keys(self.client, self.keys)
        except BaseException:
            await self.client.close()
            raise

    @property
    def _name(self) -> str:
        return f"{','.join(self.address.hosts)}{self.address.prefix}"

    async def _reach_a_member(self) -> None:
        """Raises `StorageError` when no member can be reached, with the reason of each."""
        reasons = await asyncio.gather(*map(self._reason, self.client.endpoints))
        if all(reasons):
            raise Unavailable(f"cannot open the store: {'; '.join(map(str, reasons))}")

    async def _reason(self, endpoint: Any) -> str:
        try:
            status = await self.client.ask(endpoint, Rpcs.STATUS, messages.StatusRequest())
        except GrpcError as error:
            self.client.avoid(endpoint)
            if error.code is GrpcCode.UNIMPLEMENTED:
                return f"the server at {endpoint.host} isn't an etcd"
            return str(as_storage_error(error, endpoint.host, write=False))
        return "" if status.version else f"the server at {endpoint.host} isn't an etcd"

    async def close(self) -> None:
        self._closed = True
        try:
            async with asyncio.timeout(self.client.deadlines.call_s):
                await self._idle.wait()
        except TimeoutError:
            pass
        for task in self._replays:
            task.cancel()
        await asyncio.gather(*self._replays, return_exceptions=True)
        await self._feed.close()
        await self.client.close()

    async def epoch(self) -> str:
        self._open()
        return (await self.epochs.look()).epoch

    def stored_key(self, key: str) -> bytes:
        """The key in etcd, which encrypted values are bound to."""
        return self.keys.encode(key)

    def known_rev(self) -> Rev | None:
        return None

    async def current_rev(self) -> Rev:
        """One look at a time: who asks meanwhile shares the next, which costs more than the rest of a read."""
        self._open()
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().create_task(self._look(self._last_look), name="etcd: revision")
            self._last_look = self._next_look
        return await shared(self._next_look)

    async def _look(self, last: asyncio.Task[Rev] | None) -> Rev:
        if last is not None and not last.done():
            await asyncio.wait((last,), timeout=LOOK_S)
        self._next_look = None  # this begins now: whoever asks from here on needs a later one
        return (await self.epochs.look()).rev

    # Reads

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        self._open()
        kv, at = await self._at_revision(self._reads.get(key, rev))
        return kv, rev or at

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        self._open()
        page: Page = await self._at_revision(self._list(start, end, rev, limit))
        return page

    async def _list(self, start: str, end: str, rev: Rev, limit: int) -> Page:
        kvs: list[KV] = []
        left = 0
        for span in self.keys.spans(start, end):
            if limit and len(kvs) >= limit:
                count, _ = await self._reads.count(span, rev)
                left += count
            else:
                portion = await self._reads.range(span, rev, limit - len(kvs) if limit else 0)
                kvs, rev, left = kvs + portion.kvs, portion.rev, left + portion.left
        if not rev:
            rev = await self.current_rev()
        return Page(kvs, rev, more=left > 0, count=left)

    async def count(self, start: str, end: str) -> tuple[int, Rev]:
        self._open()
        keys, rev = 0, 0
        for span in self.keys.spans(start, end):
            some, at = await self._reads.count(span, rev)
            keys, rev = keys + some, rev or at
        return keys, rev or await self.current_rev()

    async def _at_revision(self, call: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await call
        except StorageError as error:
            if COMPACTED in str(error):
                raise Compacted(await self._compaction.rev(), await self.current_rev()) from None
            if FUTURE in str(error):
                raise FutureRevision(await self.current_rev()) from None
            raise

    # Writes

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        self._open()
        if len(value) > MAX_VALUE:
            raise TooLarge(len(value), MAX_VALUE)
        put = messages.PutRequest(key=self.keys.encode(key), value=value)
        if ttl_ms is None or (ttl_ms == KEEP_TTL and not expect):
            pass
        elif ttl_ms == KEEP_TTL:
            put.ignore_lease = True
        else:
            return await self._put_with_lease(put, expect, ttl_ms)
        return await self._put(put, expect)

    async def _put_with_lease(self, put: Message, expect: Rev, ttl_ms: int) -> WriteResult:
        put.lease = await self.leases.lease(ttl_ms)
        try:
            return await self._put(put, expect)
        except StorageError as error:
            if LEASE_GONE not in str(error):
                raise
        self.leases.forget(put.lease)
        put.lease = await self.leases.lease(ttl_ms)
        return await self._put(put, expect)

    async def _put(self, put: Message, expect: Rev) -> WriteResult:
        try:
            answer = await self._transaction(put.key, expect, messages.RequestOp(request_put=put))
        except StorageError as error:
            if TOO_LARGE in str(error) or LARGER_THAN_MAX in str(error):
                raise TooLarge(len(put.value), len(put.value) - 1) from None
            raise
        if answer.succeeded:
            return WriteResult(True, answer.header.revision)
        return await self._not_done(answer)

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        self._open()
        if not expect:
            kv, rev = await self.get(key)
            return WriteResult(False, rev, kv)
        name = self.keys.encode(key)
        deletion = messages.DeleteRangeRequest(key=name, prev_kv=True)
        answer = await self._transaction(name, expect, messages.RequestOp(request_delete_range=deletion))
        if answer.succeeded:
            kvs = await self._reads.kvs(answer.responses[0].response_delete_range.prev_kvs)
            return WriteResult(True, answer.header.revision, kvs[0] if kvs else None)
        return await self._not_done(answer)

    async def _not_done(self, answer: Message) -> WriteResult:
        kv = await self._reads.kv(answer.responses[0].response_range)
        return WriteResult(False, answer.header.revision, kv)

    async def _transaction(self, key: bytes, expect: Rev, change: Message) -> Message:
        """The change if the key's revision is `expect`, else the key."""
        request = messages.TxnRequest(
            compare=[messages.Compare(result=EQUAL, target=MOD, key=key, mod_revision=expect)],
            success=[change],
            failure=[messages.RequestOp(request_range=messages.RangeRequest(key=key))],
        )
        try:
            return await self._write(request)
        except NoSpace as error:
            # It was executed or refused, and isn't under way any more: the key tells, unless somebody changed it.
            answer = await self.client.read(Rpcs.RANGE, messages.RangeRequest(key=key))
            if (answer.kvs[0].mod_revision if answer.kvs else 0) == expect:
                raise Unavailable(str(error), error.retry_after_s) from None
            raise

    async def _write(self, request: Message) -> Message:
        self._writes += 1
        self._idle.clear()
        try:
            return await self.client.write(Rpcs.TXN, request)
        finally:
            self._writes -= 1
            if not self._writes:
                self._idle.set()

    async def _mark(self) -> Rev:
        """Write a hidden key; returns the revision."""
        put = messages.PutRequest(key=self.keys.marker)
        answer = await self._write(messages.TxnRequest(success=[messages.RequestOp(request_put=put)]))
        rev: Rev = answer.header.revision
        return rev

    # Watching and history

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> RangeWatch:
        self._open()
        feed = self._feed
        await feed.begin()
        watch = RangeWatch((start, end), after, deliver, failed)
        until = 0
        if after < feed.rev:
            compacted = await self._compaction.rev()
            if after < compacted:
                watch.fail(Compacted(compacted, max(feed.rev, compacted)))
                return watch
            if not feed.event_rev:
                await feed.reach(await self._mark(), self.client.deadlines.call_s)
            if not feed.event_rev:
                raise Unavailable("etcd doesn't tell of a write")
            until = feed.event_rev
        feed.watchers.add(watch)
        if until > after:
            watch.hold()
            task = asyncio.create_task(replay(self.client, self.keys, watch, until, feed.rev), name="etcd: replay")
            self._replays.add(task)
            task.add_done_callback(self._replays.discard)
        return watch

    async def request_progress(self) -> None:
        self._open()
        await self._feed.progress(await self.current_rev())

    async def compact(self, rev: Rev) -> None:
        self._open()
        await self._compaction.compact(rev)

    async def compact_rev(self) -> Rev:
        self._open()
        return await self._compaction.rev()

    async def begin_epoch(self, above: Rev) -> Rev:
        """As `Backend.begin_epoch`; `above` and the result are raised revisions."""
        self._open()
        rev = await self.epochs.renew(above)
        await self._compaction.run(rev)
        return self.epochs.raising.raised(rev)

    async def check(self, *, quick: bool = False) -> Findings:
        self._open()
        answer = await self.client.read(Rpcs.ALARM, messages.AlarmRequest())
        findings = [
            f"member {alarm.memberID:x} has the alarm {'NOSPACE' if alarm.alarm == NOSPACE else 'CORRUPT'}"
            for alarm in answer.alarms
        ]
        if not quick and len(self.client.endpoints) > 1:
            findings += await self._differences()
        return findings

    async def _differences(self) -> Findings:
        """Members whose data isn't that of the others, at one revision that all have."""
        request = messages.HashKVRequest(revision=await self.current_rev())
        hashes: dict[tuple[int, Rev], list[str]] = {}
        for endpoint in self.client.endpoints:
            try:
                answer = await self.client.ask(endpoint, Rpcs.HASH, request, within_s=self.client.deadlines.call_s)
            except GrpcError as error:
                raise Unavailable(str(as_storage_error(error, endpoint.host, write=False))) from None
            hashes.setdefault((answer.hash, answer.compact_revision), []).append(endpoint.host)
        if len({compacted for _, compacted in hashes}) > 1 or len(hashes) == 1:
            return []
        return [f"the members don't have the same data: {' / '.join(map(','.join, hashes.values()))}"]

    def _open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")
