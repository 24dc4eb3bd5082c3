"""`FairPlaces`: a number of places that owners share, so that one who wants many leaves some to others.

Pure but for the futures of those who wait. See also: `pool`, whose connections these are.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque

__all__ = ["FairPlaces"]


class FairPlaces:
    """At most `most` places. An owner gets one more while it has no more than are free: alone, that is half of them.

    Who has no name shares with nobody, and gets what is free.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    def taken(self, owner: str) -> bool:
        """Take a place, if there is one for `owner` at once."""
        if owner in self._waiting or not self._may(owner):
            return False
        self._take(owner)
        return True

    async def take(self, owner: str) -> None:
        """Take a place, or wait for one. Owners who wait get places in turn."""
        if self.taken(owner):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.give_back(owner)  # it was given in the same turn of the loop
            else:
                self._forget(owner, waiter)
            raise

    def give_back(self, owner: str) -> None:
        """A place is free again."""
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        for other in list(self._waiting):
            if not self._free:
                break
            if self._may(other):
                self._give(other)

    def _give(self, owner: str) -> None:
        """To the first of this owner who waits; after that it is the turn of others."""
        queue = self._waiting.pop(owner)
        waiter = queue.popleft()
        if queue:
            self._waiting[owner] = queue
        self._take(owner)
        waiter.set_result(None)

    def _take(self, owner: str) -> None:
        self._free -= 1
        self._held[owner] += 1

    def _may(self, owner: str) -> bool:
        return 0 < self._free >= (self._held[owner] if owner and owner in self._held else 1)

    def _forget(self, owner: str, waiter: asyncio.Future[None]) -> None:
        queue = self._waiting.get(owner)
        if queue is not None:
            queue.remove(waiter)
            if not queue:
                del self._waiting[owner]
