"""Reads of keys and ranges. A range is read in portions whose size follows that of the values, all at one revision.

See also: `backend`.
"""

from __future__ import annotations

from typing import NamedTuple

from oarlock.storage.backend import KV, Rev, StorageError
from oarlock.storage.etcd.client import LARGER_THAN_MAX, EtcdClient, Rpcs
from oarlock.storage.etcd.keys import KeyMap, Span, after
from oarlock.storage.etcd.leases import Leases
from oarlock.storage.etcd.messages import Message, messages

__all__ = ["Portion", "Reads"]

PORTION_KEYS = 500
"""How many keys are asked for at first, without knowing how large they are."""
PORTION_BYTES = 8 << 20
"""What a message should have at most; one with a single value may have more."""
MOST_KEYS = 10_000


class Portion(NamedTuple):
    """What was read of a range, and how many keys are left in it."""

    kvs: list[KV]
    rev: Rev
    left: int


class Reads:
    """Raises what the client raises; texts of etcd's errors tell `COMPACTED` and `FUTURE`."""

    def __init__(self, client: EtcdClient, keys: KeyMap, leases: Leases) -> None:
        self._client = client
        self._keys = keys
        self._leases = leases

    async def get(self, key: str, rev: Rev) -> tuple[KV | None, Rev]:
        answer = await self._client.read(Rpcs.RANGE, messages.RangeRequest(key=self._keys.encode(key), revision=rev))
        return await self.kv(answer), answer.header.revision

    async def kv(self, answer: Message) -> KV | None:
        """The one key of an answer."""
        kvs = await self.kvs(answer.kvs)
        return kvs[0] if kvs else None

    async def kvs(self, found: list[Message]) -> list[KV]:
        leases = [kv.lease for kv in found if kv.lease]
        if leases:
            await self._leases.learn(leases)
        decode, ends = self._keys.decode, self._leases.known.get
        return [
            KV(key, kv.value, kv.mod_revision, kv.create_revision, ends(kv.lease) if kv.lease else None)
            for kv in found
            if (key := decode(kv.key)) is not None
        ]

    async def range(self, span: Span, rev: Rev, limit: int) -> Portion:
        """The keys of a range at `rev` (0: now), at most `limit` (0: all)."""
        kvs: list[KV] = []
        start, size, bytes_a_key = span.start, PORTION_KEYS, 0.0
        while True:
            wanted = min(size, limit - len(kvs)) if limit else size
            request = messages.RangeRequest(key=start, range_end=span.end, revision=rev, limit=wanted)
            try:
                answer = await self._client.read(Rpcs.RANGE, request)
            except StorageError as error:
                if LARGER_THAN_MAX not in str(error) or size == 1:
                    raise
                size = max(1, size // 8)
                continue
            rev = rev or answer.header.revision
            kvs += await self.kvs(answer.kvs)
            left = answer.count - len(answer.kvs)
            if not answer.more or (limit and len(kvs) >= limit):
                return Portion(kvs, rev, left)
            bytes_a_key = max(1.0, answer.ByteSize() / max(1, len(answer.kvs)))
            size = max(1, min(MOST_KEYS, int(PORTION_BYTES / bytes_a_key)))
            start = after(answer.kvs[-1].key)

    async def count(self, span: Span, rev: Rev) -> tuple[int, Rev]:
        request = messages.RangeRequest(key=span.start, range_end=span.end, revision=rev, count_only=True)
        answer = await self._client.read(Rpcs.RANGE, request)
        return answer.count, answer.header.revision
