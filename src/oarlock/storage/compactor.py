"""Periodic compaction, by one server at a time: history of one to two intervals is kept, 5 to 10 minutes by default.

Watches and paged lists continue within it. All servers on a store look at one key, twenty times in an interval, and
note the current revision. Who finds the key unchanged for most of an interval writes it, by compare-and-swap, and
compacts to what was current one interval ago; all others see that it has changed. So it doesn't matter how many
servers there are, which of them die or stand still, or what their clocks say: each measures only how long the key
hasn't changed, by its own monotonic clock. A compaction that its server announced and didn't carry out is carried out
by the others.

Must not know: which backend it is. See also: `backend`, for what `compact` promises; `election`, for work that one
server does for longer. Source: etcd compaction of k8s.io/apiserver ``storage/etcd3``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import KV, Backend, Compacted, FutureRevision, Rev, StorageError

__all__ = ["INTERVAL_S", "KEY", "LOOKS", "Compactor"]

INTERVAL_S = 300.0
"""Five minutes, as kube-apiserver's ``--etcd-compaction-interval``."""
KEY = "/oarlock/compaction"
LOOKS = 20
"""How often a server looks at the key in one interval."""
DUE = 0.8
"""After which part of an interval without a compaction the next is due.

With the time between two looks, once for noticing the last one and once for this, that is less than an interval. What
is compacted to is one interval old, and a look more: together, less than two.
"""


@dataclass(frozen=True, slots=True)
class _Announced:
    """The value of the key: the revision compacted to, and the newest one that isn't a write of the key itself."""

    compacted: Rev = 0
    newest: Rev = 0


class Compactor:
    """Run `run` as a task for the life of the server. `sleep` is asyncio's, or a test's."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        *,
        interval_s: float = INTERVAL_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._backend = backend
        self._monotonic = clock.monotonic
        self._interval_s = interval_s
        self._sleep = sleep
        self._noted: deque[tuple[float, Rev]] = deque(maxlen=2 * LOOKS)
        self._seen: Rev = -1
        """The revision of the key when it was last looked at, and since when it has been that."""
        self._seen_at = 0.0
        self._carried_out: Rev = -1

    async def run(self) -> None:
        """Compact for ever. If the store is unavailable, try again at the next look."""
        while True:
            await self.look()
            await self._sleep(self._interval_s / LOOKS)

    async def look(self) -> None:
        """Look at the key, note the current revision, and compact if that is due."""
        try:
            kv, current = await self._backend.get(KEY)
            await self._look(kv, current)
        except Compacted:
            pass  # another has compacted further
        except FutureRevision:
            self._noted.clear()  # the store was replaced by an older one
        except StorageError:
            pass

    async def _look(self, kv: KV | None, current: Rev) -> None:
        now = self._monotonic()
        rev = kv.mod_rev if kv is not None else 0
        if self._noted and current < self._noted[-1][1]:
            self._noted.clear()
        self._noted.append((now, current))
        announced = _announced(kv)
        if rev != self._seen:
            self._seen, self._seen_at = rev, now
            return
        if self._carried_out != rev:
            await self._carry_out(rev, announced.compacted)
        noted_at, target = max((noted for noted in self._noted if now - noted[0] >= self._interval_s), default=(now, 0))
        # Who stood still has noted nothing meanwhile: those who have something newer may be first.
        gap_s = max(now - noted_at - self._interval_s * (1 + 1 / LOOKS), 0.0)
        if now - self._seen_at < DUE * self._interval_s + gap_s:
            return
        newest = announced.newest if current == rev else current
        if announced.compacted >= min(target, newest):
            return
        value = msgspec.json.encode(_Announced(target, newest))
        result = await self._backend.put(KEY, value, expect=rev)
        if result.ok:
            self._seen, self._seen_at = result.rev, now
            await self._carry_out(result.rev, target)

    async def _carry_out(self, rev: Rev, target: Rev) -> None:
        """Compact to `target`, which the key has at `rev`, unless another server has done it."""
        if await self._backend.compact_rev() < target:
            await self._backend.compact(target)
        self._carried_out = rev


def _announced(kv: KV | None) -> _Announced:
    try:
        return _Announced() if kv is None else msgspec.json.decode(kv.value, type=_Announced)
    except msgspec.DecodeError:
        return _Announced()
