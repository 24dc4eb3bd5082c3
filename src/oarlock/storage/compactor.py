"""Periodic compaction: every interval, compact to the revision that was current one interval ago.

So one to two intervals of history are kept, 5 to 10 minutes by default, for watches and paged lists to continue.
Several servers may do this on one store: the store tells the second that it is done.

Must not know: which backend it is. See also: `backend`, for what `compact` promises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oarlock.storage.backend import Backend, Compacted, FutureRevision, Rev, StorageError

__all__ = ["INTERVAL_S", "Compactor"]

INTERVAL_S = 300.0
"""Five minutes, as kube-apiserver's ``--etcd-compaction-interval``."""


class Compactor:
    """Run `run` as a task for the life of the server. `sleep` is asyncio's, or a test's."""

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
        self._noted_rev: Rev = 0

    async def run(self) -> None:
        """Compact for ever. If the store is unavailable, try again after the next interval."""
        while True:
            await self.once()
            await self._sleep(self._interval_s)

    async def once(self) -> None:
        """Compact to the revision noted at the last call, and note the current one."""
        try:
            current_rev = await self._backend.current_rev()
            if self._noted_rev:
                await self._backend.compact(self._noted_rev)
        except Compacted as error:
            current_rev = error.current_rev
        except FutureRevision:
            # The store was replaced by an older one: start over.
            current_rev = 0
        except StorageError:
            return
        self._noted_rev = current_rev
