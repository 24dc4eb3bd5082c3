"""`Route`: everything about a request that its method, path and query alone decide, worked out once and kept.

The router caches routes, so the second request for the same object finds its target, resource, decoded query
and bytes to put before the body ready. Must not know: how routes are found (`router`), what verbs do (`verbs`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.exchange import Exchange
from oarlock.endpoints.http import Response
from oarlock.meta.context import Target
from oarlock.registry.live import AnyResource
from oarlock.registry.resource import Resource
from oarlock.registry.scale import Scaling
from oarlock.registry.served import Gate

__all__ = ["Route", "Verb", "WatchBook", "deprecation"]


class WatchBook:
    """The watches that are open, so that shutting down can end them, and how many events each resource sent.

    Other answers that go on are here too, with the resource they belong to: `held`.
    """

    __slots__ = ("events", "held", "open")

    def __init__(self) -> None:
        self.open: set[Callable[[], None]] = set()
        self.held: dict[Callable[[], None], AnyResource] = {}
        self.events: dict[tuple[str, str, str], int] = {}

    def hold(self, end: Callable[[], None], resource: AnyResource) -> None:
        """Call `end` when the server leaves, or when `resource` is withdrawn or exchanged for another."""
        self.held[end] = resource

    def release(self, end: Callable[[], None]) -> None:
        self.held.pop(end, None)

    def withdraw(self, kept: Collection[AnyResource]) -> None:
        """End what is held for resources that are not `kept`."""
        there = {id(resource) for resource in kept}
        for end, resource in list(self.held.items()):
            if id(resource) not in there:
                end()

    def end_all(self) -> None:
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
    `waits` marks one that may run a user's asynchronous code, which needs a task from the start.
    `scaling` is set for ``/scale``: `entry` and `head` are then those of Scale, `resource` is what is scaled.
    """

    target: Target
    handle: Verb
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

    @property
    def version(self) -> str:
        return self.target.version

    def stored(self) -> Resource | None:
        """The resource if it is kept in the store, None for a virtual one."""
        return self.resource if isinstance(self.resource, Resource) else None

    def query(self, name: str) -> str | None:
        """The first value of a query parameter."""
        for key, value in self.pairs:
            if key == name:
                return value
        return None


Verb = Callable[[Exchange, Route], Awaitable[Response]]


def deprecation(entry: CatalogEntry) -> str:
    """The warning of a deprecated version, or ``""``. Source: KEP-1693."""
    version = entry.version
    if not version.deprecated:
        return ""
    return version.deprecation_warning or f"{entry.api_version} {entry.gvk.kind} is deprecated"
