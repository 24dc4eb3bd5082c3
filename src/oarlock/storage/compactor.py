"""Forget history in time: every interval, compact to the revision that was current one interval ago.

So between one and two intervals of history are kept: 5 to 10 minutes by default, what watches and paged lists
need to go on. As many servers may do this on one store as like: who comes second is told so by the store.

Must not know: which backend it is. Next: `backend`, for what `compact` promises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oarlock.storage.backend import Backend, Compacted, FutureRevision, Rev, StorageError

__all__ = ["INTERVAL_S", "Compactor"]

INTERVAL_S = 300.0
"""Five minutes, as kube-apiserver's ``--etcd-compaction-interval``."""


class Compactor:
    """`run` it as a task for as long as the server lives. `sleep` is asyncio's, or a test's."""

    def __init__(
        self,
        backend: Backend,
        *,
        interval_s: float = INTERVAL_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._backend = backend
        self._interval_s = interval_s
        self._sleep = sleep
        self._last: Rev = 0

    async def run(self) -> None:
        """Compact for ever. A store that can't now is asked again after the next interval."""
        while True:
            await self.once()
            await self._sleep(self._interval_s)

    async def once(self) -> None:
        """Compact to what was current the last time, and note what is current now."""
        try:
            now = await self._backend.current_rev()
            if self._last:
                await self._backend.compact(self._last)
        except Compacted as error:
            now = error.current_rev
        except FutureRevision:
            # The store was replaced by an older one: begin again.
            now = 0
        except StorageError:
            return
        self._last = now
