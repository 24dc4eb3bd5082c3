"""`Leases`: times to live of keys as leases of etcd, shared as kube-apiserver shares them.

A lease is given to up to 1000 keys that are to expire within one window, 5 % of the time to live and at most 60 s: so a
key may live that much longer than asked, and keys that expire together do so at one revision. Times to live are rounded
up to seconds. When the lease of a key that somebody else wrote ends is asked of etcd, which answers in seconds.

See also: `backend`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import StorageError, Unavailable
from oarlock.storage.etcd.client import EtcdClient, Rpcs
from oarlock.storage.etcd.messages import messages

__all__ = ["Leases"]

MOST_KEYS = 1000
WINDOW_S = 60
WINDOW_PART = 0.05
MOST_KNOWN = 20_000
"""How many leases are remembered with their end."""
AT_ONCE = 32
"""How many leases are asked about at the same time."""


@dataclass(slots=True)
class _Lease:
    id: int
    ends_ms: int
    keys: int = 0


class Leases:
    """`known` has the end of leases, in milliseconds of the epoch. `least_s` is the shortest that is asked of etcd."""

    def __init__(self, client: EtcdClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._last: _Lease | None = None
        self._granting = asyncio.Lock()
        self.known: dict[int, int] = {}
        self.least_s = 1

    async def lease(self, ttl_ms: int) -> int:
        """The id of a lease for one key that is to live `ttl_ms`."""
        async with self._granting:
            now_ms = int(self._clock.now() * 1000)
            window_ms = int(min(WINDOW_S, WINDOW_PART * ttl_ms / 1000)) * 1000
            last = self._last
            wanted = now_ms + ttl_ms
            if last is None or not wanted < last.ends_ms <= wanted + window_ms or last.keys >= MOST_KEYS:
                last = self._last = await self._grant(now_ms, ttl_ms + window_ms)
            last.keys += 1
            return last.id

    async def _grant(self, now_ms: int, ttl_ms: int) -> _Lease:
        seconds = max(-(-ttl_ms // 1000), self.least_s)
        # May be granted twice when an answer is lost: one without keys ends by itself.
        answer = await self._client.read(Rpcs.GRANT, messages.LeaseGrantRequest(TTL=seconds))
        if answer.error:
            raise Unavailable(f"etcd grants no lease: {answer.error}")
        lease = _Lease(answer.ID, now_ms + ttl_ms)
        self._remember(lease.id, lease.ends_ms)
        return lease

    def forget(self, lease: int) -> None:
        """etcd has ended it: don't give it to another key."""
        if self._last is not None and self._last.id == lease:
            self._last = None

    async def learn(self, ids: Iterable[int]) -> None:
        """Ask when these leases end, unless it is known."""
        unknown = [lease_id for lease_id in dict.fromkeys(ids) if lease_id and lease_id not in self.known]
        for start in range(0, len(unknown), AT_ONCE):
            await asyncio.gather(*map(self._ask, unknown[start : start + AT_ONCE]))

    async def _ask(self, lease: int) -> None:
        now_ms = int(self._clock.now() * 1000)
        try:
            answer = await self._client.read(Rpcs.TIME_TO_LIVE, messages.LeaseTimeToLiveRequest(ID=lease))
        except Unavailable:
            raise
        except StorageError:  # without the right to ask
            return
        self._remember(lease, now_ms + max(answer.TTL, 0) * 1000)

    def _remember(self, lease: int, ends_ms: int) -> None:
        if len(self.known) >= MOST_KNOWN:
            now_ms = int(self._clock.now() * 1000)
            for old, end in list(self.known.items()):
                if end <= now_ms:
                    del self.known[old]
            while len(self.known) >= MOST_KNOWN:
                del self.known[next(iter(self.known))]
        self.known[lease] = ends_ms
