"""`Fence`: no write goes out when this process may not lead any more, also if it was stopped and knows nothing of it.

A process that is stopped (SIGSTOP, a swapped-out machine, a suspended laptop) and goes on later finds its clock far
ahead: what it wanted to write is refused before it is sent, whatever it was doing. Time is looked at on the monotonic
clock and on that of the wall: of a suspended machine only the latter goes on.

What can't be seen from here: a request that was sent just before the process was stopped, and bytes that are on their
way. They have what is between the deadline for renewing a lease and its end. See also: `leases`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from oarlock.client.informers.observers import Observers
from oarlock.client.kinds import ResourceRef
from oarlock.client.queries import ListQuery
from oarlock.client.transport import ClientConnection, ClientRequest, ClientResponse, Transport
from oarlock.meta.context import Clock

__all__ = ["Fence", "FencedTransport", "LeaderLost", "WriteFence"]

_READS = frozenset(("GET", "HEAD"))


class LeaderLost(RuntimeError):
    """This process leads no longer, or can't be sure of it: it may not write."""


class WriteFence(Protocol):
    """What says whether a write may be sent now."""

    def check(self) -> float:
        """How long a write may take that is sent now, in seconds. Raises LeaderLost."""
        ...


class Fence:
    """Open while this process leads. Closed at first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s = 0.0
        self._until_epoch_s = 0.0
        self._ends_s = 0.0

    def open(self, begun_s: float, begun_epoch_s: float, *, act_s: float, lease_s: float) -> None:
        """Let writes pass for `act_s` after a renewal that was begun at these times; the lease lasts for `lease_s`."""
        self._until_s = begun_s + act_s
        self._until_epoch_s = begun_epoch_s + act_s
        self._ends_s = begun_s + lease_s

    def close(self) -> None:
        """Let nothing pass."""
        self._until_s = 0.0

    @property
    def left_s(self) -> float:
        """How long writes pass yet; 0 when they don't."""
        left_s = min(self._until_s - self._clock.monotonic(), self._until_epoch_s - self._clock.now())
        return max(0.0, left_s)

    @property
    def is_open(self) -> bool:
        return self.left_s > 0.0

    def check(self) -> float:
        """How long a write may take that is sent now, in seconds. Raises LeaderLost."""
        if not self.is_open:
            raise LeaderLost("this process doesn't lead any more, so that nothing is written")
        return self._ends_s - self._clock.monotonic()


class FencedTransport:
    """A `Transport` that sends writes only while `fence` is open; they wait for an answer no longer than the lease."""

    def __init__(self, transport: Transport, fence: WriteFence) -> None:
        self._transport = transport
        self._fence = fence

    async def send(self, request: ClientRequest) -> ClientResponse:
        if request.method not in _READS:
            left_s = self._fence.check()
            timeout_s = left_s if request.timeout_s is None else min(request.timeout_s, left_s)
            request = replace(request, timeout_s=timeout_s)
        return await self._transport.send(request)

    async def connect(self, request: ClientRequest, protocols: Sequence[str]) -> ClientConnection | ClientResponse:
        self._fence.check()
        return await self._transport.connect(request, protocols)

    async def close(self) -> None:
        await self._transport.close()

    def served_now(self) -> object:
        """See ``client.kinds.CatalogTransport``."""
        transport: Any = self._transport
        return transport.served_now() if hasattr(transport, "served_now") else None

    def cached_objects(self, ref: ResourceRef, namespace: str, query: ListQuery, observers: Observers[Any]) -> Any:
        """See ``client.informers.informer.CacheTransport``."""
        transport: Any = self._transport
        if not hasattr(transport, "cached_objects"):
            return None
        return transport.cached_objects(ref, namespace, query, observers)

    def cached_bytes(self, ref: ResourceRef, observers: Observers[Any], read: Callable[[bytes], Any]) -> Any:
        """See ``client.informers.informer.CacheTransport``."""
        transport: Any = self._transport
        return transport.cached_bytes(ref, observers, read) if hasattr(transport, "cached_bytes") else None
