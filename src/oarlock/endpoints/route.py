"""`Route`: all that a request's method, path and query alone determine, computed once and cached.

The router caches routes, so that for a repeated request target, resource, decoded query and the head of the answer are
ready.
Must not know: how routes are found (`router`), what verbs do (`verbs`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.context import Target
from oarlock.meta.memo import Memo
from oarlock.registry.gate import Gate
from oarlock.registry.live_resources import AnyResource
from oarlock.registry.scale import Scaling
from oarlock.registry.stored_resource import StoredResource

__all__ = ["Route", "Routes", "Verb", "WaitGroup", "WatchBook", "deprecation"]


class WaitGroup:
    """Counts requests that use something, so that it can be released when the last of them has ended."""

    __slots__ = ("_idle", "closed", "count")

    def __init__(self) -> None:
        self.count = 0
        self.closed = False
        """Whether new requests are refused."""
        self._idle: Callable[[], None] | None = None

    def settle(self) -> None:
        """One of the `count` requests has ended after `close`."""
        if not self.count:
            self._rest()

    def close(self, idle: Callable[[], None]) -> None:
        """Refuse new requests, and call `idle` when none is left: at once, or when the last has ended."""
        self.closed = True
        self._idle = idle
        self.settle()

    def _rest(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None:
            idle()


class WatchBook:
    """The open watches, to end them on shutdown, and how many events were sent for each resource.

    `held` has the other open-ended answers, with their resources. One that is added after shutdown began, or after its
    resource was withdrawn, ends at once.
    """

    __slots__ = ("_closed", "_served", "events", "held", "open")

    def __init__(self) -> None:
        self.open: set[Callable[[], None]] = set()
        self.held: dict[Callable[[], None], AnyResource] = {}
        self.events: dict[tuple[str, str, str], int] = {}
        self._closed = False
        self._served: frozenset[int] | None = None  # None: no resource was withdrawn yet

    def add(self, end: Callable[[], None]) -> None:
        """A watch has begun: call `end` on shutdown."""
        if self._closed:
            end()
        else:
            self.open.add(end)

    def hold(self, end: Callable[[], None], resource: AnyResource) -> None:
        """Call `end` on shutdown, or when `resource` is withdrawn or replaced."""
        if self._closed or (self._served is not None and id(resource) not in self._served):
            end()
        else:
            self.held[end] = resource

    def release(self, end: Callable[[], None]) -> None:
        """Undo `add` or `hold` for `end`."""
        self.open.discard(end)
        self.held.pop(end, None)

    def withdraw(self, kept: Collection[AnyResource]) -> None:
        """End what is held for resources that are not in `kept`, now or later."""
        self._served = served = frozenset(map(id, kept))
        for end, resource in list(self.held.items()):
            if id(resource) not in served:
                end()

    def end_all(self) -> None:
        """End everything, for shutdown."""
        self._closed = True
        for end in (*self.open, *self.held):
            end()


@dataclass(slots=True)
class Route:
    """Where a request goes. For a path outside every resource `entry` is None and `handle` answers it all.

    `head` is what stands before a body of this version; `warning` is sent with every answer of a deprecated one.
    `key` is the object's in the store. `cached` tells of a plain read: True when the cache may answer as it is
    (``resourceVersion=0`` and nothing else), False when it must be fresh (no query at all), None for any other.
    `endless` marks an answer that goes on for as long as somebody listens: no deadline ends it.
    `connects` marks a request that takes over its connection, which counts as one of its own kind.
    `waits` marks one that may run asynchronous code of the resource's author, which needs a task from the start.
    `scaling` is set for ``/scale``: `entry` and `head` are then those of Scale, `resource` is what is scaled.
    `requests` counts those that are carried out with the same route table.
    `unkept` is where the router remembers it once it is known who asks; None when that is done.
    `series` is where the metrics count its requests, once they have looked that up.
    """

    target: Target
    handle: Verb
    requests: WaitGroup
    entry: CatalogEntry | None = None
    resource: AnyResource | None = None
    gate: Gate | None = None
    watches: WatchBook | None = None
    pairs: Sequence[tuple[str, str]] = ()
    head: bytes = b""
    warning: str = ""
    key: str = ""
    cached: bool | None = None
    scaling: Scaling | None = None
    endless: bool = False
    connects: bool = False
    waits: bool = False
    unkept: Routes | None = None
    series: Any = None

    @property
    def version(self) -> str:
        return self.target.version

    def stored(self) -> StoredResource | None:
        """The resource if it is in the store, None for a virtual one."""
        return self.resource if isinstance(self.resource, StoredResource) else None

    def query(self, name: str) -> str | None:
        """The first value of a query parameter."""
        for key, value in self.pairs:
            if key == name:
                return value
        return None


Verb = Callable[[RequestState, Route], Awaitable[Response]]
Routes = Memo[tuple[str, str, str], Route]
"""Routes by method, path and query."""


def deprecation(entry: CatalogEntry) -> str:
    """The warning for a deprecated version, or ``""``. Source: KEP-1693."""
    version = entry.version
    if not version.deprecated:
        return ""
    return version.deprecation_warning or f"{entry.api_version} {entry.gvk.kind} is deprecated"
